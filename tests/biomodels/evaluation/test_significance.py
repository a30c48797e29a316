"""Significance tests against independent implementations: scipy, hand computation, enumeration."""

from __future__ import annotations

from math import comb, sqrt

import numpy as np
import pytest
from scipy import stats

from biomodels.evaluation.significance import bootstrap_clustered, compare_models, friedman, mcnemar_exact, wilson


def _discordant(b: int, c: int, both: int = 3):
    return [True] * b + [False] * c + [True] * both, [False] * b + [True] * c + [True] * both


@pytest.mark.parametrize(("b", "c"), [(0, 1), (5, 5), (9, 2), (2, 9), (0, 12), (40, 61), (7, 8)])
def test_mcnemar_is_the_binomial_test_on_discordant_items(b, c):
    found = mcnemar_exact(*_discordant(b, c))
    tail = sum(comb(b + c, i) for i in range(min(b, c) + 1)) / 2 ** (b + c)
    assert (found.only_first, found.only_second) == (b, c)
    assert found.p == pytest.approx(min(1.0, 2 * tail))
    assert found.p == pytest.approx(stats.binomtest(b, b + c).pvalue)


def test_mcnemar_without_discordant_items_and_on_different_items():
    assert mcnemar_exact([1, 0, 1], [1, 0, 1]) == (0, 0, 1.0)
    assert mcnemar_exact([], []).p == 1.0
    with pytest.raises(ValueError, match="2 and 3 items"):
        mcnemar_exact([1, 0], [1, 0, 1])


def test_bootstrap_of_singletons_is_the_usual_one():
    values = np.random.default_rng(1).normal(size=80)
    mine = bootstrap_clustered(
        lambda w: float(np.average(values, weights=w)), np.arange(80), seed=5, resamples=4000, confidence=0.9
    )
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=4000, confidence_level=0.9, method="percentile", rng=np.random.default_rng(7)
    ).confidence_interval
    assert mine.estimate == pytest.approx(values.mean())
    assert mine.low == pytest.approx(theirs.low, abs=0.01)
    assert mine.high == pytest.approx(theirs.high, abs=0.01)


def test_bootstrap_enumerated_over_three_clusters():
    """All 27 draws of three clusters of unequal size, by hand: the quantiles of their weighted means."""
    right = np.array([1, 1, 1, 0, 0, 1])
    clusters = np.array(["b", "b", "b", "a", "a", "c"])
    sums, sizes = {"a": 0, "b": 3, "c": 1}, {"a": 2, "b": 3, "c": 1}
    means = [
        (sums[i] + sums[j] + sums[k]) / (sizes[i] + sizes[j] + sizes[k]) for i in "abc" for j in "abc" for k in "abc"
    ]
    mine = bootstrap_clustered(
        lambda w: float(np.average(right, weights=w)), clusters, seed=0, resamples=20000, confidence=0.6
    )
    low, high = np.quantile(means, [0.2, 0.8], method="inverted_cdf")
    assert (mine.low, mine.high) == (pytest.approx(low), pytest.approx(high))


def test_clusters_widen_the_interval_and_order_does_not_matter():
    generator = np.random.default_rng(3)
    right = np.repeat(generator.random(40) < 0.6, 10)
    clusters = np.repeat(np.arange(40), 10)

    def width(groups, rows=slice(None)):
        chosen = right[rows]
        found = bootstrap_clustered(lambda w: float(np.average(chosen, weights=w)), groups[rows], seed=2)
        return found, found.high - found.low

    clustered, wide = width(clusters)
    assert wide > 2 * width(np.arange(400))[1]
    shuffled = width(clusters, generator.permutation(400))[0]
    assert shuffled == pytest.approx(clustered)


