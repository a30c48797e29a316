"""Figures of the answers to a task: accuracies with their intervals, and tests between systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biomodels.evaluation.entity_linking.protocols import NOWHERE, Found, Task
from biomodels.evaluation.significance import bootstrap_clustered, mcnemar_exact

Places = NDArray[np.int64]


def places_of(found: Sequence[Found]) -> Places:
    """Return the place of each query's gold."""
    return np.array([answer.place for answer in found], dtype=np.int64)


def figures(task: Task, found: Sequence[Found], ks: Sequence[int], *, seed: int, resamples: int) -> dict[str, Any]:
    """Return a system's figures.

    Returns:
        `n`, `acc@1` and `acc@5` (shares, whatever `ks`), `ci95` of acc@1, `acc` and `recall` by k, `curve` (acc at
        1, 2, … max k), `mrr` (reciprocal places up to max k), and `unseen`: n, acc@1, acc@5 and ci95 of the queries
        that training did not show, or None.
    """
    places = places_of(found)
    deepest = max(*ks, 5)
    recall = {str(k): float(np.mean([np.mean([p <= k for p in answer.id_places]) for answer in found])) for k in ks}
    reciprocal = np.where(places <= deepest, 1 / places, 0.0)
    unseen = task.unseen if task.unseen is not None and task.unseen.any() else None
    everything = np.ones(len(places), dtype=bool)
    return {
        **_accuracy(task, places, everything, seed, resamples),
        "acc": {str(k): float(np.mean(places <= k)) for k in ks},
        "recall": recall,
        "curve": [round(float(np.mean(places <= k)), 6) for k in range(1, deepest + 1)],
        "mrr": float(np.mean(reciprocal)),
        "unseen": _accuracy(task, places, unseen, seed, resamples) if unseen is not None else None,
    }


def _accuracy(task: Task, places: Places, chosen: NDArray[np.bool_], seed: int, resamples: int) -> dict[str, Any]:
    """Return accuracies of some queries; documents are drawn for the interval, and a query counts in all of its own."""
    rights, weights, clusters = _rows(task, places, chosen)
    interval = _interval(rights, weights, clusters, seed, resamples)
    kept = places[chosen]
    return {
        "n": len(kept),
        "acc@1": float(np.mean(kept <= 1)),
        "acc@5": float(np.mean(kept <= 5)),
        "ci95": list(interval),
    }


def _rows(task: Task, places: Places, chosen: NDArray[np.bool_]) -> tuple[NDArray[np.float64], ...]:
    """Return per mention: right at 1, its weight (the mentions of a query share a weight of 1), its document."""
    queries = np.flatnonzero(chosen)
    counts = np.array([len(task.documents[q]) for q in queries], dtype=np.int64)
    rights = np.repeat((places[queries] <= 1).astype(np.float64), counts)
    documents = [document for q in queries for document in task.documents[q]]
    clusters: NDArray[Any] = np.unique(np.array(documents), return_inverse=True)[1]
    return rights, np.repeat(1 / counts, counts), clusters


def _interval(
    rights: NDArray[Any], weights: NDArray[Any], clusters: NDArray[Any], seed: int, resamples: int
) -> tuple[float, float]:
    """Return the interval of the weighted mean. Sums by cluster are all that it needs."""
    sums = np.bincount(clusters, weights * rights), np.bincount(clusters, weights)

    def mean(drawn: NDArray[np.float64]) -> float:
        return float(drawn @ sums[0] / (drawn @ sums[1]))

    interval = bootstrap_clustered(mean, np.arange(len(sums[0])), seed=seed, resamples=resamples)
    return interval.low, interval.high


