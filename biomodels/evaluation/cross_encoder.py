"""The evaluation of cross-encoders: every table of it, from scores alone.

Models are named; each has the scores of one or more seeds. The first seed is the one that would be shipped: curves and
calibration are its own, all else is of every seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from biomodels.errors import InputError
from biomodels.evaluation import calibration
from biomodels.evaluation.audit import audit
from biomodels.evaluation.benchmark import strata_of
from biomodels.evaluation.classification import at_thresholds, average_precision, f_beta, passes, share, sweep
from biomodels.evaluation.pair_scores import Ints, PairScores, Scores
from biomodels.evaluation.report import Cell, Table
from biomodels.evaluation.significance import bootstrap_clustered, compare_models, friedman, mcnemar_exact

Models = Mapping[str, Sequence[PairScores]]
Row = dict[str, Cell]
Bools = NDArray[np.bool_]
Strings = NDArray[np.str_]


@dataclass(frozen=True)
class Pairs:
    """Labelled pairs of a split. `folds` are their cross-validation folds, -1 where there is none."""

    pmids: Ints
    g2p_ids: Strings
    labels: Bools
    provenance: Strings
    folds: Ints

    def where(self, chosen: Bools) -> Pairs:
        """Return some of the pairs."""
        return Pairs(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Answers:
    """Judged pairs, for the audit."""

    pmids: Ints
    g2p_ids: Strings
    right: Bools
    second: list[bool | None]
    strata: list[str]
    threshold: float


@dataclass(frozen=True)
class Settings:
    """How to evaluate.

    Attributes:
        thresholds: fixed beforehand; `main` is the one for tests and intervals.
        grid: thresholds of the sweep and of the choice of a threshold.
        ks: depths of top-k.
        bins: of the reliability curve.
        resamples: of the bootstrap.
        seed: of the bootstrap.
        unscored: whether a labelled pair without a score is an error, or counts as not passing.
    """

    thresholds: Sequence[float] = (0.5, 0.7, 0.8, 0.9, 0.95)
    main: float = 0.5
    grid: Sequence[float] = tuple(round(i / 100, 2) for i in range(5, 96))
    ks: Sequence[int] = (1, 3, 5)
    bins: int = 15
    resamples: int = 2000
    seed: int = 13
    unscored: Literal["error", "negative"] = "error"


@dataclass
class Evaluation:
    """An evaluation under way: the models, and the tables so far, facts beside them, and what could not be done."""

    models: Models
    settings: Settings
    tables: list[Table] = field(default_factory=list)
    facts: dict[str, Cell] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    def runs(self) -> Iterator[tuple[str, int, PairScores]]:
        """Yield model, number of the seed from 1, and scores."""
        for model, seeds in self.models.items():
            for seed, scores in enumerate(seeds, start=1):
                yield model, seed, scores

    def add(self, name: str, title: str, note: str, rows: list[Row]) -> None:
        """Add a table, if it has a row."""
        if rows:
            self.tables.append(Table(name, title, note, rows))


def scores_of(scores: PairScores, pairs: Pairs, settings: Settings) -> Scores:
    """Return the scores of labelled pairs.

    Raises:
        InputError: one has none, and that is to be an error.
    """
    found = scores.lookup(pairs.pmids, pairs.g2p_ids)
    unscored = np.flatnonzero(np.isnan(found))
    if len(unscored) and settings.unscored == "error":
        i = unscored[0]
        raise InputError(
            f"{len(unscored)} of {len(found)} labelled pairs have no score, first PMID {pairs.pmids[i]} with "
            f"{pairs.g2p_ids[i]}; score them, or let --unscored negative count them as not passing"
        )
    return np.nan_to_num(found, nan=0.0)


def classify(report: Evaluation, test: Pairs) -> None:
    """Add measures at fixed thresholds, with intervals at the main one, by provenance, and the sweep."""
    models, settings = report.models, report.settings
    rows: list[Row] = []
    by_provenance: list[Row] = []
    for model, seed, scores in report.runs():
        values = scores_of(scores, test, settings)
        ap = average_precision(test.labels, values)
        rows += [
            {"model": model, "seed": seed, **at._asdict(), "ap": ap}
            for at in at_thresholds(test.labels, values, settings.thresholds)
        ]
        for name, mine in strata_of(test.provenance.tolist()).items():
            (at,) = at_thresholds(test.labels[mine], values[mine], [settings.main])
            by_provenance.append({"model": model, "seed": seed, "provenance": name, **at._asdict()})
    report.add(
        "metrics", "Test pairs at fixed thresholds", "Of all labelled test pairs; a share of nothing is 0.", rows
    )
    report.add(
        "metrics_by_provenance",
        f"Test pairs by provenance, at {settings.main}",
        "Silver labels come from a model; read them apart.",
        by_provenance,
    )
    report.add(
        "intervals",
        f"95 % intervals at {settings.main}",
        f"Bootstrap of {settings.resamples:,} resamples of whole articles, of each model's first seed.",
        [row for model, seeds in models.items() for row in _intervals(model, seeds[0], test, settings)],
    )
    report.add(
        "sweep",
        "Threshold sweep",
        "Mean and standard deviation over seeds.",
        [
            {"model": model, **at._asdict()}
            for model, seeds in models.items()
            for at in sweep(test.labels, [scores_of(scores, test, settings) for scores in seeds], settings.grid)
        ],
    )


def _intervals(model: str, scores: PairScores, test: Pairs, settings: Settings) -> Iterator[Row]:
    values = scores_of(scores, test, settings)
    passing = passes(values, settings.main)
    statistics: dict[str, Callable[[NDArray[np.float64]], float]] = {
        "f1": lambda weights: _f1(test.labels, passing, weights),
        "ap": lambda weights: _average_precision(test.labels, values, weights),
    }
    for measure, statistic in statistics.items():
        found = bootstrap_clustered(statistic, test.pmids, seed=settings.seed, resamples=settings.resamples)
        yield {"model": model, "measure": measure, **found._asdict()}


def compare(report: Evaluation, test: Pairs) -> None:
    """Add the comparison of two or more models: majority vote of the seeds at the main threshold."""
    models, settings = report.models, report.settings
    if len(models) < 2:
        return
    votes = {
        model: np.mean([passes(scores_of(scores, test, settings), settings.main) for scores in seeds], axis=0) > 0.5
        for model, seeds in models.items()
    }
    right = {model: passing == test.labels for model, passing in votes.items()}
    overall = compare_models(right)
    corrected = {(pair.first, pair.second): pair.p_holm for pair in overall.pairs}
    rows: list[Row] = []
    for first, second in combinations(models, 2):
        test_result = mcnemar_exact(right[first], right[second])
        difference = bootstrap_clustered(
            # mypy cannot infer a lambda with defaults
            lambda weights, a=votes[first], b=votes[second]: (  # type: ignore[misc]
                _f1(test.labels, a, weights) - _f1(test.labels, b, weights)
            ),
            test.pmids,
            seed=settings.seed,
            resamples=settings.resamples,
        )
        rows.append(
            {
                "first": first,
                "second": second,
                **test_result._asdict(),
                "p_holm": corrected.get((first, second)) if len(models) > 2 else test_result.p,
                "f1_difference": difference.estimate,
                "f1_difference_low": difference.low,
                "f1_difference_high": difference.high,
            }
        )
    if len(models) > 2:
        report.facts |= {"cochran_q": overall.q, "cochran_q_p": overall.p}
    report.add(
        "comparison",
        "Comparison of models",
        "Exact McNemar on right and wrong decisions of the seeds' majority; with three models or more, Holm's "
        "correction where Cochran's Q rejects that all are alike. Intervals resample whole articles.",
        rows,
    )


def compare_folds(report: Evaluation, pairs: Pairs) -> None:
    """Add F1 per fold from out-of-fold scores, and Friedman's test for three models or more."""
    models, settings = report.models, report.settings
    measures: dict[str, list[float]] = {}
    folds = np.unique(pairs.folds[pairs.folds >= 0]).tolist()
    for model, seeds in models.items():
        values = scores_of(seeds[0], pairs, settings)
        per_fold = [
            at_thresholds(pairs.labels[mine], values[mine], [settings.main])[0].f1
            for mine in (pairs.folds == fold for fold in folds)
        ]
        measures[model] = per_fold
    rows: list[Row] = [
        {"model": model, "fold": fold, "f1": f1}
        for model, values in measures.items()
        for fold, f1 in zip(folds, values, strict=True)
    ]
    report.add("folds", f"F1 per fold at {settings.main}", "Of each model's first seed, scored out of fold.", rows)
    if len(models) > 2:
        chi, p = friedman(measures)
        report.facts |= {"friedman_chi2": chi, "friedman_p": p}


