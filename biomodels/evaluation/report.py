"""Reports: named tables and plots, as CSV, JSON and one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import csv
import html
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Cell = str | int | float | bool | None

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto;
  max-width: 72rem; padding: 0 1rem; color: #1c2430; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .3rem; }
p { margin: .3rem 0 .6rem; color: #4a5568; }
.scroll { overflow-x: auto; max-height: 30rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #e2e8f0; text-align: right; white-space: nowrap; }
th { position: sticky; top: 0; background: #f7fafc; } td.text, th.text { text-align: left; } img { max-width: 100%; }
"""


class Table(NamedTuple):
    """A table of a report.

    Attributes:
        name: its CSV file's name, without the suffix, and its key in the JSON.
        title: for people.
        note: how to read it.
        rows: each with the same keys. A float that is NaN or infinite is an empty cell in CSV, null in JSON.
    """

    name: str
    title: str
    note: str
    rows: Sequence[Mapping[str, Cell]]


class Plot(NamedTuple):
    """A picture of a report: its PNG file's name without the suffix, its title, and the PNG."""

    name: str
    title: str
    png: bytes


def finite(value: Any) -> Any:
    """Return a value with every NaN and infinity in it replaced by None, so that it is JSON."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def to_csv(table: Table) -> bytes:
    """Return a table as CSV with a header."""
    sink = io.StringIO()
    writer = csv.DictWriter(sink, list(table.rows[0]) if table.rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(finite(dict(row)) for row in table.rows)
    return sink.getvalue().encode()


def to_json(facts: Mapping[str, Any], tables: Sequence[Table]) -> bytes:
    """Return facts and tables as one JSON object: the facts' keys, and `tables` by name."""
    value = {**facts, "tables": {table.name: [dict(row) for row in table.rows] for table in tables}}
    return (json.dumps(finite(value), indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def to_html(
    title: str, facts: Mapping[str, Any], notes: Sequence[str], tables: Sequence[Table], plots: Sequence[Plot]
) -> bytes:
    """Return a page with everything in it, pictures too."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style>",
        f"<h1>{html.escape(title)}</h1>",
        *(f"<p>{html.escape(note)}</p>" for note in notes),
        _table([{"what": key, "value": _shown(value)} for key, value in facts.items()]),
    ]
    for plot in plots:
        encoded = base64.b64encode(plot.png).decode()
        name = html.escape(plot.title)
        parts.append(f'<h2>{name}</h2><img alt="{name}" src="data:image/png;base64,{encoded}">')
    for table in tables:
        parts.append(f"<h2>{html.escape(table.title)}</h2><p>{html.escape(table.note)}</p>{_table(table.rows)}")
    return ("\n".join(parts) + "\n</html>\n").encode()


def _table(rows: Sequence[Mapping[str, Cell]]) -> str:
    if not rows:
        return ""
    kinds = {key: "text" if isinstance(value, str) else "number" for key, value in rows[0].items()}
    head = "".join(f'<th class="{kind}">{html.escape(key.replace("_", " "))}</th>' for key, kind in kinds.items())
    body = "".join(
        "<tr>" + "".join(f'<td class="{kinds[key]}">{html.escape(_shown(row[key]))}</td>' for key in kinds) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _shown(value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else json.dumps(finite(value), ensure_ascii=False)
