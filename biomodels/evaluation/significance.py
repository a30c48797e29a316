"""Tests and intervals for comparing models, as pure functions.

*Right* is an array of booleans: which items a model got right. Two models are compared on the same items, in the same
order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Weights = NDArray[np.float64]


class Interval(NamedTuple):
    """An estimate and its confidence interval. `undefined` counts resamples in which the statistic was NaN."""

    estimate: float
    low: float
    high: float
    undefined: int = 0


class McNemar(NamedTuple):
    """The discordant items of two models, and the p-value of the exact two-sided test."""

    only_first: int
    only_second: int
    p: float


class Pairwise(NamedTuple):
    """One pair of models; `p_holm` is corrected for the number of pairs."""

    first: str
    second: str
    test: McNemar
    p_holm: float


class Comparison(NamedTuple):
    """Cochran's Q over all models, and the pairs where it rejects that all are equally good (else empty)."""

    q: float
    p: float
    pairs: list[Pairwise]


def mcnemar_exact(right_1: ArrayLike, right_2: ArrayLike) -> McNemar:
    """Compare two models on the same N items: exact two-sided McNemar, a binomial test on the discordant items.

    With no discordant item, p is 1.

    Raises:
        ValueError: the two differ in length.
    """
    from statsmodels.stats.contingency_tables import mcnemar

    first, second = _right(right_1), _right(right_2)
    if first.shape != second.shape:
        raise ValueError(f"the models were judged on {len(first)} and {len(second)} items; they must be the same")
    b, c = int((first & ~second).sum()), int((~first & second).sum())
    if b + c == 0:
        return McNemar(0, 0, 1.0)
    return McNemar(b, c, min(1.0, float(mcnemar([[0, b], [c, 0]], exact=True).pvalue)))


def bootstrap_clustered(
    statistic: Callable[[Weights], float],
    clusters: ArrayLike,
    *,
    seed: int,
    resamples: int = 2000,
    confidence: float = 0.95,
) -> Interval:
    """Return the percentile bootstrap interval of a statistic over items that come in clusters.

    Whole clusters (the abstracts, say) are drawn with replacement, since the items of one are not independent (Davison
    and Hinkley 1997, section 3.8). The result does not depend on the order of the items.

    Args:
        statistic: a function of W_N, how often each item was drawn; `np.average(right, weights=W_N)`, say, or a
            measure of scikit-learn with `sample_weight=W_N`. For a difference, it subtracts two such figures. NaN says
            that it is undefined for these items; such resamples are counted and left out.
        clusters: of length N, each item's cluster: integers or strings.
        seed: decides the draws.
        resamples: number of draws.
        confidence: of the interval.

    Returns:
        The statistic with each item once, and its interval: NaN if it is undefined in every resample.

    Raises:
        ValueError: there is no item.
    """
    names, cluster_N = np.unique(np.asarray(clusters), return_inverse=True)
    if not len(names):
        raise ValueError("there is nothing to resample")
    generator = np.random.default_rng(seed)
    values = np.empty(resamples)
    for i in range(resamples):
        drawn = generator.integers(0, len(names), len(names))
        values[i] = statistic(np.bincount(drawn, minlength=len(names)).astype(np.float64)[cluster_N])
    defined = values[~np.isnan(values)]
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    low, high = np.quantile(defined, tails) if len(defined) else (np.nan, np.nan)
    estimate = float(statistic(np.ones(len(cluster_N))))
    return Interval(estimate, float(low), float(high), resamples - len(defined))


def wilson(successes: int, trials: int, *, confidence: float = 0.95) -> Interval:
    """Return a proportion with its Wilson score interval; of no trials, NaN with the interval [0, 1]."""
    from statsmodels.stats.proportion import proportion_confint

    if trials == 0:
        return Interval(np.nan, 0.0, 1.0)
    low, high = proportion_confint(successes, trials, alpha=1 - confidence, method="wilson")
    return Interval(successes / trials, float(low), float(high))


def compare_models(right: Mapping[str, ArrayLike], *, alpha: float = 0.05) -> Comparison:
    """Compare models on the same items: Cochran's Q, then exact McNemar of every pair with Holm's correction.

    The pairs are tested only if Q rejects at `alpha`. Q of two models is McNemar's chi-square. Where all models agree
    on every item, Q is 0 and its p 1.

    Raises:
        ValueError: fewer than two models, or they were judged on different numbers of items.
    """
    from statsmodels.stats.contingency_tables import cochrans_q
    from statsmodels.stats.multitest import multipletests

    judged = {name: _right(values) for name, values in right.items()}
    if len(judged) < 2 or len({len(values) for values in judged.values()}) != 1:
        raise ValueError("a comparison needs two models or more, judged on the same items")
    right_NM = np.stack(list(judged.values()), axis=1).astype(int)
    if (right_NM == right_NM[:, :1]).all():
        return Comparison(0.0, 1.0, [])
    found: Any = cochrans_q(right_NM)
    q, p = float(found.statistic), float(found.pvalue)
    if p >= alpha:
        return Comparison(q, p, [])
    pairs = list(combinations(judged, 2))
    tests = [mcnemar_exact(judged[first], judged[second]) for first, second in pairs]
    corrected = multipletests([test.p for test in tests], method="holm")[1]
    rows = zip(pairs, tests, corrected, strict=True)
    return Comparison(q, p, [Pairwise(*pair, test, float(p_holm)) for pair, test, p_holm in rows])


def friedman(measures: Mapping[str, ArrayLike]) -> tuple[float, float]:
    """Return Friedman's chi-square and its p-value for three or more models measured on the same folds.

    Where every fold has all models equal, they are 0 and 1.

    Raises:
        ValueError: fewer than three models, or different numbers of folds.
    """
    from scipy.stats import friedmanchisquare

    columns = [np.asarray(values, dtype=np.float64) for values in measures.values()]
    if len(columns) < 3 or len({len(column) for column in columns}) != 1:
        raise ValueError("Friedman's test needs three models or more, measured on the same folds")
    if all((column == columns[0]).all() for column in columns):
        return 0.0, 1.0
    found = friedmanchisquare(*columns)
    return float(found.statistic), float(found.pvalue)


def _right(values: ArrayLike) -> NDArray[np.bool_]:
    return np.asarray(values, dtype=bool).ravel()