def calibrate(report: Evaluation, test: Pairs, dev: Pairs) -> None:
    """Add calibration of the test pairs: as they are, and by maps fitted on the development pairs."""
    models, settings = report.models, report.settings
    rows: list[Row] = []
    curves: list[Row] = []
    for model, seeds in models.items():
        values = scores_of(seeds[0], test, settings).astype(np.float64)
        maps: dict[str, NDArray[np.float64]] = {"none": values}
        if dev.labels.any() and not dev.labels.all():
            fitted = scores_of(seeds[0], dev, settings)
            temperature = calibration.fit_temperature(dev.labels, fitted)
            report.facts[f"temperature of {model}"] = temperature.temperature
            maps["temperature"] = temperature(values)
            maps["isotonic"] = calibration.fit_isotonic(dev.labels, fitted)(values)
        else:
            report.skipped.append(f"calibration of {model}: the dev split lacks positive or negative pairs to fit on")
        for name, mapped in maps.items():
            found = calibration.calibration(test.labels, mapped, settings.bins)
            rows.append({"model": model, "map": name, **found._asdict()})
            curve = calibration.reliability(test.labels, mapped, settings.bins)
            curves += [{"model": model, "map": name, **row._asdict()} for row in curve]
    report.add(
        "calibration",
        "Calibration of the test pairs",
        "Of each model's first seed; maps are fitted on the dev split. Lower is better.",
        rows,
    )
    report.add("reliability", "Reliability", "Observed share of positives by bin of the score.", curves)


