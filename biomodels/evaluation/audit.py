"""Audit of judged answers at a threshold: does the score tell right answers from wrong ones?

An *answer* is a pair that a person, or a later stage of a pipeline, judged right or wrong.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from biomodels.evaluation.benchmark import strata_of
from biomodels.evaluation.classification import Floats, passes
from biomodels.evaluation.significance import Interval, wilson


class Stratum(NamedTuple):
    """Answers of one stratum ("all" holds every answer).

    `precision` is the share of right answers among those that pass, `precision_below` among those that do not.
    """

    stratum: str
    answers: int
    passing: int
    right_passing: int
    precision: Interval
    precision_below: Interval


class Audit(NamedTuple):
    """The result of an audit.

    Attributes:
        threshold: what answers have to pass.
        strata: "all", then each stratum.
        unscored: answers without a score, which pass no threshold; they count in `strata`, not in what follows.
        median_right, median_wrong: medians of the scores.
        auc: chance that a right answer scores above a wrong one, ties counted half (Mann and Whitney 1947); 0.5 says
            that the score does not tell them apart.
        kappa: agreement of two judges beyond chance (Cohen 1960) on answers that both judged, or NaN.
        judged_twice: how many those are.
    """

    threshold: float
    strata: list[Stratum]
    unscored: int
    median_right: float
    median_wrong: float
    auc: float
    kappa: float
    judged_twice: int


def audit(
    right_N: ArrayLike,
    scores_N: Floats,
    threshold: float,
    *,
    strata_N: list[str] | None = None,
    second_N: list[bool | None] | None = None,
) -> Audit:
    """Audit N answers.

    Args:
        right_N: booleans, the judge's verdict.
        scores_N: scores; NaN where there is none.
        threshold: what an answer has to pass.
        strata_N: the stratum of each answer.
        second_N: a second judge's verdicts, None where there is none.
    """
    right, passing = np.asarray(right_N, dtype=bool), passes(scores_N, threshold)
    strata = {"all": np.ones(len(right), dtype=bool)} | (strata_of(strata_N) if strata_N is not None else {})
    rows = [
        Stratum(
            name,
            int(mine.sum()),
            int((mine & passing).sum()),
            int((mine & passing & right).sum()),
            wilson(int((mine & passing & right).sum()), int((mine & passing).sum())),
            wilson(int((mine & ~passing & right).sum()), int((mine & ~passing).sum())),
        )
        for name, mine in strata.items()
    ]
    scored = ~np.isnan(scores_N)
    above, below = scores_N[right & scored], scores_N[~right & scored]
    kappa, twice = _kappa(right, second_N)
    return Audit(
        float(threshold), rows, int((~scored).sum()), _median(above), _median(below), _auc(above, below), kappa, twice
    )


def _median(values: Floats) -> float:
    return float(np.median(values)) if len(values) else math.nan


def _auc(above: Floats, below: Floats) -> float:
    from sklearn.metrics import roc_auc_score

    if not len(above) or not len(below):
        return math.nan
    truth = np.repeat([True, False], [len(above), len(below)])
    return float(roc_auc_score(truth, np.concatenate([above, below])))


def _kappa(right: ArrayLike, second: list[bool | None] | None) -> tuple[float, int]:
    """Return Cohen's kappa; NaN where no answer was judged twice, or both judges gave but one verdict."""
    from sklearn.metrics import cohen_kappa_score

    pairs = [(one, two) for one, two in zip(np.asarray(right), second or [], strict=False) if two is not None]
    if len({verdict for pair in pairs for verdict in pair}) < 2:
        return math.nan, len(pairs)
    one, two = zip(*pairs, strict=True)
    return float(cohen_kappa_score(one, two)), len(pairs)
