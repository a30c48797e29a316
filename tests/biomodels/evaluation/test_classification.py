"""Thresholded measures against scikit-learn, with ties and single-class data."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from sklearn import metrics

from biomodels.evaluation.classification import at_thresholds, average_precision, passes, sweep

THRESHOLDS = (0.0, 0.2, 0.5, 0.7, 0.9, 1.0)


def _data(seed, n=400):
    """Labels, and scores on a grid of 21 values, so that there are many ties and some lie on a threshold."""
    generator = np.random.default_rng(seed)
    labels = generator.random(n) < 0.3
    scores = (generator.integers(0, 15, n) + 6 * labels * (generator.random(n) < 0.8)) / 20
    return labels, scores.astype(np.float32)


@pytest.mark.parametrize("seed", range(3))
def test_measures_equal_scikit_learn(seed):
    labels, scores = _data(seed)
    for row in at_thresholds(labels, scores, THRESHOLDS):
        predicted = scores.astype(np.float64).round(6) >= row.threshold
        tn, fp, fn, tp = metrics.confusion_matrix(labels, predicted, labels=[False, True]).ravel()
        assert (row.tp, row.fp, row.fn, row.tn) == (tp, fp, fn, tn)
        precision, recall, f1, _ = metrics.precision_recall_fscore_support(
            labels, predicted, average="binary", zero_division=0
        )
        f05 = metrics.fbeta_score(labels, predicted, beta=0.5, zero_division=0)
        assert (row.precision, row.recall, row.f1, row.f05) == pytest.approx((precision, recall, f1, f05))
        assert row.fpr == pytest.approx(fp / (fp + tn))
    assert average_precision(labels, scores) == pytest.approx(metrics.average_precision_score(labels, scores))


def test_average_precision_with_ties_by_hand():
    """Scores 0.9, 0.5 ×3, 0.1 with one true among the tied three and one at the end: 1/2·(2/4)... step by step."""
    labels, scores = [True, False, True, False, True], np.array([0.9, 0.5, 0.5, 0.5, 0.1])
    assert average_precision(labels, scores) == pytest.approx(1 / 3 * (1 / 1) + 1 / 3 * (2 / 4) + 1 / 3 * (3 / 5))


def test_a_float32_score_passes_the_threshold_it_equals():
    assert passes(np.array([0.9, 0.95, 0.7], dtype=np.float32), 0.9).tolist() == [True, True, False]
    assert passes(np.array([np.nan], dtype=np.float32), 0.0).tolist() == [False]


def test_single_class_and_empty():
    scores = np.array([0.2, 0.8])
    (none,) = at_thresholds([False, False], scores, [0.5])
    assert none[1:] == (0, 1, 0, 1, 0.0, 0.0, 0.0, 0.0, 0.5)
    (every,) = at_thresholds([True, True], scores, [0.5])
    assert every[1:] == (1, 0, 1, 0, 1.0, 0.5, pytest.approx(2 / 3), pytest.approx(1.25 * 0.5 / 0.75), 0.0)
    assert math.isnan(average_precision([False, False], scores))
    assert average_precision([True, True], scores) == 1
    assert at_thresholds([], np.array([]), [0.5])[0][1:5] == (0, 0, 0, 0)
    with pytest.raises(ValueError, match="1 labels for 2 scores"):
        at_thresholds([True], scores, [0.5])


def test_sweep_over_seeds():
    labels, first = _data(1)
    others = [_data(1)[1] * factor for factor in (np.float32(0.9), np.float32(1.0))]
    rows = sweep(labels, [first, *others], [0.3, 0.6])
    assert rows[0]._fields == (
        *("threshold", "n_seeds", "precision_mean", "precision_sd", "recall_mean", "recall_sd"),
        *("f1_mean", "f1_sd", "n_passing_mean"),
    )
    for row in rows:
        f1 = [metrics.f1_score(labels, scores >= np.float32(row.threshold)) for scores in (first, *others)]
        assert (row.f1_mean, row.f1_sd) == pytest.approx((statistics.mean(f1), statistics.stdev(f1)))
        passing = [(scores >= np.float32(row.threshold)).sum() for scores in (first, *others)]
        assert row.n_passing_mean == pytest.approx(np.mean(passing))
        assert row.n_seeds == 3
    assert math.isnan(sweep(labels, [first], [0.5])[0].f1_sd)
