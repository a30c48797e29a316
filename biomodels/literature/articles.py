"""What every reader of articles yields: articles, deletions and rejects, in the order of the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import pyarrow as pa

from biomodels.artifacts import digest_bytes
from biomodels.schemas import ARTICLES
from biomodels.terminology.languages import UNKNOWN_LANGUAGE, to_iso
from biomodels.terminology.rejects import Reject

ENGLISH = ["en"]
"""The languages of an article that is in English and in nothing else."""

GREATEST_PMID = 2**31 - 1
"""Above any PMID that NLM can have given; a larger number is a mistake."""

EVENTS = ARTICLES
"""What happened to PMIDs, in order: a row is an article or, where `version` is null, a deletion."""

_YEAR = re.compile(r"\d{4}")
_AUTHORS_TRANSLATION = re.compile(r"\s*\(author's transl\)\s*$", re.IGNORECASE)


@dataclass(frozen=True)
class Section:
    """A section of an abstract. `label` is None for an unlabelled one."""

    label: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Article:
    """A record as its source gives it; texts have their white space folded."""

    pmid: int
    title: str
    sections: Sequence[Section]
    version: int = 1
    year: int | None = None
    languages: list[str] | None = None
    publication_types: list[str] = field(default_factory=list)
    status: str | None = None
    retracted_by: list[str] = field(default_factory=list)
    vernacular_title: str | None = None
    plain_language_summary: str | None = None
    book: bool = False

    @property
    def abstract(self) -> str:
        """The sections as one text, see `join_sections`."""
        return join_sections(self.sections)


@dataclass(frozen=True, slots=True)
class Deletion:
    """The PMID is deleted, with all versions that came before."""

    pmid: int


Event = Article | Deletion
Parsed = Event | Reject


def fold_space(text: str) -> str:
    """Return `text` with each run of white space turned into one space, and none at the ends."""
    return " ".join(text.split())


def join_sections(sections: Sequence[Section]) -> str:
    """Return an abstract's text: sections joined by a space, each led by its label and a colon if it has one."""
    return " ".join(f"{section.label}: {section.text}" if section.label else section.text for section in sections)


def section_spans(sections: Sequence[Section]) -> list[tuple[int, int]]:
    """Return where each section's text, without its label, stands in the abstract (code points, end exclusive)."""
    spans, position = [], 0
    for section in sections:
        start = position + (len(section.label) + 2 if section.label else 0)
        spans.append((start, start + len(section.text)))
        position = spans[-1][1] + 1
    return spans


def article_text(title: str, abstract: str) -> str:
    """Return the text that a model reads."""
    return f"{title} {abstract}".strip()


def translated_title(title: str) -> str | None:
    """Return a title that NLM translated, `[Title.] (author's transl)`, without the brackets; None for any other."""
    plain = _AUTHORS_TRANSLATION.sub("", title)
    bracketed = plain.startswith("[") and plain.rstrip(".").endswith("]")
    return _AUTHORS_TRANSLATION.sub("", plain.rstrip(".")[1:-1]).strip() if bracketed else None


def parse_pmid(text: str) -> int | None:
    """Return a PMID, or None if `text` is none (a positive whole number, without leading zeros)."""
    plain = text.strip()
    if not plain.isascii() or not plain.isdigit() or plain.startswith("0"):
        return None
    number = int(plain) if len(plain) <= 10 else GREATEST_PMID + 1
    return number if number <= GREATEST_PMID else None


def parse_year(text: str) -> int | None:
    """Return the first four digits of a date such as `1998 Dec-1999 Jan`, or None if there are none."""
    found = _YEAR.search(text)
    return int(found[0]) if found else None


def parse_languages(codes: Iterable[str]) -> list[str]:
    """Return the ISO codes of language codes, each once, in their order; "und" for what is no code."""
    found = []
    for code in codes:
        try:
            found.append(to_iso(code))
        except ValueError:
            found.append(UNKNOWN_LANGUAGE)
    return list(dict.fromkeys(found))


def events_table(events: Iterable[Event], source_file: str) -> pa.Table:
    """Return events as a table (schema EVENTS) in their order.

    Args:
        events: articles and deletions.
        source_file: base name of the file they come from.
    """
    rows = [_row(event, source_file) for event in events]
    columns = list(zip(*rows, strict=True)) or [()] * len(EVENTS)
    return pa.table([pa.array(values, kind.type) for values, kind in zip(columns, EVENTS, strict=True)], schema=EVENTS)


def in_batches(parsed: Iterable[Parsed], size: int) -> Iterator[list[Parsed]]:
    """Cut a stream into lists of `size`."""
    stream = iter(parsed)
    while batch := list(islice(stream, size)):
        yield batch


def _row(event: Event, source_file: str) -> tuple[object, ...]:
    """Return an event's row, in the columns of EVENTS."""
    if isinstance(event, Deletion):
        return (event.pmid, *[None] * 9, source_file, *[None] * 6)
    abstract = event.abstract
    structured = event.sections if len(event.sections) > 1 or any(section.label for section in event.sections) else ()
    return (
        event.pmid,
        event.version,
        event.title,
        abstract,
        [{"label": section.label, "text": section.text} for section in structured],
        event.year,
        event.languages,
        event.publication_types,
        event.status,
        bool(event.retracted_by),
        source_file,
        digest_bytes(article_text(event.title, abstract).encode()),
        event.retracted_by,
        translated_title(event.title),
        event.vernacular_title,
        event.plain_language_summary,
        event.book,
    )
