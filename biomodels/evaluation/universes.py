"""Top-k of an article's entries within a universe: which entries compete.

panel     all entries there are
pool      the entries that occur in the test pairs
gate      the article's own gene-gate candidates: what a deployed model ranks
siblings  all entries of the true entries' genes, for articles where that is more than the true ones

A true entry outside the universe cannot be found and counts as an error, and so does an article with an empty universe.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from biomodels.errors import InputError
from biomodels.evaluation.metrics import score_rankings
from biomodels.evaluation.pair_scores import PairScores, ranked


class TopK(NamedTuple):
    """Shares of articles in one universe.

    Attributes:
        universe: its name.
        articles: how many articles with a true entry were ranked.
        empty: how many of them have an empty universe.
        missed: how many have no true entry in their universe (empty ones included): errors at every k.
        mean_size: mean number of entries that compete.
        acc: k → share of articles with a true entry among the first k.
        recall: k → mean share of an article's true entries among the first k.
    """

    universe: str
    articles: int
    empty: int
    missed: int
    mean_size: float
    acc: dict[int, float]
    recall: dict[int, float]


Universe = Callable[[int], Collection[str]]
"""PMID → the ids that compete there."""


def top_k(
    name: str, scores: PairScores, gold: Mapping[int, Collection[str]], universe: Universe, ks: Sequence[int]
) -> TopK:
    """Rank each article's universe by score, equal scores by id.

    Args:
        name: of the universe.
        scores: of every pair that competes.
        gold: PMID → its true entries, at least one.
        universe: see the type.
        ks: depths to report.

    Raises:
        InputError: a pair that competes has no score.
        ValueError: `gold` is empty.
    """
    rankings, sizes, missed = [], [], 0
    for pmid, true in gold.items():
        ids, values = scores.of(pmid)
        competing = sorted(universe(pmid))
        here = np.isin(ids, competing)
        if here.sum() != len(competing):
            absent = min(set(competing) - set(ids.tolist()))
            raise InputError(f"universe {name}: {absent} has no score for PMID {pmid}; score all of its pairs")
        sizes.append(len(competing))
        missed += not set(true) & set(competing)
        rankings.append([frozenset([g2p_id]) for g2p_id in ranked(ids[here], values[here], max(ks))])
    found = score_rankings(rankings, (frozenset(true) for true in gold.values()), ks)
    return TopK(name, len(gold), sizes.count(0), missed, float(np.mean(sizes)), *found)
