"""A benchmark's report as one HTML page that needs nothing beside it: tables, plots, and the hardest errors."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

_TEMPLATE = Path(__file__).with_name("page.html")


def render(report: dict[str, Any]) -> str:
    """Return the page of a report, as `evaluate linking --benchmark` writes it.

    Args:
        report: with `benchmark`, `entries`, `comparisons`, `errors`, `parts`, `models` and `notes`.
    """
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["percent"] = lambda share: f"{100 * share:.1f}"
    parts = list(dict.fromkeys(entry["part"] for entry in report["entries"]))
    modes = list(dict.fromkeys(entry["mode"] for entry in report["entries"]))
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for error in report["errors"]:
        groups.setdefault((error["part"], error["mode"], error["system"]), []).append(error)
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        report=report,
        curves=[(mode, curves(report["entries"], mode, "mean" if "mean" in parts else parts[0])) for mode in modes],
        bars=[(mode, bars(report["entries"], mode)) for mode in modes] if "mean" in parts else [],
        errors=list(groups.items()),
    )


def curves(entries: Sequence[dict[str, Any]], mode: str, part: str) -> str:
    """Draw acc@k over k for each system of a part, as SVG."""
    figure = Figure(figsize=(7, 4))
    axes = figure.add_subplot()
    chosen = [entry for entry in entries if (entry["mode"], entry["part"]) == (mode, part)]
    for entry in chosen:
        depths = range(1, len(entry["curve"]) + 1)
        axes.plot(depths, [100 * share for share in entry["curve"]], marker=".", label=entry["system"])
    unit = "names" if mode == "reference" else "concepts"
    axes.set(xlabel=f"k ({unit})", ylabel="acc@k, percent", title=f"{mode}, {part}")
    axes.legend(fontsize="small")
    return _svg(figure)


def bars(entries: Sequence[dict[str, Any]], mode: str) -> str:
    """Draw acc@1 with its interval for each part, such as a language, and each system, as SVG."""
    chosen = [entry for entry in entries if entry["mode"] == mode and entry["part"] != "mean"]
    parts = list(dict.fromkeys(entry["part"] for entry in chosen))
    systems = list(dict.fromkeys(entry["system"] for entry in chosen))
    figure = Figure(figsize=(max(7.0, 0.9 * len(parts)), 4))
    axes = figure.add_subplot()
    width = 0.8 / len(systems)
    for number, system in enumerate(systems):
        rows = [entry for entry in chosen if entry["system"] == system]
        heights = [100 * entry["acc@1"] for entry in rows]
        low = [max(0.0, height - 100 * entry["ci95"][0]) for height, entry in zip(heights, rows, strict=True)]
        high = [max(0.0, 100 * entry["ci95"][1] - height) for height, entry in zip(heights, rows, strict=True)]
        places = [parts.index(entry["part"]) + (number - (len(systems) - 1) / 2) * width for entry in rows]
        axes.bar(places, heights, width, label=system, yerr=[low, high], error_kw={"linewidth": 0.6})
    axes.set_xticks(range(len(parts)), parts)
    axes.set(ylabel="acc@1, percent", title=mode)
    axes.legend(fontsize="small")
    return _svg(figure)


def _svg(figure: Figure) -> str:
    """Return a figure as SVG for the inside of a page; equal figures give equal bytes."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "biomodels", "svg.fonttype": "none"}):
        figure.savefig(
            buffer, format="svg", bbox_inches="tight", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
        )
    content = buffer.getvalue()
    return content[content.index("<svg") :]
