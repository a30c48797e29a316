"""Articles as JSON lines: one object a line, with `pmid`, `title`, `abstract` and what else is known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from biomodels.literature.articles import Article, Parsed, Section, fold_space, parse_languages, parse_pmid
from biomodels.terminology.blocks import read_blocks
from biomodels.terminology.rejects import Reject

_SEPARATORS = re.compile(r"[;,|\s]+")


def _pmid(value: Any) -> int:
    number = parse_pmid(str(value)) if isinstance(value, int | str) and not isinstance(value, bool) else None
    if number is None:
        raise ValueError("is no PMID")
    return number


def _codes(value: Any) -> Any:
    return [code for code in _SEPARATORS.split(value) if code] if isinstance(value, str) else value


def _texts(value: Any) -> Any:
    return "" if value is None else value


class _Line(BaseModel):
    """The fields of a line. Others are passed over."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    pmid: Annotated[int, BeforeValidator(_pmid)]
    title: Annotated[str, BeforeValidator(_texts)] = ""
    abstract: Annotated[str, BeforeValidator(_texts)] = ""
    sections: list[Section] | None = None
    version: int | None = Field(None, ge=0, le=999_999)
    year: int | None = Field(None, ge=1000, le=9999)
    languages: Annotated[list[str] | None, BeforeValidator(_codes)] = Field(
        None, validation_alias=AliasChoices("languages", "language")
    )
    publication_types: list[str] | None = Field(None, validation_alias=AliasChoices("publication_types", "pubtypes"))
    status: str | None = None
    retracted_by: list[str] | None = None

    def article(self) -> Article:
        sections = self.sections if self.sections is not None else [Section(None, self.abstract)]
        folded = [Section(section.label or None, fold_space(section.text)) for section in sections]
        return Article(
            pmid=self.pmid,
            version=1 if self.version is None else self.version,
            title=fold_space(self.title),
            sections=[section for section in folded if section.text],
            year=self.year,
            languages=parse_languages(self.languages) if self.languages else None,
            publication_types=self.publication_types or [],
            status=self.status,
            retracted_by=self.retracted_by or [],
        )


def read_jsonl(uri: str) -> Iterator[Parsed]:
    """Stream a file of JSON lines, plain or gzip.

    Of a line, `pmid` is needed (number or digits); `title`, `abstract` or `sections` (`[{"label": …, "text": …}]`),
    `version`, `year`, `languages` or `language` (codes, as a list or joined by `;`), `publication_types`, `status` and
    `retracted_by` may be given, also as null.

    Yields:
        An `Article`, or a `Reject` for a line that is no such object.

    Raises:
        InputError: the file cannot be read.
    """
    for block in read_blocks(uri):
        for number, raw in enumerate(block.data.split(b"\n"), start=block.first_line):
            if raw.strip():
                try:
                    yield _Line.model_validate_json(raw).article()
                except ValidationError as error:
                    yield Reject.of(uri, number, _reason(error), raw)


def _reason(error: ValidationError) -> str:
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"]))
    message = first["msg"].removeprefix("Value error, ")
    return f"{field}: {message}" if field else message
