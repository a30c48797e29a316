"""What the `context` rendering takes from ontologies in OBO format: names of phenotypes, synonyms, definitions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from biomodels.errors import InputError
from biomodels.terminology.blocks import read_blocks
from biomodels.terminology.obo import LABEL, OboFormat
from biomodels.terminology.records import ACTIVE, read

_ID = re.compile(r"^id:\s*(\S+)", re.MULTILINE)
_DEFINITION = re.compile(r'^def:\s*"((?:[^"\\]|\\.)*)"', re.MULTILINE)
_ESCAPED = re.compile(r"\\(.)")


def labels(uri: str) -> dict[str, str]:
    """Return the label of each term in use, by id."""
    return {concept: name for concept, name, kind in _names(uri) if kind == LABEL}


def exact_synonyms(uri: str) -> dict[str, list[str]]:
    """Return the exact synonyms of each term in use, by id, in the order of the file."""
    found: dict[str, list[str]] = {}
    for concept, name, kind in _names(uri):
        if kind == "EXACT":
            found.setdefault(concept, []).append(name)
    return found


def definitions(uri: str) -> dict[str, str]:
    """Return the definition of each term, by id."""
    found = {}
    for block in read_blocks(uri, boundary=OboFormat.boundary):
        for stanza in block.data.decode("utf-8", errors="replace").split("\n["):
            concept, definition = _ID.search(stanza), _DEFINITION.search(stanza)
            if concept and definition:
                found[concept[1]] = " ".join(_ESCAPED.sub(r"\1", definition[1]).split())
    return found


def _names(uri: str) -> Iterator[tuple[str, str, str]]:
    """Yield (id, name, kind) of the names in use.

    Raises:
        InputError: the file holds none.
    """
    some = False
    for parsed in read(uri, OboFormat.of(uri)):
        columns = [parsed.records[name].to_pylist() for name in ("concept_id", "name", "term_type", "state")]
        for concept, name, kind, state in zip(*columns, strict=True):
            if state == ACTIVE:
                some = True
                yield concept, name, kind
    if not some:
        raise InputError.at(uri, None, "holds no term in use", "give an ontology in OBO format")
