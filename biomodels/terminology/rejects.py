"""Input rows that cannot be used: kept with file, line and reason, counted, and never dropped in silence."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import astuple, dataclass

import pyarrow as pa

from biomodels.errors import RejectRateError
from biomodels.schemas import REJECTS

CONTENT_CHARACTERS = 200
"""How much of a bad row is kept to show."""

EXAMPLES = 3
"""How many bad rows an error message shows."""


@dataclass(frozen=True, order=True)
class Reject:
    """One unusable row. `file` is the file's base name, so that the artifact holds no path of a machine."""

    file: str
    line: int
    reason: str
    content: str

    @classmethod
    def of(cls, uri: str, line: int, reason: str, content: bytes | str) -> Reject:
        """Build a reject from the raw row, which is cut to `CONTENT_CHARACTERS`."""
        text = content.decode("utf-8", errors="backslashreplace") if isinstance(content, bytes) else content
        return cls(os.path.basename(uri), line, reason, text[:CONTENT_CHARACTERS])


def rejects_table(rejects: Iterable[Reject]) -> pa.Table:
    """Return rejects as a table (schema REJECTS), sorted by file and line."""
    columns = list(zip(*map(astuple, sorted(rejects)), strict=True)) or [(), (), (), ()]
    return pa.table(
        [pa.array(values, field.type) for values, field in zip(columns, REJECTS, strict=True)], schema=REJECTS
    )


def check_reject_rate(rejected: int, total: int, max_reject_rate: float, examples: Iterable[Reject]) -> None:
    """Stop if too many rows were unusable.

    Args:
        rejected: number of rejected rows.
        total: number of rows read, rejected ones included.
        max_reject_rate: share of rejected rows that is accepted, 0 to 1.
        examples: rejects to show; the first ones by file and line are taken.

    Raises:
        RejectRateError: the share is above `max_reject_rate`.
    """
    if not rejected or rejected <= max_reject_rate * total:
        return
    shown = "; ".join(f"{item.file}:{item.line}: {item.reason}" for item in sorted(examples)[:EXAMPLES])
    raise RejectRateError(
        f"{rejected} of {total} rows are malformed, above max_reject_rate={max_reject_rate:g} ({shown}); "
        "mend the file or raise --max-reject-rate"
    )
