"""What an index of sentences stores beside the vectors: the sentences, their ids and their metadata."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from biomodels import storage
from biomodels.errors import InputError, UsageError

ENTRIES = pa.schema([("id", pa.string()), ("sentence", pa.string()), ("metadata", pa.string())])
"""One row per sentence; `metadata` is JSON or null."""


def read_lines(file: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the sentences of a UTF-8 file, one per line, without surrounding white space; blank lines are passed over.

    Raises:
        InputError: the file cannot be read, or a line is not UTF-8.
    """
    uri = os.fspath(file)
    try:
        for number, line in enumerate(storage.lines(uri), start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            except UnicodeDecodeError as error:
                place = f"is not UTF-8 at byte {error.start + 1} of the line"
                raise InputError.at(uri, number, place, "save the file as UTF-8") from error
            if text:
                yield text
    except OSError as error:
        raise InputError.at(uri, None, f"cannot be read ({error})", "check the path") from error


def entry_tables(
    sentences: Iterable[str],
    first: int,
    rows: int,
    ids: Sequence[str] | None = None,
    metadata: Sequence[Any] | None = None,
) -> Iterator[pa.Table]:
    """Yield tables of ENTRIES.

    Args:
        sentences: any iterable of texts.
        first: number of the first sentence; without `ids` a sentence's id is its number.
        rows: most rows of a table.
        ids: one per sentence.
        metadata: one per sentence: anything that JSON can hold, or None.

    Raises:
        InputError: a sentence is no text.
        UsageError: ids or metadata are not one per sentence, or cannot be stored.
    """
    stream = iter(sentences)
    start = 0
    while texts := list(islice(stream, rows)):
        stop = start + len(texts)
        for number, text in enumerate(texts, start):
            _check_text(text, number)
        own = [str(first + number) for number in range(start, stop)]
        chosen = own if ids is None else _slice("ids", ids, start, stop)
        notes = [None] * len(texts) if metadata is None else _slice("metadata", metadata, start, stop)
        yield pa.table([chosen, texts, [_json(note) for note in notes]], schema=ENTRIES)
        start = stop
    for name, given in (("ids", ids), ("metadata", metadata)):
        if given is not None and len(given) != start:
            raise UsageError(f"{name}: there are {len(given):,} for {start:,} sentences; give one for each")


def entry(table: pa.Table, row: int) -> tuple[str, str, Any]:
    """Return a row's id, sentence and metadata."""
    found = table.slice(row, 1).to_pylist()[0]
    note = found["metadata"]
    return found["id"], found["sentence"], None if note is None else json.loads(note)


def _check_text(text: Any, number: int) -> None:
    if not isinstance(text, str):
        raise InputError(f"sentence {number}: is a {type(text).__name__}, not a text")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"sentence {number}: is no valid text ({error.reason})") from error


def _slice(name: str, given: Sequence[Any], start: int, stop: int) -> list[Any]:
    values = list(given[start:stop])
    if len(values) != stop - start:
        raise UsageError(f"{name}: there are {len(given):,}, fewer than sentences; give one for each")
    if name == "ids":
        wrong = next((value for value in values if not isinstance(value, str) or not value), None)
        if wrong is not None:
            raise UsageError(f"ids: {wrong!r} is no id; give texts that are not empty")
    return values


def _json(note: Any) -> str | None:
    if note is None:
        return None
    try:
        return json.dumps(note, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"metadata: {note!r} cannot be stored as JSON ({error})") from error
