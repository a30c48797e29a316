"""The audit of answers against scikit-learn and counting."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import mannwhitneyu
from statsmodels.stats.inter_rater import cohens_kappa, to_table
from statsmodels.stats.proportion import proportion_confint

from biomodels.evaluation.audit import audit


def test_audit_by_stratum():
    generator = np.random.default_rng(1)
    right = generator.random(200) < 0.7
    scores = ((generator.integers(0, 9, 200) + 2 * right) / 10).astype(np.float32)
    scores[::20] = np.nan
    decades = generator.choice(["1990s", "2000s"], 200).tolist()
    second = [None if generator.random() < 0.5 else bool(r ^ (generator.random() < 0.1)) for r in right]
    found = audit(right, scores, 0.6, strata_N=decades, second_N=second)
    assert [row.stratum for row in found.strata] == ["all", "1990s", "2000s"]
    for row in found.strata:
        mine = [i for i in range(200) if row.stratum in ("all", decades[i])]
        passing = [i for i in mine if scores[i] >= np.float32(0.6)]
        good = sum(right[i] for i in passing)
        assert (row.answers, row.passing, row.right_passing) == (len(mine), len(passing), good)
        interval = proportion_confint(good, len(passing), method="wilson")
        assert row.precision[:3] == pytest.approx((good / len(passing), *interval))
        below = [right[i] for i in mine if i not in passing]
        assert row.precision_below.estimate == pytest.approx(np.mean(below))
    scored = ~np.isnan(scores)
    above, under = scores[right & scored], scores[~right & scored]
    assert found.unscored == 10
    assert found.auc == pytest.approx(mannwhitneyu(above, under).statistic / (len(above) * len(under)))
    assert (found.median_right, found.median_wrong) == (np.median(above), np.median(under))
    twice = np.array([(a, b) for a, b in zip(right, second, strict=True) if b is not None], dtype=int)
    assert found.judged_twice == len(twice)
    assert found.kappa == pytest.approx(cohens_kappa(to_table(twice)[0]).kappa)


def test_audits_of_one_verdict_and_of_nothing():
    found = audit([True, True], np.array([0.2, 0.9]), 0.5, second_N=[True, True])
    assert math.isnan(found.auc)
    assert math.isnan(found.kappa)
    assert math.isnan(found.median_wrong)
    assert found.strata[0].precision.estimate == 1
    empty = audit([], np.array([]), 0.5)
    assert math.isnan(empty.strata[0].precision.estimate)
    assert empty.judged_twice == 0
