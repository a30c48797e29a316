"""The report of `evaluate relations`: as data, as tables on the terminal, and as a page."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from biomodels.evaluation import relations as scoring
from biomodels.evaluation.relation_predictions import Predictions
from biomodels.evaluation.significance import mcnemar_exact
from biomodels.relations.gold import Gold
from ray_jobs.evaluate.relation_split import Split

WIDTH = 110
"""Columns that the main table needs; a narrower terminal wraps the lines, which is better than cut cells."""

SHORT = ("precision", "recall", "f1")


def build(
    gold: Gold, models: Mapping[str, Predictions], split: Split, *, seed: int, resamples: int, threshold: float
) -> dict[str, Any]:
    """Score all models.

    Returns:
        JSON: the gold's counts, the split with its leakage, each model's scores (pooled, by fold, without leaked
        sentences, by type, broken down), and McNemar's test of every two models.
    """
    named = list(models.items())
    tests = [
        {"first": first, "second": second}
        | mcnemar_exact(one.answers == gold.labels, two.answers == gold.labels)._asdict()
        for i, (first, one) in enumerate(named)
        for second, two in named[i + 1 :]
    ]
    return {
        "kind": "relation_report",
        "gold": {
            "pairs": len(gold),
            "positives": int(gold.labels.sum()),
            "left_out_by_filter": int(gold.left_out.sum()),
            "left_out_positives": int((gold.left_out & gold.labels).sum()),
            "untyped_positives": sum(
                bool(label) and kind is None for label, kind in zip(gold.labels, gold.types, strict=True)
            )
            if any(gold.types)
            else 0,
        },
        "split": split.facts(),
        "threshold": threshold,
        "models": {name: _scores(gold, model, split, seed, resamples) for name, model in models.items()},
        "mcnemar": tests,
    }


def _scores(gold: Gold, model: Predictions, split: Split, seed: int, resamples: int) -> dict[str, Any]:
    labels, answers = gold.labels, model.answers
    found: dict[str, Any] = {
        "pooled": scoring.detection(labels, answers, model.scores),
        "missing": model.missing,
        "breakdown": scoring.breakdown(labels, answers, gold.traits),
    }
    if resamples:
        found["f1_interval"] = scoring.f1_interval(labels, answers, gold.documents, seed, resamples)
    if split.folds is not None:
        found |= scoring.per_fold(labels, answers, model.scores, split.folds)
    if split.leaks is not None:
        clean = ~split.leaks
        scores = None if model.scores is None else model.scores[clean]
        found["without_leaked"] = scoring.detection(labels[clean], answers[clean], scores)
    if model.types is not None and any(gold.types):
        found["typing"] = _typing(gold, model)
    return found


def _typing(gold: Gold, model: Predictions) -> dict[str, Any]:
    """Score types over the pairs whose gold type is known; a positive without a type counts for detection alone."""
    assert model.types is not None
    rows = [
        row
        for row, (label, kind) in enumerate(zip(gold.labels, gold.types, strict=True))
        if kind is not None or not label
    ]
    answered = [model.types[row] if model.answers[row] else None for row in rows]
    return scoring.typed([gold.types[row] for row in rows], answered)


def show(report: dict[str, Any]) -> None:
    """Print the report as tables."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.width = max(console.width, WIDTH)
    table = Table(title="related pairs (percent)")
    for heading, justify in _HEADINGS:
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]  # rich wants the literal
    for row in _rows(report):
        table.add_row(*row)
    console.print(table)
    for line in _notes(report):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


_HEADINGS = (
    ("model", "left"),
    ("scores", "left"),
    ("pairs", "right"),
    ("positive", "right"),
    ("P", "right"),
    ("R", "right"),
    ("F1", "right"),
    ("AUC", "right"),
)


def _rows(report: dict[str, Any]) -> list[list[str]]:
    """Return the main table: pooled scores, mean over folds, without leaked sentences, types."""
    rows = []
    for name, model in report["models"].items():
        rows.append([name, "pooled", *_cells(model["pooled"])])
        if "over_folds" in model:
            over = model["over_folds"]
            cells = [_spread(over[measure]) for measure in (*SHORT, "auc")]
            rows.append([name, f"mean of {len(model['folds'])} folds", "", "", *cells])
        if "without_leaked" in model:
            rows.append([name, "without leaked sentences", *_cells(model["without_leaked"])])
        if "typing" in model:
            micro = model["typing"]["micro"]
            rows.append([name, "types, micro", "", "", *[_percent(micro[measure]) for measure in SHORT], ""])
            rows.append([name, "types, macro", "", "", "", "", _percent(model["typing"]["macro_f1"]), ""])
    return rows


def _notes(report: dict[str, Any]) -> list[str]:
    """Return what must be known to read the scores: the split, what leaks, what was left out, and the tests."""
    split, gold = report["split"], report["gold"]
    notes = [f"split: {split['statement']}"]
    if split["leakage"] is None:
        notes.append("leakage: unknown, for the training part is not known")
    else:
        pairs, positives = (sum(row[key] for row in split["leakage"]) for key in ("pairs", "positives"))
        sentences = sum(row["sentences"] for row in split["leakage"])
        notes.append(
            f"leakage: {sentences:,} test sentences are also in their training part"
            + (" (summed over folds)" if split["folds"] else "")
            + f": {pairs:,} pairs, {positives:,} positive"
        )
    if gold["left_out_by_filter"]:
        notes.append(
            f"filter of equal names: {gold['left_out_by_filter']:,} pairs count as answered no, "
            f"of which {gold['left_out_positives']:,} are positive and missed"
        )
    if gold["untyped_positives"]:
        notes.append(f"{gold['untyped_positives']:,} positive pairs without a type count for detection alone")
    for name, model in report["models"].items():
        if model["missing"]:
            notes.append(f"{name}: {model['missing']:,} pairs have no prediction and count as answered no")
        if interval := model.get("f1_interval"):
            low, high = _percent(interval["low"]), _percent(interval["high"])
            notes.append(f"{name}: F1 {_percent(model['pooled']['f1'])}, 95 % interval {low} to {high} (by document)")
    for test in report["mcnemar"]:
        notes.append(
            f"McNemar, {test['first']} against {test['second']}: right alone {test['only_first']:,} "
            f"and {test['only_second']:,}, p = {test['p']:.3g}"
        )
    return notes


