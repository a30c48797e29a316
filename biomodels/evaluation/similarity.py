"""Measures of sentence similarity, as pure functions of vectors and human scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from biomodels.evaluation.significance import Interval, bootstrap_clustered

Floats = NDArray[np.floating[Any]]


class Correlation(NamedTuple):
    """Pearson's r and Spearman's rho over n pairs; NaN where one side is constant."""

    pearson: float
    spearman: float
    n: int


def cosine_rows(A_ND: Floats, B_ND: Floats) -> NDArray[np.float64]:
    """Return the cosine of each row of one array with the same row of the other; 0 where a row is zero.

    Rounded to 12 decimals, so that all pairs of equal texts tie, whatever the last bit says.
    """
    A_ND, B_ND = A_ND.astype(np.float64), B_ND.astype(np.float64)
    products = np.einsum("nd,nd->n", A_ND, B_ND)
    lengths = np.linalg.norm(A_ND, axis=1) * np.linalg.norm(B_ND, axis=1)
    found: NDArray[np.float64] = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    return np.round(found, 12)


def correlate(scores: Floats, gold: Floats) -> Correlation:
    """Correlate a model's scores with human ones."""
    from scipy.stats import pearsonr, spearmanr

    if len(scores) < 2 or np.ptp(scores) == 0 or np.ptp(gold) == 0:
        return Correlation(np.nan, np.nan, len(scores))
    return Correlation(float(pearsonr(scores, gold)[0]), float(spearmanr(scores, gold)[0]), len(scores))


def summarise(parts: Mapping[str, tuple[Floats, Floats]]) -> dict[str, Correlation]:
    """Summarise the subsets of one benchmark in the three ways that papers use (SimCSE, appendix B).

    Args:
        parts: subset → the model's scores and the human ones.

    Returns:
        `all`: over the subsets put together, the setting of SimCSE's tables; `mean`: mean of the subsets'
        correlations; `wmean`: that mean weighted by their sizes.
    """
    each = [correlate(*part) for part in parts.values()]
    sizes = np.array([part.n for part in each])
    together = correlate(*(np.concatenate(column) for column in zip(*parts.values(), strict=True)))
    n = int(sizes.sum())

    def average(weights: NDArray[Any] | None) -> Correlation:
        pearson, spearman = (
            float(np.average([getattr(part, name) for part in each], weights=weights))
            for name in ("pearson", "spearman")
        )
        return Correlation(pearson, spearman, n)

    return {"all": together, "mean": average(None), "wmean": average(sizes)}


def spearman_interval(scores: Floats, gold: Floats, *, seed: int, resamples: int) -> Interval:
    """Return Spearman's rho with its percentile bootstrap interval over pairs."""

    def statistic(weights: NDArray[np.float64]) -> float:
        drawn = weights.astype(np.int64)
        return correlate(np.repeat(scores, drawn), np.repeat(gold, drawn)).spearman

    return bootstrap_clustered(statistic, np.arange(len(scores)), seed=seed, resamples=resamples)


def alignment(A_ND: Floats, B_ND: Floats) -> float:
    """Return the mean squared distance of unit vectors of texts that mean the same (Wang and Isola 2020, alpha 2)."""
    return float(np.mean(2 - 2 * cosine_rows(A_ND, B_ND)))


def uniformity(E_ND: Floats, t: float = 2.0) -> float:
    """Return log mean exp(-t d^2) over all pairs of distinct rows, scaled to length 1 (Wang and Isola 2020)."""
    E_ND = E_ND.astype(np.float64)
    E_ND = E_ND / np.maximum(np.linalg.norm(E_ND, axis=1, keepdims=True), 1e-12)
    total, pairs = 0.0, 0
    for start in range(0, len(E_ND), 1024):
        block = E_ND[start : start + 1024]
        squares = 2 - 2 * block @ E_ND[start:].T
        upper = np.triu(np.ones(squares.shape, dtype=bool), k=1)
        total += float(np.exp(-t * np.maximum(squares[upper], 0)).sum())
        pairs += int(upper.sum())
    return float(np.log(total / pairs)) if pairs else float("nan")


def tfidf_cosines(first: list[str], second: list[str]) -> NDArray[np.float64]:
    """Return the cosines of TF-IDF vectors: words of any length, 1 + log tf, idf over the pairs' own texts.

    A baseline that knows no more of the words than where they stand.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectoriser = TfidfVectorizer(token_pattern=r"(?u)\b\w+\b", sublinear_tf=True).fit([*first, *second])
    products = vectoriser.transform(first).multiply(vectoriser.transform(second)).sum(axis=1)
    return np.asarray(products, dtype=np.float64).ravel()
