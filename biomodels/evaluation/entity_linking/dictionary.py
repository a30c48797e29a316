"""Dictionaries of benchmarks: `id||name` or `id<TAB>name` lines, plain or gzipped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from biomodels import storage
from biomodels.errors import InputError
from biomodels.evaluation.entity_linking.text_files import Lines, MalformedLineError, fields, first_line
from biomodels.evaluation.linking import SEPARATOR, UNLINKABLE, NamedIds
from biomodels.evaluation.metrics import IdSet, id_set

Concepts = tuple[str, str]
"""An id field, such as "D001943|114480", and a text."""

SPLIT_IDS = re.compile(r"[|+]")


def read_dictionary(lines: Lines, uri: str) -> NamedIds:
    """Read a dictionary as it is: the case kept, white space at the ends stripped, duplicates and order kept.

    Raises:
        InputError: it is missing or has no name.
        RejectRateError: too many lines are malformed, such as a name with "||" in it.
    """
    head = first_line(uri)
    separator = "\t" if SEPARATOR not in head and "\t" in head else SEPARATOR
    before, unlinkable = len(lines.rejects), 0

    def parse(line: str) -> Concepts | None:
        nonlocal unlinkable
        field, text = (part.strip() for part in fields(line, separator, [2], f"id{separator}name"))
        if not field.strip("|") or not text:
            raise MalformedLineError("has an empty id" if text else "has an empty name")
        if field.lower() == UNLINKABLE:
            unlinkable += 1
            return None
        return field, text

    found = named_ids(uri, lines.parse(uri, parse))
    if not found.texts:
        raise InputError(f"{uri}: has no line of the form id{separator}name; give another dictionary")
    found.sha256 = storage.sha256(uri)
    found.rejects, found.unlinkable = lines.rejects[before:], unlinkable
    return found


def named_ids(uri: str, concepts: Iterable[Concepts]) -> NamedIds:
    """Collect (id field, text) rows; equal id fields share one set, since a large terminology has millions."""
    result, sets = NamedIds(uri), dict[str, IdSet]()
    for field, text in concepts:
        result.texts.append(text)
        result.ids.append(sets.setdefault(field, id_set(field)))
    return result


def with_texts(dictionary: NamedIds, normalise: Callable[[str], str]) -> NamedIds:
    """Return the dictionary with normalised names; names that normalise to nothing are left out."""
    texts = [normalise(text) for text in dictionary.texts]
    kept = [row for row, text in enumerate(texts) if text]
    return NamedIds(
        dictionary.uri,
        dictionary.sha256,
        [texts[row] for row in kept],
        [dictionary.ids[row] for row in kept],
        dictionary.rejects,
        dictionary.unlinkable,
    )


def one_of(folder: str, files: Iterable[str], pattern: str, what: str) -> str:
    """Return the URI of the one file of a folder whose name matches.

    Raises:
        InputError: none or several match.
    """
    found = [name for name in files if re.fullmatch(pattern, name.rsplit("/", 1)[-1])]
    if len(found) != 1:
        shown = f"several files may be {what}: {', '.join(found[:4])}" if found else f"has no {what}"
        raise InputError(f"--data {folder}: {shown}; give it by --dictionary")
    return storage.join(folder, found[0])
