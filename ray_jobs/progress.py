"""One progress bar for all jobs: done, total, rate and time left."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm


def bar(label: str, total: int | None, unit: str, *, done: int = 0) -> tqdm[Any]:
    """Return a bar on stderr.

    Args:
        label: what is going on.
        total: how many units there are, or None if that is not known.
        unit: what is counted, such as "names".
        done: units that an earlier run finished; they count as done but not in the rate.
    """
    return tqdm(
        desc=label,
        total=total,
        initial=done,
        unit=f" {unit}",
        unit_scale=True,
        mininterval=0.5 if sys.stderr.isatty() else 10.0,
        dynamic_ncols=True,
        file=sys.stderr,
    )


def say(message: str) -> None:
    """Tell the user something, beside the progress bars."""
    tqdm.write(message, file=sys.stderr)
