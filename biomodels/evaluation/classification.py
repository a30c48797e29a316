"""Measures of yes-or-no decisions from scores, at thresholds that are fixed beforehand.

Legend: N pairs, T thresholds. Labels are booleans. A pair *passes* a threshold if its score is at least that; the two
are compared in the scores' own precision, so a float32 score of 0.9 passes 0.9.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.floating]


class AtThreshold(NamedTuple):
    """Counts and measures at one threshold. A share of nothing is 0, as in scikit-learn.

    `f05` is F with beta 0.5 (precision counts more), `fpr` the share of negatives that pass.
    """

    threshold: float
    tp: int
    fp: int
    fn: int
    tn: int
    precision: float
    recall: float
    f1: float
    f05: float
    fpr: float


class SweepRow(NamedTuple):
    """One threshold over several seeds. Standard deviations are of the sample (n - 1): NaN for one seed."""

    threshold: float
    n_seeds: int
    precision_mean: float
    precision_sd: float
    recall_mean: float
    recall_sd: float
    f1_mean: float
    f1_sd: float
    n_passing_mean: float


def passes(scores: Floats, threshold: float) -> NDArray[np.bool_]:
    """Return which scores pass a threshold; NaN (no score) does not."""
    return np.asarray(scores >= scores.dtype.type(threshold))


def at_thresholds(labels_N: ArrayLike, scores_N: Floats, thresholds: Sequence[float]) -> list[AtThreshold]:
    """Count and measure at each threshold.

    Raises:
        ValueError: labels and scores differ in length.
    """
    labels = np.asarray(labels_N, dtype=bool)
    if labels.shape != scores_N.shape:
        raise ValueError(f"{len(labels)} labels for {len(scores_N)} scores")
    found = []
    for threshold in thresholds:
        passing = passes(scores_N, threshold)
        tp, fp = int((passing & labels).sum()), int((passing & ~labels).sum())
        fn, tn = int(labels.sum()) - tp, int((~labels).sum()) - fp
        precision, recall = share(tp, tp + fp), share(tp, tp + fn)
        f1, f05 = f_beta(precision, recall, 1.0), f_beta(precision, recall, 0.5)
        found.append(AtThreshold(float(threshold), tp, fp, fn, tn, precision, recall, f1, f05, share(fp, fp + tn)))
    return found


def average_precision(labels_N: ArrayLike, scores_N: Floats) -> float:
    """Return the average precision, equal scores taken together; NaN where no label is true."""
    from sklearn.metrics import average_precision_score

    labels = np.asarray(labels_N, dtype=bool)
    return float(average_precision_score(labels, scores_N)) if labels.any() else math.nan


def sweep(labels_N: ArrayLike, scores_by_seed: Sequence[Floats], thresholds: Sequence[float]) -> list[SweepRow]:
    """Measure at each threshold, and give mean and standard deviation over seeds.

    Args:
        labels_N: the labels, the same for all seeds.
        scores_by_seed: one or more arrays of N scores.
        thresholds: where to measure.
    """
    seeds = [at_thresholds(labels_N, scores, thresholds) for scores in scores_by_seed]
    rows = []
    for at in zip(*seeds, strict=True):
        measured = [mean_sd([getattr(seed, name) for seed in at]) for name in ("precision", "recall", "f1")]
        passing = float(np.mean([seed.tp + seed.fp for seed in at]))
        rows.append(SweepRow(at[0].threshold, len(seeds), *measured[0], *measured[1], *measured[2], passing))
    return rows


def mean_sd(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean, and the sample's standard deviation: NaN for one value."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def f_beta(precision: float, recall: float, beta: float) -> float:
    """Return F with weight `beta` on recall (van Rijsbergen 1979); 0 where both are 0."""
    return share((1 + beta * beta) * precision * recall, beta * beta * precision + recall)


def share(part: float, whole: float) -> float:
    """Return `part / whole`, and 0 of nothing."""
    return part / whole if whole else 0.0
