"""The frozen benchmark against loops, statsmodels, and the published fire rate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

from biomodels.evaluation.benchmark import decade, deployed, proportions, strata_of

NAN = float("nan")


def test_the_published_fire_rate():
    """199 of 87,600 abstracts fire, most of which have no candidate at all: .198-.261 %."""
    best = np.full(87_600, np.nan, dtype=np.float32)
    best[:6000] = 0.4
    best[100:299] = 0.95
    (row,) = proportions(best, {"all": np.ones(87_600, dtype=bool)}, [0.9])
    assert (row.n, row.passing) == (87_600, 199)
    assert [round(100 * value, 3) for value in (row.share, row.low, row.high)] == [0.227, 0.198, 0.261]


def test_shares_by_stratum():
    scores = np.array([0.9, 0.5, NAN, 0.7, 0.7])
    strata = {"all": [True] * 5, "gated": [True, True, False, True, True], "none": [False] * 5}
    rows = {(row.stratum, row.threshold): row for row in proportions(scores, strata, [0.5, 0.7, 0.95])}
    assert [rows["all", t].share for t in (0.5, 0.7, 0.95)] == pytest.approx([0.8, 0.6, 0])
    assert [rows["gated", t].share for t in (0.5, 0.7, 0.95)] == pytest.approx([1, 0.75, 0])
    assert (rows["gated", 0.7].low, rows["gated", 0.7].high) == pytest.approx(proportion_confint(3, 4, method="wilson"))
    assert math.isnan(rows["none", 0.5].share)
    assert rows["none", 0.5].n == 0


def test_strata_by_value():
    strata = strata_of(["b", "a", "b"])
    assert {name: chosen.tolist() for name, chosen in strata.items()} == {
        "a": [False, True, False],
        "b": [True, False, True],
    }
    assert [decade(year) for year in (1980, 1999, 2026, None)] == ["1980s", "1990s", "2020s", "unknown"]
    assert strata_of([]) == {}


def test_deployment_against_sets():
    generator = np.random.default_rng(4)
    pmids = generator.integers(0, 60, 150)
    scores = np.where(generator.random(150) < 0.2, np.nan, generator.integers(0, 11, 150) / 10)
    in_scope = generator.random(150) < 0.4
    best = np.where(generator.random(900) < 0.8, np.nan, generator.integers(0, 11, 900) / 10)
    for row in deployed(pmids, scores, in_scope, best, [0.1, 0.5, 0.9]):
        found = {p for p, s in zip(pmids, scores, strict=True) if s >= row.threshold}
        fired = sum(1 for s in best if s >= row.threshold)
        precision, recall = len(found) / (len(found) + fired), len(found) / len(set(pmids.tolist()))
        assert row.fired_corpus_abstracts == fired
        assert row.fire_pct == pytest.approx(100 * fired / 900)
        assert row.deploy_paper_recall == pytest.approx(recall)
        assert row.bench_precision_lb == pytest.approx(precision)
        assert row.bench_f1_lb == pytest.approx(2 * precision * recall / (precision + recall))
        assert row.bench_f05_lb == pytest.approx(1.25 * precision * recall / (0.25 * precision + recall))
        assert row.inscope_pair_recall == pytest.approx(
            sum(s >= row.threshold for s in scores[in_scope]) / in_scope.sum()
        )


def test_empty_benchmarks():
    (row,) = deployed([], np.array([]), [], np.array([]), [0.5])
    assert math.isnan(row.deploy_paper_recall)
    assert math.isnan(row.inscope_pair_recall)
    assert math.isnan(row.fire_pct)
    assert (row.bench_precision_lb, row.bench_f05_lb) == (0, 0)
    (row,) = deployed([1], np.array([NAN]), [False], np.array([NAN]), [0.5])
    assert (row.deploy_paper_recall, row.fired_corpus_abstracts, row.bench_f1_lb) == (0, 0, 0)
