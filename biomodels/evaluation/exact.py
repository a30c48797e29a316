"""Exact nearest neighbours, block by block, with ties in a fixed order.

Legend: Q queries, N names, D dimensions, K ranks.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

Metric = Literal["cosine", "ip"]
Ranking = tuple[NDArray[np.float64], NDArray[np.int64]]

TIE = 1e-5  # scores closer than this are one score: float32 kernels differ below it
QUERY_BLOCK = 512
NAME_BLOCK = 16384
SPARE = 16  # names kept beyond k by the fast pass, so that its rounding cannot drop one of the first k


class Rows(Protocol):
    """Vectors that are read a slice or an index array at a time: an array, a memory map, or a view of either."""

    def __len__(self) -> int: ...

    def __getitem__(self, which: Any, /) -> NDArray[np.float32]: ...


def exact_topk(E_QD: NDArray[np.float32], E_ND: Rows, k: int, metric: Metric) -> Ranking:
    """Return the k best names of every query.

    A float32 pass finds k + 16 names; those are scored again in float64, rounded to 1e-5 and ordered by score, then
    by row. Inner products are divided by the query's length and the longest name's length first, so that the
    rounding means the same at any scale; one query's order does not change by that.

    Args:
        E_QD: queries.
        E_ND: names; may be memory-mapped. No more than a block of scores is ever held.
        k: at most N.
        metric: "cosine", or "ip" for the inner product of the vectors as they are.

    Returns:
        S_QK rounded scores, and I_QK rows of E_ND; best first, equal scores by row.
    """
    scale = 1.0 if metric == "cosine" else _longest(E_ND)
    blocks = range(0, len(E_QD), QUERY_BLOCK)
    S_QK = np.empty((len(E_QD), k), dtype=np.float64)
    I_QK = np.empty((len(E_QD), k), dtype=np.int64)

    def work(start: int) -> None:
        rows = slice(start, start + QUERY_BLOCK)
        S_QK[rows], I_QK[rows] = _block(_unit(E_QD[rows]), E_ND, k, metric, scale)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(work, blocks))
    return S_QK, I_QK


def _block(E_QD: NDArray[np.float32], E_ND: Rows, k: int, metric: Metric, scale: float) -> Ranking:
    queries = torch.from_numpy(E_QD)
    kept = min(k + SPARE, len(E_ND))
    best_S = np.empty((len(E_QD), 0), dtype=np.float64)
    best_I = np.empty((len(E_QD), 0), dtype=np.int64)
    for start in range(0, len(E_ND), NAME_BLOCK):
        names: NDArray[np.float32] = np.asarray(E_ND[start : start + NAME_BLOCK])
        if metric == "cosine":
            names = _unit(names)
        found = torch.topk(queries @ torch.from_numpy(names).T, min(kept, len(names)), dim=1).indices.numpy()
        scores = np.einsum("qd,qkd->qk", E_QD.astype(np.float64), names[found].astype(np.float64)) / scale
        best_S = np.concatenate([best_S, np.round(scores / TIE) * TIE], axis=1)
        best_I = np.concatenate([best_I, found + start], axis=1)
        order = np.lexsort((best_I, -best_S), axis=1)[:, :kept]
        best_S, best_I = np.take_along_axis(best_S, order, 1), np.take_along_axis(best_I, order, 1)
    return best_S[:, :k], best_I[:, :k]


def _unit(E_ND: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(E_ND, axis=1, keepdims=True)
    return np.ascontiguousarray(E_ND / np.maximum(lengths, np.float32(1e-12)), dtype=np.float32)


def _longest(E_ND: Rows) -> float:
    starts = range(0, len(E_ND), NAME_BLOCK)
    return max(float(np.linalg.norm(E_ND[start : start + NAME_BLOCK], axis=1).max()) for start in starts)
