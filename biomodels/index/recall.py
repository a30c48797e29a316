"""Measure an index against exact search, and choose how many lists to visit.

The queries are stored vectors, chosen by a keyed hash, each searched as if it were not there: the question is
whether the nearest other names are found. Recall@k is the share of the k results whose exact score reaches that
of the exact k-th neighbour, so that equal vectors do not count against the index.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biomodels.index.shards import Ids, Scores, merge_topk

CUTS = (1, 10, 100)
WIDTH = 128  # exact neighbours kept, so that ties at the 100th place are seen
TIE = 1e-6
BLOCK = 8192  # vectors compared with all queries at a time


def exact(queries: tuple[Ids, Scores], corpus: Iterable[tuple[Ids, Scores]], width: int = WIDTH) -> tuple[Scores, Ids]:
    """Find the nearest other vectors of each query by comparing with all.

    Args:
        queries: name_ids and vectors Q_ND.
        corpus: pieces of name_ids and vectors, read one at a time.
        width: neighbours to keep.

    Returns:
        S_NK and I_NK as `merge_topk` does.
    """
    ids, Q_ND = queries
    blocks = (
        (piece_ids[start : start + BLOCK], E_MD[start : start + BLOCK])
        for piece_ids, E_MD in corpus
        for start in range(0, len(piece_ids), BLOCK)
    )
    best: tuple[NDArray[Any], Ids] = np.empty((len(ids), 0)), np.empty((len(ids), 0), np.int64)
    for piece_ids, E_MD in blocks:
        S_NM = Q_ND @ E_MD.T
        S_NM[ids[:, np.newaxis] == piece_ids[np.newaxis, :]] = -np.inf
        kept = min(width, S_NM.shape[1])
        top = np.argpartition(-S_NM, kept - 1, axis=1)[:, :kept]
        S_NK = np.where(np.isneginf(np.take_along_axis(S_NM, top, axis=1)), -np.inf, _rescore(Q_ND, E_MD, top))
        best = merge_topk([best, (S_NK, np.where(np.isneginf(S_NK), -1, piece_ids[top]))], width)
    return best


def _rescore(Q_ND: Scores, E_MD: Scores, top: Ids) -> NDArray[np.float64]:
    """Score candidates in float64: the last bits of a float32 product differ between runs, and would move ties."""
    rows = np.array_split(np.arange(len(Q_ND)), -(-len(Q_ND) // 64) or 1)
    pieces = [np.einsum("nd,nkd->nk", Q_ND[r].astype(np.float64), E_MD[top[r]].astype(np.float64)) for r in rows]
    return np.concatenate(pieces)


def recall_at(found: Ids, truth: tuple[Scores, Ids], k: int) -> float:
    """Return recall@k of results I_NK (self removed) against exact neighbours; 1.0 if there is nothing to find."""
    S_NK, I_NK = truth
    wanted = np.minimum((I_NK >= 0).sum(axis=1), k)
    hits = 0
    for row, answer in enumerate(found[:, :k]):
        if wanted[row]:
            worthy = I_NK[row][S_NK[row] >= S_NK[row, wanted[row] - 1] - TIE]
            hits += min(int(np.isin(answer, worthy).sum()), int(wanted[row]))
    total = int(wanted.sum())
    return hits / total if total else 1.0


def without_self(I_NK: Ids, ids: Ids) -> Ids:
    """Drop each query's own id from its results, or the last result where it is not among them."""
    own = ids[:, np.newaxis] == I_NK
    own[:, -1] |= ~own.any(axis=1)
    return np.asarray(I_NK[~own].reshape(len(I_NK), -1))


def calibrate(
    search: Callable[[Scores, int, int], tuple[Scores, Ids]],
    queries: tuple[Ids, Scores],
    truth: tuple[Scores, Ids],
    *,
    lists: int,
    target: float,
) -> tuple[dict[str, Any], dict[int, float]]:
    """Find a small nprobe whose recall@10 reaches `target`: the first power of two that does, or 3/4 of it.

    The sweep goes on to four times as many lists, so that the curve shows what more of them would bring.

    Args:
        search: `(X_ND, k, nprobe)` → S_NK, I_NK.
        queries: name_ids and vectors, from the index.
        truth: their exact neighbours.
        lists: number of inverted lists, the largest nprobe.
        target: recall@10 to reach. Where a codec keeps it out of reach, the smallest nprobe is taken that comes
            within 0.001 of visiting all lists.

    Returns:
        `nprobe`, `reached` and the `curve`: for each nprobe tried, recall at 1, 10 and 100. Beside it, since times
        are another on every run, nprobe → milliseconds per query, all cores at work on all queries.
    """
    curve: dict[int, dict[str, float]] = {}
    latency: dict[int, float] = {}

    def recall(nprobe: int) -> float:
        if nprobe not in curve:
            started = time.perf_counter()
            found = search(queries[1], max(CUTS) + 1, nprobe)[1]
            latency[nprobe] = round(1000 * (time.perf_counter() - started) / len(queries[0]), 4)
            found = without_self(found, queries[0])
            curve[nprobe] = {f"recall_at_{k}": round(recall_at(found, truth, k), 6) for k in CUTS}
        return curve[nprobe]["recall_at_10"]

    def smallest(goal: float) -> int | None:
        nprobe = 1
        while recall(nprobe) < goal:
            if nprobe == lists:
                return None
            nprobe = min(2 * nprobe, lists)
        between = 3 * nprobe // 4
        return between if between > nprobe // 2 and recall(between) >= goal else nprobe

    chosen = smallest(target)
    reached = chosen is not None
    if chosen is None:
        chosen = smallest(recall(lists) - 0.001) or lists
    for factor in (2, 4):
        recall(min(factor * chosen, lists))
    points = [{"nprobe": nprobe, **curve[nprobe]} for nprobe in sorted(curve)]
    measured = {"nprobe": chosen, "reached": reached, "curve": points, "queries": len(queries[0]), "target": target}
    return measured, latency


def plot(result: dict[str, Any], latency: dict[int, float], title: str) -> bytes:
    """Draw the curves of `calibrate`, recall over nprobe and recall over latency, as a PNG."""
    import io

    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), dpi=120, sharey=True)
    probes: NDArray[np.int64] = np.array([point["nprobe"] for point in result["curve"]])
    milliseconds = [latency[nprobe] for nprobe in probes.tolist()]
    for k in CUTS:
        recalls = [point[f"recall_at_{k}"] for point in result["curve"]]
        left.plot(probes, recalls, marker="o", label=f"recall@{k}")
        right.plot(milliseconds, recalls, marker="o")
    for axes, chosen in ((left, result["nprobe"]), (right, latency[result["nprobe"]])):
        axes.axhline(result["target"], color="grey", linewidth=0.8)
        axes.axvline(chosen, color="grey", linewidth=0.8, linestyle="--")
    left.set(xscale="log", xlabel="nprobe", ylabel="recall against exact search", title=title)
    right.set(xscale="log", xlabel="milliseconds per query, all cores")
    left.legend()
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    pyplot.close(figure)
    return buffer.getvalue()
