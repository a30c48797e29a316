"""Calibration against scikit-learn, hand computation and a grid search."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.calibration import calibration_curve
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import average_precision_score, log_loss

from biomodels.evaluation.calibration import calibration, fit_isotonic, fit_temperature, reliability


def _overconfident(seed=0, n=4000, factor=3.0):
    generator = np.random.default_rng(seed)
    probability = generator.beta(0.8, 1.2, n)
    labels = generator.random(n) < probability
    return labels, expit(factor * logit(probability.clip(1e-6, 1 - 1e-6)))


def test_reliability_equals_scikit_learn():
    labels, scores = _overconfident()
    scores[:40] = np.repeat([0.0, 1.0, 0.2, 0.5], 10)  # on the edges of bins
    rows = reliability(labels, scores, bins=10)
    positive, mean = calibration_curve(labels, scores, n_bins=10)
    assert [row.positive for row in rows] == pytest.approx(positive)
    assert [row.mean_score for row in rows] == pytest.approx(mean)
    assert sum(row.n for row in rows) == len(scores)
    assert all(
        row.low <= row.mean_score <= row.high and row.positive_low <= row.positive <= row.positive_high for row in rows
    )


def test_expected_calibration_error_by_hand():
    labels = [True, False, True, True, False]
    scores = [0.95, 0.91, 0.92, 0.31, 0.35]
    found = calibration(labels, scores, bins=10)
    high, low = abs(2 / 3 - (0.95 + 0.91 + 0.92) / 3), abs(1 / 2 - 0.33)
    assert found.ece == pytest.approx(3 / 5 * high + 2 / 5 * low)
    assert found.mce == pytest.approx(max(high, low))
    assert found.brier == pytest.approx(np.mean([(s - t) ** 2 for s, t in zip(scores, labels, strict=True)]))
    assert found.log_loss == pytest.approx(log_loss(labels, scores))
    assert calibration([True, True], [1.0, 1.0])[1:4] == (0, 0, 0)
    with pytest.raises(ValueError, match="no score"):
        calibration([], [])


def test_temperature_is_recovered_and_minimal():
    labels, scores = _overconfident()
    fitted = fit_temperature(labels, scores)
    assert fitted.temperature == pytest.approx(3, rel=0.08)
    grid = np.linspace(2.5, 3.5, 51)
    losses = [log_loss(labels, expit(logit(scores.clip(1e-7, 1 - 1e-7)) / t)) for t in grid]
    assert fitted.temperature == pytest.approx(grid[int(np.argmin(losses))], abs=0.02)
    after = fitted(scores)
    assert calibration(labels, after).ece < 0.35 * calibration(labels, scores).ece
    assert average_precision_score(labels, after) == pytest.approx(
        average_precision_score(labels, scores.clip(1e-7, 1 - 1e-7))
    )


def test_isotonic_equals_scikit_learn_outside_its_data_too():
    labels, scores = _overconfident(seed=2, n=500)
    fitted = fit_isotonic(labels, scores)
    theirs = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(scores, labels)
    asked = np.linspace(0, 1, 333)
    np.testing.assert_allclose(fitted(asked), theirs.predict(asked))
    assert (np.diff(fitted(asked)) >= 0).all()
    assert calibration(labels, fitted(scores)).ece < calibration(labels, scores).ece


@pytest.mark.parametrize("labels", [[True, True], [False, False]])
def test_one_class_cannot_calibrate(labels):
    for fit in (fit_temperature, fit_isotonic):
        with pytest.raises(ValueError, match="both positive and negative"):
            fit(labels, [0.2, 0.9])
    assert reliability(labels, [0.2, 0.9])[0].positive == float(labels[0])
    assert calibration(labels, [0.0, 1.0]).n == 2