def test_undefined_resamples_are_counted():
    only = np.array([1.0, 0.0])

    def statistic(weights):
        return 1.0 if (weights * only).sum() else np.nan

    found = bootstrap_clustered(statistic, [0, 1], seed=0, resamples=400)
    assert 60 < found.undefined < 140  # a quarter of the draws miss the first cluster
    assert (found.low, found.high) == (1.0, 1.0)
    never = bootstrap_clustered(lambda w: np.nan, [0, 1], seed=0, resamples=10)
    assert np.isnan(never.low)
    assert never.undefined == 10
    with pytest.raises(ValueError, match="nothing to resample"):
        bootstrap_clustered(lambda w: 0.0, [], seed=0)


def test_wilson_of_the_published_fire_rate():
    found = wilson(199, 87_600)
    assert (round(100 * found.low, 3), round(100 * found.high, 3)) == (0.198, 0.261)
    z, n, p = stats.norm.ppf(0.975), 87_600, 199 / 87_600
    centre, half = p + z * z / (2 * n), z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert found.low == pytest.approx((centre - half) / (1 + z * z / n))
    assert found.high == pytest.approx((centre + half) / (1 + z * z / n))


def test_wilson_at_the_edges():
    assert wilson(0, 50).low == pytest.approx(0, abs=1e-15)
    assert wilson(0, 50).high == pytest.approx(stats.binomtest(0, 50).proportion_ci(method="wilson").high)
    assert wilson(50, 50).high == pytest.approx(1)
    assert np.isnan(wilson(0, 0).estimate)
    assert wilson(0, 0)[1:3] == (0, 1)


def test_cochran_q_then_holm():
    generator = np.random.default_rng(8)
    base = generator.random(300)
    right = {"a": base < 0.9, "b": generator.random(300) < 0.7, "c": generator.random(300) < 0.68}
    found = compare_models(right)
    x = np.stack(list(right.values()), 1).astype(int)
    columns, rows, k = x.sum(0), x.sum(1), 3
    q = (k - 1) * (k * (columns**2).sum() - columns.sum() ** 2) / (k * rows.sum() - (rows**2).sum())
    assert found.q == pytest.approx(q)
    assert found.p == pytest.approx(stats.chi2.sf(q, 2))
    raw = {(a, b): mcnemar_exact(right[a], right[b]).p for a, b in [("a", "b"), ("a", "c"), ("b", "c")]}
    expected, worst = {}, 0.0
    for place, (pair, p) in enumerate(sorted(raw.items(), key=lambda item: item[1])):
        worst = max(worst, min(1.0, (3 - place) * p))
        expected[pair] = worst
    assert {(pair.first, pair.second): pair.p_holm for pair in found.pairs} == pytest.approx(expected)


def test_pairs_are_not_tested_where_q_does_not_reject():
    same = [True, False, True, True]
    assert compare_models({"a": same, "b": same, "c": same}) == (0.0, 1.0, [])
    found = compare_models({"a": [1, 0, 1, 1], "b": [1, 1, 1, 0], "c": [0, 1, 1, 1]})
    assert found.p == pytest.approx(1)
    assert found.pairs == []
    with pytest.raises(ValueError, match="two models or more"):
        compare_models({"a": same})


def test_friedman_with_ties():
    folds = {"flat": [0.93, 0.92, 0.94, 0.93], "name": [0.93, 0.91, 0.95, 0.92], "context": [0.91, 0.90, 0.94, 0.92]}
    chi, p = friedman(folds)
    ranks = np.array([stats.rankdata(row) for row in zip(*folds.values(), strict=True)])
    n, k = ranks.shape
    raw = 12 / (n * k * (k + 1)) * (ranks.sum(0) ** 2).sum() - 3 * n * (k + 1)
    ties = sum((counts**3 - counts).sum() for row in ranks for counts in [np.unique(row, return_counts=True)[1]])
    assert chi == pytest.approx(raw / (1 - ties / (n * k * (k * k - 1))))
    assert p == pytest.approx(stats.chi2.sf(chi, k - 1))
    assert friedman({"a": [1, 2], "b": [1, 2], "c": [1, 2]}) == (0.0, 1.0)
    with pytest.raises(ValueError, match="three models"):
        friedman({"a": [1], "b": [2]})
