"""Text lines of fields between double bars: `id||name` and `id||name_1||name_2`, as SapBERT and BioSyn read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc

SEPARATOR = "||"

_UNWRITABLE = r"\|\||[\n\r]"
_OPEN_END = r"\|\||[\n\r]|\|$"
"""For a field that another follows: `a|` and `b` would be read as `a` and `|b`."""


def write_lines(batches: Iterable[Sequence[pa.Array]], sink: IO[bytes]) -> tuple[int, int]:
    """Write rows of string columns as lines, column by column.

    A line that would not split into the same fields again, as where one of them holds `||`, is left out.

    Args:
        batches: string arrays of equal length, one for each field.
        sink: gets UTF-8 with LF ends.

    Returns:
        How many lines were written, and how many left out.
    """
    written = left_out = 0
    for fields in batches:
        *leading, last = fields
        bad = pc.match_substring_regex(last, _UNWRITABLE)
        for field in leading:
            bad = pc.or_(bad, pc.match_substring_regex(field, _OPEN_END))
        keep = pc.invert(bad)
        parts = [part for field in fields for part in (field.filter(keep), SEPARATOR)][:-1]
        lines = pc.binary_join_element_wise(*parts, "\n", "")
        if len(lines):
            offsets = lines.buffers()[1]
            ends = pa.Array.from_buffers(pa.int32(), len(lines) + 1, [None, offsets], offset=lines.offset)
            sink.write(memoryview(lines.buffers()[2])[ends[0].as_py() : ends[-1].as_py()])
        written, left_out = written + len(lines), left_out + len(keep) - len(lines)
    return written, left_out