def audit_answers(report: Evaluation, answers: Answers) -> None:
    """Add the audit of judged answers."""
    rows: list[Row] = []
    separation: list[Row] = []
    for model, seed, scores in report.runs():
        found = audit(
            answers.right,
            scores.lookup(answers.pmids, answers.g2p_ids),
            answers.threshold,
            strata_N=answers.strata if len(set(answers.strata)) > 1 else None,
            second_N=answers.second,
        )
        run: Row = {"model": model, "seed": seed}
        for row in found.strata:
            below = row.precision_below
            rows.append(
                run
                | {"stratum": row.stratum, "answers": row.answers, "passing": row.passing, "right": row.right_passing}
                | {"precision": row.precision.estimate, "low": row.precision.low, "high": row.precision.high}
                | {"precision_below": below.estimate, "below_low": below.low, "below_high": below.high}
            )
        plain = {key: value for key, value in found._asdict().items() if key not in ("strata", "threshold")}
        separation.append(run | plain)
    report.add(
        "audit",
        f"Audit of judged answers at {answers.threshold}",
        "Share of right answers among those that pass and among those that do not, with Wilson's intervals.",
        rows,
    )
    report.add(
        "separation",
        "Does the score tell right answers from wrong ones?",
        "Medians of right and wrong answers; AUC 0.5 says no. Kappa is the agreement of two judges.",
        separation,
    )


def _f1(labels: Bools, passing: Bools, weights: NDArray[np.float64]) -> float:
    tp = float(weights[labels & passing].sum())
    precision, recall = share(tp, float(weights[passing].sum())), share(tp, float(weights[labels].sum()))
    return f_beta(precision, recall, 1.0)


def _average_precision(labels: Bools, scores: Scores, weights: NDArray[np.float64]) -> float:
    from sklearn.metrics import average_precision_score

    if not weights[labels].sum():
        return float("nan")
    return float(average_precision_score(labels, scores, sample_weight=weights))
