"""The picture of a training curve."""

from __future__ import annotations

import json
from collections.abc import Sequence


def draw_curve(lines: Sequence[str], path: str) -> None:
    """Draw loss over steps as a PNG, the same bytes for the same curve.

    Args:
        lines: of `training.jsonl`.
        path: local file to write.
    """
    from matplotlib.figure import Figure

    rows = [json.loads(line) for line in lines]
    figure = Figure(figsize=(7, 4), dpi=100, layout="constrained")
    axes = figure.subplots()
    axes.plot([row["step"] for row in rows], [row["loss"] for row in rows], linewidth=1)
    axes.set_xlabel("step")
    axes.set_ylabel("loss")
    axes.grid(alpha=0.3)
    figure.savefig(path, format="png", metadata={"Software": None})
