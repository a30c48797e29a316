"""Correlations, alignment and uniformity against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from biomodels.evaluation import similarity

RNG = np.random.default_rng(4)
PARTS = {name: (RNG.normal(size=n), RNG.integers(0, 6, n) / 1.0) for name, n in (("a", 40), ("b", 7), ("c", 100))}


def test_all_is_scipys_correlation_over_the_subsets_put_together():
    found = similarity.summarise(PARTS)
    scores, gold = (np.concatenate([part[i] for part in PARTS.values()]) for i in (0, 1))
    assert found["all"] == (pearsonr(scores, gold)[0], spearmanr(scores, gold)[0], 147)


def test_mean_and_wmean_are_means_of_the_subsets():
    found = similarity.summarise(PARTS)
    rho = [spearmanr(*part)[0] for part in PARTS.values()]
    assert found["mean"].spearman == pytest.approx(sum(rho) / 3, abs=1e-15)
    assert found["wmean"].spearman == pytest.approx((40 * rho[0] + 7 * rho[1] + 100 * rho[2]) / 147, abs=1e-15)
    assert len({found[name].spearman for name in found}) == 3


def test_what_cannot_be_correlated_is_nan_and_never_0():
    assert np.isnan(similarity.correlate(np.ones(5), np.arange(5.0)).spearman)
    assert np.isnan(similarity.correlate(np.ones(1), np.ones(1)).pearson)


def test_cosines_of_rows():
    A_ND, B_ND = RNG.normal(size=(2, 20, 5)).astype(np.float32)
    A_ND[3] = 0
    found = similarity.cosine_rows(A_ND, B_ND)
    for a, b, cosine in zip(A_ND, B_ND, found, strict=True):
        norm = np.linalg.norm(a) * np.linalg.norm(b)
        assert cosine == pytest.approx(a @ b / norm if norm else 0, abs=1e-6)


def test_the_interval_holds_the_estimate_and_is_a_function_of_the_seed():
    scores, gold = PARTS["c"]
    one = similarity.spearman_interval(scores, gold, seed=1, resamples=200)
    assert one == similarity.spearman_interval(scores, gold, seed=1, resamples=200)
    assert one.low < spearmanr(scores, gold)[0] == one.estimate < one.high
    assert one != similarity.spearman_interval(scores, gold, seed=2, resamples=200)


def test_alignment_and_uniformity_are_those_of_wang_and_isola():
    E_ND = RNG.normal(size=(1500, 3))
    unit = E_ND / np.linalg.norm(E_ND, axis=1, keepdims=True)
    squares = np.concatenate([((unit[i] - unit[i + 1 :]) ** 2).sum(1) for i in range(len(unit))])
    assert similarity.uniformity(E_ND) == pytest.approx(np.log(np.exp(-2 * squares).mean()), abs=1e-9)
    assert similarity.alignment(E_ND[:10], E_ND[10:20]) == pytest.approx(((unit[:10] - unit[10:20]) ** 2).sum(1).mean())


def test_tfidf_tells_shared_words_from_none():
    same, shared, none = similarity.tfidf_cosines(
        ["a man runs", "a man runs", "a man"], ["a man runs", "a dog runs", "the x"]
    )
    assert same == pytest.approx(1) and 0 < shared < 1 and none == 0