def mean_figures(
    entries: Sequence[dict[str, Any]], answers: Sequence[tuple[Task, Sequence[Found]]], **draws: int
) -> dict[str, Any]:
    """Return the mean over parts of the figures of one system; each part counts alike.

    Args:
        entries: the figures of the parts.
        answers: their tasks and answers, in the same order.
        draws: `seed` and `resamples` of the interval.
    """

    def mean(name: str) -> float:
        return float(np.mean([entry[name] for entry in entries]))

    def by_k(name: str) -> dict[str, float]:
        return {k: float(np.mean([entry[name][k] for entry in entries])) for k in entries[0][name]}

    sums, part_of = [], []
    for part, (task, found) in enumerate(answers):
        places = places_of(found)
        rights, weights, clusters = _rows(task, places, np.ones(len(places), dtype=bool))
        found_sums = np.bincount(clusters, weights * rights), np.bincount(clusters, weights)
        sums.append(np.stack(found_sums, axis=1))
        part_of += [part] * len(sums[-1])
    edges = np.flatnonzero(np.diff(part_of, prepend=-1))
    stacked = np.concatenate(sums)

    def statistic(drawn: NDArray[np.float64]) -> float:
        totals = np.add.reduceat(drawn[:, None] * stacked, edges, axis=0)
        return float(np.mean(totals[:, 0] / totals[:, 1])) if (totals[:, 1] > 0).all() else float("nan")

    interval = bootstrap_clustered(statistic, np.arange(len(stacked)), **draws)
    return {
        "n": int(sum(entry["n"] for entry in entries)),
        "acc@1": mean("acc@1"),
        "acc@5": mean("acc@5"),
        "ci95": [interval.low, interval.high],
        "acc": by_k("acc"),
        "recall": by_k("recall"),
        "curve": [round(float(np.mean(column)), 6) for column in zip(*(e["curve"] for e in entries), strict=True)],
        "mrr": mean("mrr"),
        "unseen": None,
    }


def comparisons(found: Mapping[str, Sequence[Found]]) -> list[dict[str, Any]]:
    """Compare every two systems by McNemar's exact test on which queries are right at the first place.

    In `reference` mode repeated mentions are queries too, and not independent of each other; `fair` counts each once.
    """
    right = {system: places_of(answers) <= 1 for system, answers in found.items()}
    rows = []
    for first, second in combinations(right, 2):
        test = mcnemar_exact(right[first], right[second])
        rows.append(
            {
                "first": first,
                "second": second,
                "only_first": test.only_first,
                "only_second": test.only_second,
                "p": test.p,
            }
        )
    return rows


def hardest(task: Task, found: Mapping[str, Sequence[Found]], system: str, limit: int) -> list[dict[str, Any]]:
    """Return the queries that a system gets wrong and that fewest systems get right, the furthest places first."""
    wrong = np.sum([places_of(answers) > 1 for answers in found.values()], axis=0)
    places = places_of(found[system])
    reachable = frozenset().union(*set(task.dictionary.ids))
    queries = [
        q for q in np.flatnonzero(places > 1) if not reachable.isdisjoint(frozenset().union(*task.queries[q].gold))
    ]
    queries.sort(key=lambda q: (-wrong[q], -places[q], q))
    names = _names_of(task, [task.queries[q].gold for q in queries[:limit]])
    return [
        {
            "mention": " | ".join(task.queries[q].parts),
            "gold": sorted(frozenset().union(*task.queries[q].gold)),
            "gold_names": [names[i] for i in sorted(frozenset().union(*task.queries[q].gold)) if i in names],
            "place": int(places[q]) if places[q] < NOWHERE else None,
            "answers": [
                {"name": name, "ids": sorted(ids), "score": round(score, 4)}
                for part in found[system][int(q)].top
                for name, ids, score in part
            ],
        }
        for q in queries[:limit]
    ]


def _names_of(task: Task, golds: Sequence[Sequence[frozenset[str]]]) -> dict[str, str]:
    """Return the first name of each gold id in the dictionary."""
    wanted = {i for gold in golds for ids in gold for i in ids}
    names: dict[str, str] = {}
    for text, ids in zip(task.dictionary.texts, task.dictionary.ids, strict=True):
        for i in ids & wanted:
            names.setdefault(i, text)
    return names
