"""Names from a plain text file, one a line, which belong to no terminology: each string is a concept of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

from biomodels.errors import InputError
from biomodels.schemas import NAMES
from biomodels.terminology.blocks import Block, head_lines, read_blocks
from biomodels.terminology.hashing import hash_strings
from biomodels.terminology.languages import UNKNOWN_LANGUAGE
from biomodels.terminology.normalise import Normaliser
from biomodels.terminology.rejects import Reject
from biomodels.terminology.visible import name_fault

_DICTIONARY_LINE = re.compile(rb"[^\s|]+\|\|")


def count_lines(uri: str) -> int:
    """Return the number of lines of a plain or gzip text file.

    Raises:
        InputError: it cannot be read, or begins like a dictionary (`id||name`), whose ids would be encoded as text.
    """
    if _DICTIONARY_LINE.match(next(head_lines(uri), b"")):
        remedy = "make names of it with `shard terminology --tsv`, or keep the part after || only"
        raise InputError.at(uri, 1, "looks like id||name, where a line should be a name", remedy)
    return sum(block.data.count(b"\n") + (not block.data.endswith(b"\n")) for block in read_blocks(uri))


def read_plain_text(uri: str, normaliser: Normaliser, rejects: list[Reject]) -> Iterator[pa.Table]:
    """Stream a plain or gzip text file as names (schema NAMES), block by block; equal strings come as often as there.

    A name's concept id is its normalised string. Blank lines are skipped.

    Args:
        uri: the file, UTF-8.
        normaliser: makes the strings.
        rejects: grows by the lines that are no UTF-8, hold a NUL, or show nothing.
    """
    for block in read_blocks(uri):
        names = list(_names(block, uri, rejects))
        strings = [normaliser(name) for name in names]
        count = len(names)
        columns = {
            "concept_id": pa.array(strings, pa.string()),
            "name_id": pa.array(hash_strings(strings)),
            "name": pa.array(names, pa.string()),
            "language": pa.repeat(UNKNOWN_LANGUAGE, count),
            "source": pa.repeat("", count),
            "term_type": pa.repeat("", count),
            "preferred": pa.repeat(True, count),
            "semantic_types": pa.array([[]] * count, NAMES.field("semantic_types").type),
        }
        yield pa.table(columns, schema=NAMES)


def _names(block: Block, uri: str, rejects: list[Reject]) -> Iterator[str]:
    for number, raw in enumerate(block.data.split(b"\n"), start=block.first_line):
        line = raw.removesuffix(b"\r")
        if not line.strip():
            continue
        try:
            name = line.decode("utf-8")
        except UnicodeDecodeError as error:
            rejects.append(Reject.of(uri, number, f"is not UTF-8 at byte {error.start + 1} of the line", line))
            continue
        fault = name_fault(name)
        if fault:
            rejects.append(Reject.of(uri, number, fault, line))
        else:
            yield name
