"""Names from an OBO file (OBO Flat File Format 1.4): labels and synonyms of its terms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from biomodels.errors import InputError
from biomodels.terminology.blocks import Block, head_lines
from biomodels.terminology.records import ACTIVE, OBSOLETE, RECORDS, Parsed
from biomodels.terminology.rejects import Reject

LABEL = "LABEL"
SCOPES = ("EXACT", "NARROW", "BROAD", "RELATED")
"""Synonym scopes, in the order in which a synonym may stand in for a label that was filtered out."""

LANGUAGE = "en"
OUT_OF_USE = 16

_SYNONYM = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(EXACT|NARROW|BROAD|RELATED)?\s*([^\s\[]*)')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", "W": " "}


@dataclass
class _Term:
    """A `[Term]` stanza while it is read."""

    line: int
    concept_id: str = ""
    label: str = ""
    obsolete: bool = False
    synonyms: list[tuple[str, str, bool]] = field(default_factory=list)


@dataclass(frozen=True)
class OboFormat:
    """An OBO file.

    The label's term type is `LABEL`, a synonym's its scope (RELATED where none is given). The source is the prefix of
    the term's id, or the file's ontology where the id has none. Alternative ids are not names. Synonyms whose type
    says "obsolete" count as obsolete, like all names of an obsolete term.
    """

    ontology: str = ""
    boundary = b"\n["

    @classmethod
    def of(cls, uri: str) -> OboFormat:
        """Read the header of a file.

        Raises:
            InputError: the file holds no stanza at all.
        """
        ontology = ""
        for line in head_lines(uri):
            if line.startswith(b"["):
                return cls(ontology)
            if line.startswith(b"ontology:"):
                ontology = line.decode("utf-8", errors="replace").partition(":")[2].strip()
        raise InputError.at(uri, None, "holds no [Term]", "give an ontology in OBO format")

    def parse(self, block: Block, file: str) -> Parsed:
        """Parse whole stanzas; a term without an id or a label, a synonym without quotes, and undecodable lines are
        rejected."""
        rejects: list[Reject] = []
        rows = [row for term in self._terms(block, file, rejects) for row in self._names(term, file, rejects)]
        columns = list(zip(*rows, strict=True)) or [()] * len(RECORDS)
        arrays = [pa.array(values, kind.type) for values, kind in zip(columns, RECORDS, strict=True)]
        return Parsed(records=pa.table(arrays, schema=RECORDS), rejects=rejects)

    def _terms(self, block: Block, file: str, rejects: list[Reject]) -> Iterator[_Term]:
        term: _Term | None = None
        for number, raw in enumerate(block.data.split(b"\n"), start=block.first_line):
            try:
                line = raw.decode("utf-8").strip()
            except UnicodeDecodeError as error:
                rejects.append(Reject.of(file, number, f"is not UTF-8 at byte {error.start + 1} of the line", raw))
                continue
            if line.startswith("["):
                if term is not None:
                    yield term
                term = _Term(number) if line == "[Term]" else None
            elif term is not None and not _read_tag(term, line):
                rejects.append(Reject.of(file, number, "is a synonym without a quoted name", raw))
        if term is not None:
            yield term

    def _names(self, term: _Term, file: str, rejects: list[Reject]) -> Iterator[tuple[object, ...]]:
        """Yield the rows of a term, in the columns of RECORDS."""
        if not term.concept_id or not term.label:
            missing = "id" if not term.concept_id else "name"
            rejects.append(Reject.of(file, term.line, f"is a term without {missing}", term.concept_id or term.label))
            if not term.concept_id:
                return
        prefix, colon, _ = term.concept_id.partition(":")
        source = prefix if colon else self.ontology
        named = [(term.label, LABEL, False)] if term.label else []
        for name, term_type, out_of_use in named + term.synonyms:
            obsolete = term.obsolete or out_of_use
            rank = 0 if term_type == LABEL else 1 + SCOPES.index(term_type)
            state = OBSOLETE if obsolete else ACTIVE
            yield term.concept_id, name, LANGUAGE, source, term_type, rank + OUT_OF_USE * obsolete, state


def _read_tag(term: _Term, line: str) -> bool:
    """Take in one line of a stanza; return False if it is a synonym that cannot be read."""
    tag, _, value = line.partition(":")
    value = value.strip()
    if tag == "id":
        term.concept_id = value.partition(" ")[0]
    elif tag == "name":
        term.label = _unescape(value)
    elif tag == "is_obsolete":
        term.obsolete = value.startswith("true")
    elif tag == "synonym":
        match = _SYNONYM.match(value)
        name = _unescape(match[1]) if match else ""
        if match is None or not name.strip():
            return False
        term.synonyms.append((name, match[2] or "RELATED", match[3].lower().startswith("obsolete")))
    return True


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), text) if "\\" in text else text
