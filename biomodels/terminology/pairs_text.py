"""Synonym pairs as text, one `id||name_1||name_2` a line: the form that SapBERT's training code reads."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from typing import IO

from biomodels import storage
from biomodels.artifacts import Artifact, batches
from biomodels.terminology.rejects import Reject

SEPARATOR = "||"


def read_pairs_text(uri: str) -> Iterator[tuple[str, str, str] | Reject]:
    """Yield `(concept_id, name_1, name_2)` of each line, or a `Reject` for a line that has no such form.

    Blank lines are skipped and white space around a field is dropped. A name that holds `||` cannot be told from two
    fields, so its line is rejected, as are empty fields and undecodable bytes.
    """
    with storage.open_input(uri) as stream:
        for number, line in enumerate(_lines(stream), start=1):
            if not line.strip():
                continue
            try:
                fields = [field.strip() for field in line.decode("utf-8").split(SEPARATOR)]
            except UnicodeDecodeError as error:
                yield Reject.of(uri, number, f"is not UTF-8 at byte {error.start + 1}", line)
                continue
            if len(fields) != 3:
                yield Reject.of(uri, number, f"has {len(fields)} fields around '||' where 3 are needed", line)
            elif not all(fields):
                empty = ("concept id", "first name", "second name")[fields.index("")]
                yield Reject.of(uri, number, f"has an empty {empty}", line)
            else:
                yield fields[0], fields[1], fields[2]


def write_pairs_text(pairs: Artifact, sink: IO[bytes]) -> int:
    """Write a pairs artifact as text; return the number of lines.

    A pair whose concept id or name holds `||` has no text form and is left out.
    """
    written = 0
    for batch in batches(pairs, ["concept_id", "name_1", "name_2"], prefix="part-"):
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        lines = [SEPARATOR.join(row) for row in rows if not any(SEPARATOR in field for field in row)]
        sink.write("".join(line + "\n" for line in lines).encode())
        written += len(lines)
    return written


def _lines(stream: IO[bytes]) -> Iterable[bytes]:
    """Split a binary stream at LF alone, dropping a byte-order mark at its start."""
    rest = b""
    first = True
    while chunk := stream.read(storage.CHUNK_BYTES):
        if first:
            chunk = chunk.removeprefix(codecs.BOM_UTF8)
            first = False
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
    if rest:
        yield rest
