"""The frozen external benchmark: how much truth is found, and how often a model fires on the corpus at large.

A test set of in-domain negatives cannot see that a model fires on abstracts that nobody would have annotated; a sample
of the corpus can. So both are reported: the recall of pairs that independent sources assert, and the share of *all*
sampled abstracts, gated or not, in which some candidate passes.

Legend: T truth pairs, N sampled abstracts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from biomodels.evaluation.classification import Floats, f_beta, passes, share
from biomodels.evaluation.significance import wilson


class Proportion(NamedTuple):
    """A share of a stratum at a threshold, with its 95 % Wilson interval. Of an empty stratum the share is NaN."""

    stratum: str
    threshold: float
    n: int
    passing: int
    share: float
    low: float
    high: float


class Benchmark(NamedTuple):
    """One model at one threshold, as it would do if deployed.

    `deploy_paper_recall` is the share of truth papers with a true pair that passes; `bench_precision_lb` =
    found papers / (found papers + fired abstracts), a lower bound of precision as if every fired abstract were wrong.
    """

    threshold: float
    inscope_pair_recall: float
    deploy_paper_recall: float
    fired_corpus_abstracts: int
    fire_pct: float
    bench_precision_lb: float
    bench_f1_lb: float
    bench_f05_lb: float


def proportions(scores: Floats, strata: Mapping[str, ArrayLike], thresholds: Sequence[float]) -> list[Proportion]:
    """Return the share of scores that pass, by stratum and threshold.

    Args:
        scores: one per truth pair (then the shares are recalls), or the best of each sampled abstract (then they are
            fire rates). NaN, for a pair outside the gate or an abstract without candidates, never passes but counts.
        strata: name → booleans that say which scores belong to it. Strata may overlap.
        thresholds: where to measure.
    """
    rows = []
    for stratum, chosen in strata.items():
        mine = scores[np.asarray(chosen, dtype=bool)]
        for threshold in thresholds:
            passing = int(passes(mine, threshold).sum())
            rows.append(Proportion(stratum, float(threshold), len(mine), passing, *wilson(passing, len(mine))[:3]))
    return rows


def strata_of(values: Sequence[object]) -> dict[str, NDArray[np.bool_]]:
    """Return one stratum per distinct value, sorted."""
    names = np.asarray([str(value) for value in values], dtype=np.str_)
    return {str(name): names == name for name in np.unique(names)}


def decade(year: int | None) -> str:
    """Return "1990s" for 1994, and "unknown" for None."""
    return f"{year // 10 * 10}s" if year is not None else "unknown"


def deployed(
    truth_pmids_T: ArrayLike,
    truth_scores_T: Floats,
    in_scope_T: ArrayLike,
    best_N: Floats,
    thresholds: Sequence[float],
) -> list[Benchmark]:
    """Measure truth and corpus together.

    Args:
        truth_pmids_T: the paper of each truth pair.
        truth_scores_T: its score; NaN where the pair is not in its paper's candidates.
        in_scope_T: whether the pair is in the scope of what the model is to find.
        best_N: the best score of each sampled abstract; NaN without candidates.
        thresholds: where to measure.
    """
    papers = np.unique(np.asarray(truth_pmids_T, dtype=np.int64), return_inverse=True)[1]
    n_papers = int(papers.max()) + 1 if len(papers) else 0
    in_scope = np.asarray(in_scope_T, dtype=bool)
    rows = []
    for threshold in thresholds:
        hit = passes(truth_scores_T, threshold)
        found, fired = len(np.unique(papers[hit])), int(passes(best_N, threshold).sum())
        precision, recall = share(found, found + fired), share(found, n_papers)
        rows.append(
            Benchmark(
                threshold=float(threshold),
                inscope_pair_recall=float(hit[in_scope].mean()) if in_scope.any() else math.nan,
                deploy_paper_recall=recall if n_papers else math.nan,
                fired_corpus_abstracts=fired,
                fire_pct=100 * fired / len(best_N) if len(best_N) else math.nan,
                bench_precision_lb=precision,
                bench_f1_lb=f_beta(precision, recall, 1.0),
                bench_f05_lb=f_beta(precision, recall, 0.5),
            )
        )
    return rows
