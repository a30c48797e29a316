"""The rule that picks a threshold, on curves made for it."""

from __future__ import annotations

import math
import statistics

import pytest

from biomodels.evaluation.benchmark import Benchmark
from biomodels.evaluation.operating_point import choose_threshold, gate_analysis

THRESHOLDS = [0.3, 0.5, 0.7, 0.9, 0.95]


def seed(recall, fired, f05):
    return [
        Benchmark(threshold, r, r, n, n / 10, 0.5, 0.5, f)
        for threshold, r, n, f in zip(THRESHOLDS, recall, fired, f05, strict=True)
    ]


FIRED = [500, 300, 200, 100, 80]
CHEAP = [0.96, 0.94, 0.93, 0.92, 0.90]


def test_prices_by_hand():
    rows = gate_analysis([seed(CHEAP, FIRED, [0.7] * 5), seed(CHEAP, [n + 20 for n in FIRED], [0.8] * 5)])
    prices = [row.marginal_recall_loss_per_avoided_fire for row in rows]
    assert math.isnan(prices[0])
    assert prices[1:] == pytest.approx([0.02 / 200, 0.01 / 100, 0.01 / 100, 0.02 / 20])
    assert [row.slope_ratio for row in rows[1:]] == pytest.approx([1, 1, 1, 10])
    assert rows[2].means["fired_corpus_abstracts"] == 210
    assert rows[2].sds["fired_corpus_abstracts"] == pytest.approx(statistics.stdev([200, 220]))
    assert rows[0].means["bench_f05_lb"] == pytest.approx(0.75)


def test_highest_threshold_of_the_plateau_before_the_price_departs():
    seeds = [seed(CHEAP, FIRED, [0.70, 0.78, 0.795, 0.80, 0.80]), seed(CHEAP, FIRED, [0.70, 0.78, 0.795, 0.80, 0.82])]
    choice = choose_threshold(gate_analysis(seeds))
    sd = statistics.stdev([0.80, 0.82])
    assert choice.plateau == [
        t for t, f in zip(THRESHOLDS, [0.7, 0.78, 0.795, 0.8, 0.81], strict=True) if f >= 0.81 - sd
    ]
    assert (choice.threshold, choice.departs_at) == (0.9, 0.95)
    steady = [seed([0.96, 0.94, 0.93, 0.92, 0.918], FIRED, [0.70, 0.78, 0.795, 0.80, 0.80])] * 2
    assert choose_threshold(gate_analysis(steady)) == (0.95, [0.9, 0.95], None)


def test_departure_before_the_plateau_takes_the_lowest_of_the_plateau():
    seeds = [seed([0.96, 0.94, 0.80, 0.79, 0.78], [500, 300, 290, 10, 5], [0.1, 0.2, 0.3, 0.8, 0.8])]
    choice = choose_threshold(gate_analysis(seeds))
    assert choice == (0.9, [0.9, 0.95], 0.7)


def test_flat_curves():
    """No fire anywhere: any loss has an infinite price, and no loss none; one seed has no standard deviation."""
    rows = gate_analysis([seed([1, 1, 1, 1, 0.9], [0] * 5, [1, 1, 1, 1, 0.97])])
    assert [row.slope_ratio for row in rows[1:]] == [0, 0, 0, math.inf]
    assert math.isnan(rows[0].sds["bench_f05_lb"])
    assert choose_threshold(rows) == (0.9, [0.3, 0.5, 0.7, 0.9], 0.95)
    with pytest.raises(ValueError, match="no threshold"):
        gate_analysis([[]])
