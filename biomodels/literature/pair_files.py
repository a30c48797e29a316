"""Files of labelled pairs, truth, answers, ranked candidates and PMIDs that a user brings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from biomodels import storage
from biomodels.artifacts import Artifact, batches
from biomodels.errors import InputError
from biomodels.literature.articles import parse_pmid
from biomodels.row_files import read_rows
from biomodels.schemas import PROVENANCES
from biomodels.terminology.blocks import read_blocks
from biomodels.terminology.rejects import Reject

M = TypeVar("M", bound=BaseModel)

_SEPARATOR = " - "
_TRUE, _FALSE = ("1", "true", "yes", "y", "right", "1.0"), ("0", "false", "no", "n", "wrong", "0.0")


def _pmid(value: Any) -> int:
    number = parse_pmid(str(value)) if isinstance(value, int | str) and not isinstance(value, bool) else None
    if number is None:
        raise ValueError(f"{value!r} is no PMID")
    return number


def _entry(value: Any) -> Any:
    """Return the id of an entry, or of a rendered thread, which starts with it."""
    return value.split(_SEPARATOR)[0].strip() if isinstance(value, str) else value


def _verdict(value: Any) -> Any:
    text = str(value).strip().lower()
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise ValueError(f"{value!r} is neither yes nor no (1/0, true/false, yes/no, right/wrong)")


Pmid = Annotated[int, BeforeValidator(_pmid)]
Verdict = Annotated[bool, BeforeValidator(_verdict)]
EntryId = Annotated[
    str,
    BeforeValidator(_entry),
    Field(min_length=1, validation_alias=AliasChoices("g2p_id", "g2p id", "g2p_lgmde")),
]


class GivenPair(BaseModel):
    """A labelled pair. `split` may fix where it goes; `title` and `abstract` serve where no dataset has the article."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    pmid: Pmid
    g2p_id: EntryId
    label: float = Field(ge=0, le=1, allow_inf_nan=False)
    provenance: str = Field("annotated", validation_alias=AliasChoices("provenance", "label_source"))
    split: str | None = Field(None, pattern="^(train|dev|test)$")
    title: str | None = None
    abstract: str | None = None

    @model_validator(mode="after")
    def _known_provenance(self) -> GivenPair:
        """Take a provenance out of a description such as `litdd-map(silver,LLM)`."""
        found = [name for name in PROVENANCES if name in self.provenance.lower()]
        if not found:
            raise ValueError(f"provenance: {self.provenance!r} names none of {', '.join(PROVENANCES)}")
        # A description may hold several: "annotated" is the most general.
        self.provenance = found[-1] if found[0] == "annotated" else found[0]
        return self


class TruthPair(BaseModel):
    """A pair that an independent source asserts."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    pmid: Pmid
    g2p_id: EntryId
    in_scope: Verdict | None = None
    scope_category: str | None = None
    source: str = Field("truth", validation_alias=AliasChoices("source", "label_source"))

    @property
    def scope(self) -> bool | None:
        """Whether the pair is in scope, if the file says so."""
        if self.in_scope is None and self.scope_category is not None:
            return self.scope_category == "in_scope"
        return self.in_scope


class Answer(BaseModel):
    """A judged pair: `right`, perhaps also by a second judge, in a stratum."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    pmid: Pmid
    g2p_id: EntryId
    right: Verdict = Field(validation_alias=AliasChoices("right", "label", "verdict"))
    second: Verdict | None = Field(None, validation_alias=AliasChoices("second", "second_verdict"))
    stratum: str = "unnamed"


class Ranked(BaseModel):
    """An article's entries, the best first, with their scores if there are any."""

    model_config = ConfigDict(extra="ignore")

    pmid: Pmid
    g2p_ids: list[str]
    scores: list[float] | None = None

    @model_validator(mode="after")
    def _one_score_each(self) -> Ranked:
        if self.scores is not None and len(self.scores) != len(self.g2p_ids):
            raise ValueError(f"{len(self.g2p_ids)} g2p_ids but {len(self.scores)} scores")
        return self


def read_all(uri: str, model: type[M]) -> list[tuple[int, M]]:
    """Read a file all of whose rows must be good.

    Raises:
        InputError: naming the first bad row.
    """
    return list(_good(uri, model))


def read_ranked(uri: str) -> Iterator[Ranked]:
    """Stream ranked candidates: a scores artifact (ranked by score, equal scores by id) or JSON lines in rank order.

    Raises:
        InputError: naming the first bad row.
    """
    if storage.is_file(uri):
        yield from read_ranked_lines(uri)
        return
    for batch in batches(Artifact.open(uri, "scores"), ["pmid", "g2p_ids", "scores"]):
        for row in batch.to_pylist():
            order = sorted(zip(row["g2p_ids"], row["scores"], strict=True), key=lambda pair: (-pair[1], pair[0]))
            yield Ranked(pmid=row["pmid"], g2p_ids=[pair[0] for pair in order], scores=[pair[1] for pair in order])


def read_ranked_lines(uri: str) -> Iterator[Ranked]:
    """Stream JSON lines of ranked candidates.

    Raises:
        InputError: naming the first bad row.
    """
    return (row for _, row in _good(uri, Ranked))


def read_pmids(uri: str) -> set[int]:
    """Read a set of PMIDs: a text file with one a line, or any artifact whose rows have one.

    Raises:
        InputError: a line is no PMID.
    """
    if not storage.is_file(uri):
        return {
            int(pmid) for batch in batches(Artifact.open(uri), ["pmid"], "part-") for pmid in batch["pmid"].to_pylist()
        }
    found = set()
    for block in read_blocks(uri):
        for line, raw in enumerate(block.data.split(b"\n"), start=block.first_line):
            if text := raw.decode("utf-8", errors="replace").strip():
                pmid = parse_pmid(text)
                if pmid is None:
                    raise InputError.at(uri, line, f"{text[:40]!r} is no PMID", "give one PMID a line")
                found.add(pmid)
    return found


def _good(uri: str, model: type[M]) -> Iterator[tuple[int, M]]:
    for row in read_rows(uri, model):
        if isinstance(row, Reject):
            raise InputError.at(uri, row.line, row.reason, "mend or delete the row")
        yield row
