"""Choosing the score threshold of a deployed model by a rule that is fixed beforehand.

Raising the threshold avoids fires on the corpus and loses truth. While a model separates well, each avoided fire costs
about the same recall; beyond a point the price rises. The rule takes the highest threshold whose F0.5 is within one
standard deviation over seeds of the best, and before the price departs from its low-threshold level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from biomodels.evaluation.benchmark import Benchmark
from biomodels.evaluation.classification import mean_sd

MEASURES = tuple(name for name in Benchmark._fields if name != "threshold")
SLOPE = (0.5, 0.9)
DEPARTURE = 2.0


class GateRow(NamedTuple):
    """One threshold: means and standard deviations over seeds, and the price of the step from the threshold before.

    `marginal_recall_loss_per_avoided_fire` is the fall of `deploy_paper_recall` per corpus abstract that no longer
    fires (NaN for the first threshold), `slope_ratio` that price relative to the one between 0.5 and 0.9.
    """

    threshold: float
    means: dict[str, float]
    sds: dict[str, float]
    marginal_recall_loss_per_avoided_fire: float
    slope_ratio: float


class Choice(NamedTuple):
    """The chosen threshold and why.

    Attributes:
        threshold: the choice.
        plateau: thresholds whose mean F0.5 is within one seed standard deviation of the best.
        departs_at: the first threshold above the slope's lower end whose price departs, or None.
    """

    threshold: float
    plateau: list[float]
    departs_at: float | None


def gate_analysis(seeds: Sequence[Sequence[Benchmark]], slope: tuple[float, float] = SLOPE) -> list[GateRow]:
    """Put the benchmarks of several seeds together.

    Args:
        seeds: per seed one row per threshold, ascending and the same for all.
        slope: the two thresholds between which the reference price is taken; the nearest ones are used.

    Raises:
        ValueError: there is no threshold.
    """
    by_threshold = list(zip(*seeds, strict=True))
    if not by_threshold:
        raise ValueError("there is no threshold to analyse")
    thresholds = [rows[0].threshold for rows in by_threshold]
    stats = [{name: mean_sd([getattr(row, name) for row in rows]) for name in MEASURES} for rows in by_threshold]
    recall = [stat["deploy_paper_recall"][0] for stat in stats]
    fired = [stat["fired_corpus_abstracts"][0] for stat in stats]
    low, high = (int(np.argmin(np.abs(np.array(thresholds) - end))) for end in slope)
    reference = _price(recall, fired, low, high)
    prices = [math.nan] + [_price(recall, fired, i - 1, i) for i in range(1, len(thresholds))]
    return [
        GateRow(
            threshold,
            {name: mean for name, (mean, _) in stat.items()},
            {name: sd for name, (_, sd) in stat.items()},
            price,
            _ratio(price, reference),
        )
        for threshold, stat, price in zip(thresholds, stats, prices, strict=True)
    ]


def choose_threshold(
    rows: Sequence[GateRow], *, departure: float = DEPARTURE, slope: tuple[float, float] = SLOPE
) -> Choice:
    """Apply the rule.

    If the price departs before the plateau begins, the lowest threshold of the plateau is taken.

    Args:
        rows: of `gate_analysis`.
        departure: the ratio to the reference price from which it has departed.
        slope: its lower end is where looking for the departure begins.
    """
    f05 = [row.means["bench_f05_lb"] for row in rows]
    best = int(np.argmax(f05))
    sd = rows[best].sds["bench_f05_lb"]
    margin = 0.0 if math.isnan(sd) else sd
    plateau = [row.threshold for row, value in zip(rows, f05, strict=True) if value >= f05[best] - margin]
    departed = [row.threshold for row in rows if row.threshold > slope[0] and row.slope_ratio >= departure]
    departs_at = departed[0] if departed else None
    allowed = [threshold for threshold in plateau if departs_at is None or threshold < departs_at]
    return Choice(max(allowed) if allowed else min(plateau), plateau, departs_at)


def _price(recall: Sequence[float], fired: Sequence[float], i: int, j: int) -> float:
    """Return the recall lost per avoided fire from threshold i to j: infinite if recall falls for none avoided."""
    lost, avoided = recall[i] - recall[j], fired[i] - fired[j]
    if avoided:
        return lost / avoided
    return math.inf if lost > 0 else 0.0


def _ratio(price: float, reference: float) -> float:
    if math.isnan(price) or price == 0:
        return price
    return price / reference if reference else math.inf