def html_report(report: dict[str, Any], gold: Gold, models: Mapping[str, Predictions]) -> str:
    """Return the report as one page without scripts or links: tables, confusion matrices, precision-recall curves."""
    parts = [
        "<h1>Relation extraction</h1>",
        "".join(f"<p>{escape(note)}</p>" for note in _notes(report)),
        _table([heading for heading, _ in _HEADINGS], _rows(report)),
    ]
    curves = {name: model for name, model in models.items() if model.scores is not None}
    if curves and gold.labels.any():
        parts += ["<h2>Precision and recall</h2>", _curves(gold, curves)]
    if report["split"]["leakage"]:
        headings = ("fold", "sentences", "pairs", "positives", "documents")
        rows = [[f"{row[key]:,}" for key in headings] for row in report["split"]["leakage"]]
        parts += ["<h2>Shared with the training part</h2>", _table(headings, rows)]
    for name, model in report["models"].items():
        parts += [f"<h2>{escape(name)}</h2>", "<h3>Confusion matrix</h3>", _confusion(gold, models[name])]
        if "folds" in model:
            rows = [[str(row["fold"]), *_cells(row)] for row in model["folds"]]
            parts += ["<h3>Folds</h3>", _table(["fold", *[heading for heading, _ in _HEADINGS[2:]]], rows)]
        if "typing" in model:
            rows = [
                [kind, f"{row['positives']:,}", *[_percent(row[measure]) for measure in SHORT]]
                for kind, row in model["typing"]["types"].items()
            ]
            parts += ["<h3>Types</h3>", _table(["type", "positive", "P", "R", "F1"], rows)]
        for trait, values in model["breakdown"].items():
            parts += [
                f"<h3>By {escape(trait)}</h3>",
                _table(
                    [trait, "pairs", "positive", "P", "R", "F1"], [[row["value"], *_cells(row)[:5]] for row in values]
                ),
            ]
    return _PAGE.replace("{body}", "\n".join(parts))


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Relation extraction</title>
<style>
body { font-family: system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1b1b1b; }
table { border-collapse: collapse; margin: 0.5rem 0 1.5rem; display: block; overflow-x: auto; }
th, td { border: 1px solid #bbb; padding: 0.25rem 0.6rem; text-align: right; }
th:first-child, td:first-child { text-align: left; }
th { background: #eee; }
svg { max-width: 100%; height: auto; }
</style>
</head>
<body>
{body}
</body>
</html>
"""


def _confusion(gold: Gold, model: Predictions) -> str:
    """Return the table of gold against answers: by type if the model gives types, else by class."""
    no = "no relation"
    if model.types is not None and any(gold.types):
        truth = [kind or ("untyped" if label else no) for kind, label in zip(gold.types, gold.labels, strict=True)]
        said = [(kind or "untyped") if yes else no for kind, yes in zip(model.types, model.answers, strict=True)]
    else:
        truth = ["related" if label else no for label in gold.labels]
        said = ["related" if answer else no for answer in model.answers]
    names = sorted(set(truth) | set(said), key=lambda name: (name == no, name))
    place = {name: number for number, name in enumerate(names)}
    counts = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(counts, ([place[name] for name in truth], [place[name] for name in said]), 1)
    rows = [[name, *[f"{count:,}" for count in counts[place[name]].tolist()]] for name in names]
    return _table(["gold \\ answer", *names], rows)


def _curves(gold: Gold, models: Mapping[str, Predictions]) -> str:
    """Return precision-recall curves as SVG; the same bytes for the same scores."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from sklearn.metrics import precision_recall_curve

    with mpl.rc_context({"svg.hashsalt": "biomodels", "svg.fonttype": "none"}):
        figure = Figure(figsize=(6, 4.5), layout="constrained")
        axes = figure.subplots()
        for name, model in models.items():
            precision, recall, _ = precision_recall_curve(gold.labels, model.scores)
            axes.step(recall, precision, where="post", label=name)
        axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02))
        axes.axhline(gold.labels.mean(), color="0.6", linestyle=":", label="all related")
        axes.legend(loc="upper right")
        axes.grid(alpha=0.3)
        sink = io.StringIO()
        figure.savefig(sink, format="svg", metadata={"Date": None, "Creator": None})
    return sink.getvalue()[sink.getvalue().index("<svg") :]


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cells(row: dict[str, Any]) -> list[str]:
    shares = [_percent(row.get(measure)) for measure in (*SHORT, "auc")]
    return [f"{row['pairs']:,}", f"{row['positives']:,}", *shares]


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.1f}"


def _spread(values: dict[str, float | None]) -> str:
    return f"{_percent(values['mean'])} ± {_percent(values['sd'])}"
