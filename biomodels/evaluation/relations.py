"""Scores of relation extraction: detection of related pairs, their types, breakdowns, folds.

Legend: N pairs; labels and answers are booleans. Precision, recall and F1 are of the positive class.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from biomodels.evaluation.classification import average_precision, f_beta, mean_sd, share
from biomodels.evaluation.significance import bootstrap_clustered

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

MEASURES = ("precision", "recall", "f1", "auc")


def detection(labels_N: Bools, answers_N: Bools, scores_N: Floats | None = None) -> dict[str, Any]:
    """Score yes-or-no answers.

    Args:
        labels_N: the gold.
        answers_N: what the model says.
        scores_N: what it is ranked by; without, the areas under the curves are None.

    Returns:
        `pairs`, `positives`, the four counts, `precision`, `recall`, `f1`, `auc` (of the ROC curve) and
        `average_precision`; the areas are None where a class is missing.
    """
    tp, fp = int((answers_N & labels_N).sum()), int((answers_N & ~labels_N).sum())
    fn, tn = int((~answers_N & labels_N).sum()), int((~answers_N & ~labels_N).sum())
    precision, recall = share(tp, tp + fp), share(tp, tp + fn)
    ranked = scores_N is not None and labels_N.any() and not labels_N.all()
    return {
        "pairs": len(labels_N),
        "positives": tp + fn,
        **{"tp": tp, "fp": fp, "fn": fn, "tn": tn},
        "precision": precision,
        "recall": recall,
        "f1": f_beta(precision, recall, 1.0),
        "auc": _auc(labels_N, scores_N) if ranked and scores_N is not None else None,
        "average_precision": average_precision(labels_N, scores_N) if ranked and scores_N is not None else None,
    }


def per_fold(
    labels_N: Bools, answers_N: Bools, scores_N: Floats | None, folds_N: npt.NDArray[np.int64]
) -> dict[str, Any]:
    """Score each fold, and give mean and sample standard deviation (n - 1) over folds; None where undefined."""
    rows = []
    for fold in sorted(set(folds_N[folds_N >= 0].tolist())):
        mine = folds_N == fold
        scores = None if scores_N is None else scores_N[mine]
        rows.append({"fold": fold} | detection(labels_N[mine], answers_N[mine], scores))
    summary: dict[str, Any] = {}
    for measure in MEASURES:
        values = [row[measure] for row in rows if row[measure] is not None]
        mean, sd = mean_sd(values) if values else (math.nan, math.nan)
        summary[measure] = {"mean": _number(mean), "sd": _number(sd)}
    return {"folds": rows, "over_folds": summary}


def typed(gold_N: Sequence[str | None], answered_N: Sequence[str | None]) -> dict[str, Any]:
    """Score types: the task of DDIExtraction-2013.

    Args:
        gold_N: the type of each pair, None if it is negative.
        answered_N: the type that the model gives, None if it finds no relation.

    Returns:
        `micro` precision, recall and F1 over all types (SemEval, BLURB), `macro_f1` (the mean over types, as BLUE has
        it since 2019), and the scores of each type of the gold. A positive with the wrong type is a false positive of
        one type and a false negative of another.
    """
    gold, answered = (np.array([name or "" for name in names], dtype=object) for names in (gold_N, answered_N))
    names = sorted(set(gold.tolist()) - {""})
    by_type = {name: detection((gold == name).astype(bool), (answered == name).astype(bool)) for name in names}
    tp = int(((gold == answered) & (gold != "")).sum())
    precision, recall = share(tp, int((answered != "").sum())), share(tp, int((gold != "").sum()))
    return {
        "micro": {"precision": precision, "recall": recall, "f1": f_beta(precision, recall, 1.0)},
        "macro_f1": float(np.mean([row["f1"] for row in by_type.values()])) if by_type else None,
        "types": {
            name: {key: row[key] for key in ("positives", "tp", "fp", "fn", "precision", "recall", "f1")}
            for name, row in by_type.items()
        },
    }


def breakdown(
    labels_N: Bools, answers_N: Bools, traits: Mapping[str, Sequence[str]], most_values: int = 20
) -> dict[str, list[dict[str, Any]]]:
    """Score the pairs of each value of each trait, the most frequent values first."""
    found: dict[str, list[dict[str, Any]]] = {}
    for trait, values in traits.items():
        names, value_N, counts = np.unique(
            np.array(values, dtype=object).astype(str), return_inverse=True, return_counts=True
        )
        order = np.lexsort((names, -counts))[:most_values]
        found[trait] = [
            {"value": str(names[number])} | _short(detection(labels_N[value_N == number], answers_N[value_N == number]))
            for number in order.tolist()
        ]
    return found


def f1_interval(
    labels_N: Bools, answers_N: Bools, clusters: Sequence[str], seed: int, resamples: int
) -> dict[str, Any]:
    """Return the 95 % bootstrap interval of F1, with whole documents drawn."""

    def f1(weights: Floats) -> float:
        tp = float(weights[answers_N & labels_N].sum())
        return share(2 * tp, float(weights[answers_N].sum() + weights[labels_N].sum()))

    interval = bootstrap_clustered(f1, np.asarray(clusters, dtype=object).astype(str), seed=seed, resamples=resamples)
    return {"low": _number(interval.low), "high": _number(interval.high), "resamples": resamples}


def _short(row: dict[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in ("pairs", "positives", "precision", "recall", "f1")}


def _auc(labels_N: Bools, scores_N: Floats) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(labels_N, scores_N))


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
