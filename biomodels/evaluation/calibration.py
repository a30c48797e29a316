"""How far scores are probabilities, and two ways to make them so.

Fit on development pairs, never on those that are reported. Both maps keep the order of the scores, so rankings and
average precision stay, but for ties (isotonic regression makes them, and scores within 1e-7 of 0 or 1 are one).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from biomodels.evaluation.significance import wilson

Probabilities = NDArray[np.float64]
EPSILON = 1e-7


class Bin(NamedTuple):
    """Scores in (low, high], the first one closed; the observed share of positives with its Wilson interval."""

    low: float
    high: float
    n: int
    mean_score: float
    positive: float
    positive_low: float
    positive_high: float


class Calibration(NamedTuple):
    """Measures of calibration: lower is better. `ece` is the expected calibration error, `mce` the largest gap."""

    n: int
    ece: float
    mce: float
    brier: float
    log_loss: float


class Isotonic(NamedTuple):
    """A monotone step-linear map, constant outside its first and last knot."""

    x: list[float]
    y: list[float]

    def __call__(self, scores: ArrayLike) -> Probabilities:
        """Map scores to probabilities."""
        return np.interp(np.asarray(scores, dtype=np.float64), self.x, self.y)


class Temperature(NamedTuple):
    """Division of the logit by a temperature (Guo et al. 2017, section 4.2)."""

    temperature: float

    def __call__(self, scores: ArrayLike) -> Probabilities:
        """Map scores to probabilities."""
        from scipy.special import expit

        return np.asarray(expit(_logit(scores) / self.temperature), dtype=np.float64)


def reliability(labels: ArrayLike, scores: ArrayLike, bins: int = 15) -> list[Bin]:
    """Return the reliability curve over bins of equal width; empty bins are left out.

    Args:
        labels: N booleans.
        scores: N scores in [0, 1].
        bins: number of bins.
    """
    truth, values = _pair(labels, scores)
    edges = np.linspace(0, 1, bins + 1)
    place = np.searchsorted(edges[1:-1], values)
    rows = []
    for i in np.unique(place):
        mine = place == i
        n, positives = int(mine.sum()), int(truth[mine].sum())
        rows.append(Bin(float(edges[i]), float(edges[i + 1]), n, float(values[mine].mean()), *wilson(positives, n)[:3]))
    return rows


def calibration(labels: ArrayLike, scores: ArrayLike, bins: int = 15) -> Calibration:
    """Measure calibration: ECE = sum over bins of n/N |positives - mean score| (Naeini et al. 2015).

    Raises:
        ValueError: there is no score.
    """
    from sklearn.metrics import brier_score_loss, log_loss

    truth, values = _pair(labels, scores)
    if not len(values):
        raise ValueError("there is no score to judge")
    curve = reliability(truth, values, bins)
    gaps = np.array([abs(row.positive - row.mean_score) for row in curve])
    weights = np.array([row.n for row in curve]) / len(values)
    clipped = values.clip(EPSILON, 1 - EPSILON)
    return Calibration(
        n=len(values),
        ece=float(gaps @ weights),
        mce=float(gaps.max()),
        brier=float(brier_score_loss(truth, values, pos_label=True, labels=[False, True])),
        log_loss=float(log_loss(truth, clipped, labels=[False, True])),
    )


def fit_temperature(labels: ArrayLike, scores: ArrayLike) -> Temperature:
    """Find the temperature with the smallest log loss, between 1/100 and 100.

    Raises:
        ValueError: the labels are all the same, so that every temperature but the limit could be bettered.
    """
    from scipy.optimize import minimize_scalar

    truth, values = _both_classes(labels, scores)
    signed = np.where(truth, 1.0, -1.0) * _logit(values)

    def loss(log_t: float) -> float:
        return float(np.logaddexp(0, -signed / np.exp(log_t)).mean())

    found = minimize_scalar(loss, bounds=(-np.log(100), np.log(100)), method="bounded", options={"xatol": 1e-8})
    return Temperature(float(np.exp(found.x)))


def fit_isotonic(labels: ArrayLike, scores: ArrayLike) -> Isotonic:
    """Fit isotonic regression (Zadrozny and Elkan 2002).

    Raises:
        ValueError: the labels are all the same.
    """
    from sklearn.isotonic import IsotonicRegression

    truth, values = _both_classes(labels, scores)
    fitted = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(values, truth.astype(np.float64))
    return Isotonic(fitted.X_thresholds_.tolist(), fitted.y_thresholds_.tolist())


def _logit(scores: ArrayLike) -> Probabilities:
    from scipy.special import logit

    values = np.asarray(scores, dtype=np.float64)
    return np.asarray(logit(values.clip(EPSILON, 1 - EPSILON)), dtype=np.float64)


def _pair(labels: ArrayLike, scores: ArrayLike) -> tuple[NDArray[np.bool_], Probabilities]:
    truth, values = np.asarray(labels, dtype=bool), np.asarray(scores, dtype=np.float64)
    if truth.shape != values.shape:
        raise ValueError(f"{len(truth)} labels for {len(values)} scores")
    return truth, values


def _both_classes(labels: ArrayLike, scores: ArrayLike) -> tuple[NDArray[np.bool_], Probabilities]:
    truth, values = _pair(labels, scores)
    if truth.all() or not truth.any():
        raise ValueError("calibration is fitted on both positive and negative pairs")
    return truth, values
