"""Measures of a ranking, as pure functions.

A *key* is what one place of a ranking stands for: the set of ids of one dictionary name. Most names have one id; a
name whose ids are `D001943|114480` has two, and either is right. The gold of a query is such a set too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

IdSet = frozenset[str]


def id_set(field: str) -> IdSet:
    """Read an id field: `D001943`, or alternatives `D001943|114480`."""
    return frozenset(part for part in field.split("|") if part)


class Scores(NamedTuple):
    """Means over all queries.

    Attributes:
        acc: k → share of queries with a right key among the first k.
        recall: k → mean share of a query's gold ids that the first k keys bear. With one gold id per query it equals
            `acc`; with alternatives it is smaller, unless all of them are found.
    """

    acc: dict[int, float]
    recall: dict[int, float]


def score_rankings(rankings: Iterable[Sequence[IdSet]], golds: Iterable[IdSet], ks: Sequence[int]) -> Scores:
    """Score rankings against their golds.

    Args:
        rankings: per query its keys, best first; at least `max(ks)` of them, or all there are.
        golds: per query the ids that count as right; not empty.
        ks: the depths to report.

    Raises:
        ValueError: there is no query, a gold is empty, or the two differ in length.
    """
    hits = dict.fromkeys(ks, 0)
    shares = dict.fromkeys(ks, 0.0)
    queries = 0
    for ranking, gold in zip(rankings, golds, strict=True):
        if not gold:
            raise ValueError(f"query {queries} has no gold id")
        queries += 1
        for k in ks:
            found = gold & frozenset().union(*ranking[:k])
            hits[k] += bool(found)
            shares[k] += len(found) / len(gold)
    if not queries:
        raise ValueError("there is no query to score")
    return Scores({k: hits[k] / queries for k in ks}, {k: shares[k] / queries for k in ks})


def distinct(ranking: Iterable[IdSet], limit: int | None = None) -> list[IdSet]:
    """Turn a ranking of names into one of concepts: each key once, at its best place.

    Two names are of one concept if their ids are the same set.
    """
    found: dict[IdSet, None] = {}
    for key in ranking:
        found.setdefault(key)
        if len(found) == limit:
            break
    return list(found)


class Part(NamedTuple):
    """One part of a composite mention, with the ids of its ranked names, best first."""

    gold: str
    ranking: Sequence[str]


def split_composite(mention: str, gold: str) -> tuple[list[str], str]:
    """Split a query the way BioSyn's and SapBERT's evaluations do.

    `+` and `|` both separate the parts of a mention, and both separate gold ids; every part is judged by all of the
    gold ids. The rule also cuts mentions that merely contain a plus sign, such as "Mg2+".

    Returns:
        The parts of the mention, and the gold field that goes with each.
    """
    return mention.replace("+", "|").split("|"), gold.replace("+", "|")


def reference_accuracy(queries: Iterable[Sequence[Part]], ks: Sequence[int]) -> dict[int, float]:
    """Return acc@k by name exactly as BioSyn's and SapBERT's evaluations count it.

    A part is found within k if one of its first k names shares an id with its gold; a query counts if every part is
    found. Gold `+` is read as `|`, the ids of names are split at `|` alone: a name with ids `A+B` matches nothing.

    Args:
        queries: per query its parts; a simple mention has one.
        ks: the depths to report.

    Raises:
        ValueError: there is no query.
    """
    hits = dict.fromkeys(ks, 0)
    count = 0
    for parts in queries:
        count += 1
        for k in ks:
            hits[k] += all(_found(part, k) for part in parts)
    if not count:
        raise ValueError("there is no query to score")
    return {k: hits[k] / count for k in ks}


def _found(part: Part, k: int) -> bool:
    gold = set(part.gold.replace("+", "|").split("|"))
    return any(gold.intersection(ids.split("|")) for ids in part.ranking[:k])
