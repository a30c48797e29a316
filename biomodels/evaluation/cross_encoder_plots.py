"""Plots of a cross-encoder's evaluation, from its tables alone."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biomodels.evaluation.report import Cell, Plot, Table

Rows = Sequence[Mapping[str, Cell]]

DPI = 110


def draw(tables: Sequence[Table]) -> list[Plot]:
    """Return every plot for which there is a table."""
    rows_of = {table.name: table.rows for table in tables}
    drawn = []
    for name, (title, table, plot) in _PLOTS.items():
        if table in rows_of:
            drawn.append(Plot(name, title, _png(plot, rows_of[table])))
    return drawn


def _png(plot: Callable[[Any, Rows], None], rows: Rows) -> bytes:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.5), dpi=DPI, layout="constrained")
    axes = figure.subplots()
    axes.grid(alpha=0.3)
    plot(axes, rows)
    if axes.get_legend_handles_labels()[0]:
        figure.legend(fontsize="small", loc="outside lower center", ncols=3)
    sink = io.BytesIO()
    figure.savefig(sink, format="png", metadata={"Software": None})
    return sink.getvalue()


def _by(rows: Rows, *keys: str) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """Yield the rows that agree in some keys, with a label made of those; they must stand together."""
    for values, mine in groupby(rows, key=lambda row: tuple(row[key] for key in keys)):
        yield ", ".join(str(value) for value in values), list(mine)


def _column(rows: list[Mapping[str, Any]], name: str) -> NDArray[np.float64]:
    return np.array([row[name] for row in rows], dtype=np.float64)


def _sweep(axes: Any, rows: Rows) -> None:
    for label, mine in _by(rows, "model"):
        x = _column(mine, "threshold")
        for measure in ("precision", "recall", "f1"):
            mean, sd = _column(mine, f"{measure}_mean"), np.nan_to_num(_column(mine, f"{measure}_sd"))
            (line,) = axes.plot(x, mean, label=f"{label}, {measure}")
            axes.fill_between(x, mean - sd, mean + sd, alpha=0.2, color=line.get_color(), linewidth=0)
    axes.set(xlabel="threshold", ylim=(0, 1.02))


def _curve(axes: Any, rows: Rows) -> None:
    for label, mine in _by(rows, "model"):
        axes.plot(_column(mine, "recall_mean"), _column(mine, "precision_mean"), marker=".", label=label)
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1.02), ylim=(0, 1.02))


def _fire(axes: Any, rows: Rows) -> None:
    decades = [row for row in rows if str(row["stratum"])[:1].isdigit() and row["seed"] == 1]
    decades.sort(key=lambda row: (str(row["model"]), float(row["threshold"] or 0), str(row["stratum"])))
    for label, mine in _by(decades, "model", "threshold"):
        shares, low, high = (100 * _column(mine, name) for name in ("share", "low", "high"))
        errors = np.maximum(0, [shares - low, high - shares])
        axes.errorbar([row["stratum"] for row in mine], shares, yerr=errors, marker="o", capsize=3, label=label)
    axes.set(ylabel="abstracts that fire, %")


def _topk(axes: Any, rows: Rows) -> None:
    groups = list(_by([row for row in rows if row["seed"] == 1], "universe", "model"))
    ks = [key for key in rows[0] if key.startswith("acc@")]
    width, places = 0.8 / len(ks), np.arange(len(groups))
    for i, key in enumerate(ks):
        axes.bar(places + i * width, [float(mine[0][key]) for _, mine in groups], width, label=key)
    axes.set_xticks(places + 0.4 - width / 2, [label for label, _ in groups], rotation=20)
    axes.set(ylim=(0, 1.02))


def _threshold(axes: Any, rows: Rows) -> None:
    for label, mine in _by(rows, "model"):
        x = _column(mine, "threshold")
        (line,) = axes.plot(x, _column(mine, "bench_f05_lb"), label=f"{label}, F0.5 (lower bound)")
        axes.plot(x, _column(mine, "deploy_paper_recall"), "--", color=line.get_color(), label=f"{label}, paper recall")
        for row in mine:
            if row["chosen"]:
                axes.axvline(
                    float(row["threshold"]), color=line.get_color(), alpha=0.5, label=f"chosen: {row['threshold']}"
                )
    axes.set(xlabel="threshold", ylim=(0, 1.02))


def _reliability(axes: Any, rows: Rows) -> None:
    axes.plot([0, 1], [0, 1], color="grey", linewidth=1, label="calibrated")
    for label, mine in _by(rows, "model", "map"):
        axes.plot(_column(mine, "mean_score"), _column(mine, "positive"), marker="o", label=label)
    axes.set(xlabel="mean score", ylabel="share of positives", xlim=(0, 1), ylim=(0, 1.02))


_PLOTS: dict[str, tuple[str, str, Callable[[Any, Rows], None]]] = {
    "sweep": ("Measures by threshold", "sweep", _sweep),
    "precision_recall": ("Precision and recall", "sweep", _curve),
    "fire_rate": ("Fire rate by decade", "fire_rate", _fire),
    "topk": ("Top-k by universe", "topk", _topk),
    "threshold": ("Choice of a threshold", "threshold", _threshold),
    "reliability": ("Reliability", "reliability", _reliability),
}
