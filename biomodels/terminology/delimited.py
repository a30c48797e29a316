"""Rows of a delimited text block: sound ones as Arrow columns, the others as rejects. No quoting, as in RRF and TSV."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from biomodels.terminology.blocks import Block
from biomodels.terminology.languages import UNKNOWN_LANGUAGE, to_iso
from biomodels.terminology.rejects import Reject
from biomodels.terminology.visible import NUL, VISIBLE

_LF, _CR = 10, 13


@dataclass
class Rows:
    """The sound rows of a block, and what was wrong with the others."""

    file: str
    table: pa.Table
    lines: npt.NDArray[np.int64]
    """Line number in the file of each row of `table`."""
    raw: list[bytes] | None
    rejects: list[Reject]
    _block: Block

    def reject_where(self, bad: pa.ChunkedArray | pa.Array, reason: str) -> None:
        """Turn the rows where `bad` is true into rejects."""
        rows = np.flatnonzero(bad.to_numpy(zero_copy_only=False))
        if not len(rows):
            return
        if self.raw is None:
            self.raw = self._block.data.split(b"\n")
        for line in self.lines[rows].tolist():
            self.rejects.append(Reject.of(self.file, line, reason, self.raw[line - self._block.first_line]))
        keep = np.ones(len(self.lines), dtype=bool)
        keep[rows] = False
        self.table = self.table.filter(pa.array(keep))
        self.lines = self.lines[keep]

    def reject_blank(self, column: str, what: str) -> None:
        """Turn the rows whose `column` holds no visible character into rejects."""
        self.reject_where(pc.invert(pc.match_substring_regex(self.table[column], VISIBLE)), f"has an empty {what}")

    def reject_nul(self, column: str, what: str) -> None:
        """Turn the rows whose `column` holds a NUL into rejects."""
        self.reject_where(pc.match_substring(self.table[column], NUL), f"has a NUL in its {what}")


def read_rows(
    block: Block, file: str, delimiter: str, columns: tuple[str, ...], wanted: list[str], *, closed: bool
) -> Rows:
    """Split a block's lines into columns.

    Args:
        block: whole lines; CRLF ends are accepted, blank lines are skipped.
        file: where it comes from, for the rejects.
        delimiter: one ASCII character.
        columns: the names of all columns in order.
        wanted: the columns to return, as strings.
        closed: a delimiter follows the last column too, as in RRF.

    Returns:
        The rows with the right number of columns and valid UTF-8; the rest are rejects.
    """
    data = block.data if block.data.endswith(b"\n") else block.data + b"\n"
    if b"\r\n" in data:
        data = data.replace(b"\r\n", b"\n")
    content = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(content == _LF)
    starts = np.r_[0, ends[:-1] + 1]
    found = np.searchsorted(np.flatnonzero(content == ord(delimiter)), np.r_[0, ends])
    expected = len(columns) - (0 if closed else 1)
    delimiters = np.diff(found)
    last_is_closed = closed & (content[np.maximum(ends - 1, 0)] == ord(delimiter))
    counts = delimiters + ~last_is_closed
    blank = ends == starts
    sound = (delimiters == expected) & (counts == len(columns)) & ~blank
    reasons = {
        row: _miscounted(int(counts[row]), len(columns), delimiter) for row in np.flatnonzero(~sound & ~blank).tolist()
    }
    if b"\r" in data:
        rows_with_cr = np.unique(np.searchsorted(ends, np.flatnonzero(content == _CR)))
        sound[rows_with_cr] = False
        reasons |= dict.fromkeys(rows_with_cr.tolist(), "holds a carriage return")
    bad_utf8 = _undecodable(data, starts, ends)
    sound[list(bad_utf8)] = False
    reasons |= bad_utf8
    rejects = [
        Reject.of(file, block.first_line + row, reasons[row], data[starts[row] : ends[row]]) for row in sorted(reasons)
    ]
    if not sound.all():
        data = b"".join(data[starts[row] : ends[row] + 1] for row in np.flatnonzero(sound).tolist())
    names = [*columns, *([""] if closed else [])]
    table = _parse_csv(data, delimiter, names, wanted)
    return Rows(file, table, block.first_line + np.flatnonzero(sound), None, rejects, block)


def iso_codes(column: pa.ChunkedArray) -> pa.Array:
    """Return the ISO code of each language code: "und" where it is blank, null where it is no language code."""
    encoded = pa.chunked_array(column.chunks, pa.string()).combine_chunks().dictionary_encode()
    return pa.array([_iso(code) for code in encoded.dictionary.to_pylist()], pa.string()).take(encoded.indices)


def _iso(code: str) -> str | None:
    try:
        return to_iso(code) if code.strip() else UNKNOWN_LANGUAGE
    except ValueError:
        return None


def _miscounted(count: int, needed: int, delimiter: str) -> str:
    """Return what is wrong with a row of `count` columns, the last one closed by a delimiter or not."""
    if count == needed:
        return f"does not end with {delimiter}"
    return f"has {count} column{'' if count == 1 else 's'} where {needed} are needed"


def _undecodable(data: bytes, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> dict[int, str]:
    """Return the rows that are not UTF-8, with the reason."""
    try:
        data.decode("utf-8")
        return {}
    except UnicodeDecodeError:
        pass
    found = {}
    for row, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        try:
            data[start:end].decode("utf-8")
        except UnicodeDecodeError as error:
            found[row] = f"is not UTF-8 at byte {error.start + 1} of the line"
    return found


def _parse_csv(data: bytes, delimiter: str, names: list[str], wanted: list[str]) -> pa.Table:
    if not data:
        return pa.schema([(name, pa.string()) for name in wanted]).empty_table()
    return csv.read_csv(
        pa.BufferReader(data),
        csv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
        csv.ParseOptions(delimiter=delimiter, quote_char=False, double_quote=False, ignore_empty_lines=False),
        csv.ConvertOptions(
            check_utf8=False,
            include_columns=wanted,
            column_types=dict.fromkeys(wanted, pa.string()),
            strings_can_be_null=False,
        ),
    ).combine_chunks()
