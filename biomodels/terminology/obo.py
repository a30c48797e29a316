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
from biomodels.terminology.visible import name_fault

LABEL = "LABEL"
SCOPES = ("EXACT", "NARROW", "BROAD", "RELATED")
"""Synonym scopes, in the order in which a synonym may stand in for a label that was filtered out."""

LANGUAGE = "en"
OUT_OF_USE = 16

_STANZA = re.compile(r"\[([A-Z][A-Za-z_-]*)\]\s*(?:!.*)?")
_SYNONYM = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(EXACT|NARROW|BROAD|RELATED)?\s*([^\s\[]*)')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", "W": " "}


@dataclass
class _Term:
    """A `[Term]` stanza while it is read."""

    line: int
    concept_id: str = ""
    label: str | None = None
    """None where no line gives a name, empty where that line was rejected."""
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
        """Parse whole stanzas.

        Rejected are terms without an id or a label; in terms, lines without a tag, second ids and labels, synonyms
        without quotes, and names that are empty or hold a NUL; anywhere, undecodable lines and stanza headers that are
        not of the form `[Word]` or spell `[Term]` in another case, with which their whole stanza goes. Stanzas of other
        kinds, such as `[Typedef]`, are no terms and are passed over.
        """
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
                line = "[" if raw.lstrip().startswith(b"[") else ""
                fault = None
            else:
                fault = _stanza_fault(line) if line.startswith("[") else _read_tag(term, line) if term else None
            if fault is not None:
                rejects.append(Reject.of(file, number, fault, raw))
            if line.startswith("["):
                if term is not None:
                    yield term
                header = _STANZA.fullmatch(line)
                term = _Term(number) if header and header[1] == "Term" else None
        if term is not None:
            yield term

    def _names(self, term: _Term, file: str, rejects: list[Reject]) -> Iterator[tuple[object, ...]]:
        """Yield the rows of a term, in the columns of RECORDS."""
        if not term.concept_id or term.label is None:
            missing = "name" if term.concept_id else "id"
            shown = term.concept_id or term.label or ""
            rejects.append(Reject.of(file, term.line, f"is a term without {missing}", shown))
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


def _stanza_fault(line: str) -> str | None:
    """Return what is wrong with a stanza's header, if anything."""
    header = _STANZA.fullmatch(line)
    if header is None or (header[1] != "Term" and header[1].lower() == "term"):
        return "is no stanza header such as [Term]; its stanza is not read"
    return None


def _read_tag(term: _Term, line: str) -> str | None:
    """Take in one line of a term's stanza; return what is wrong with it, if anything."""
    if not line or line.startswith("!"):
        return None
    tag, colon, value = line.partition(":")
    tag, value = tag.rstrip(), value.strip()
    if not colon or not tag:
        return "is a line of a term without a tag and a colon"
    if tag == "id":
        if term.concept_id:
            return "is a second id of its term"
        term.concept_id = value.partition(" ")[0]
    elif tag == "name":
        return _read_label(term, _unescape(value))
    elif tag == "is_obsolete":
        term.obsolete = value.startswith("true")
    elif tag == "synonym":
        return _read_synonym(term, value)
    return None


def _read_label(term: _Term, name: str) -> str | None:
    if term.label is not None:
        return "is a second name of its term"
    fault = name_fault(name)
    term.label = "" if fault else name
    return fault


def _read_synonym(term: _Term, value: str) -> str | None:
    match = _SYNONYM.match(value)
    if match is None:
        return "is a synonym without a quoted name"
    name = _unescape(match[1])
    if fault := name_fault(name):
        return fault
    term.synonyms.append((name, match[2] or "RELATED", match[3].lower().startswith("obsolete")))
    return None


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), text) if "\\" in text else text
