"""Search several FAISS indexes that share one coarse quantizer as if they were one.

Shapes: N queries, D dimensions, K results, P probed lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biomodels.errors import ArtifactError
from biomodels.index.engine import cores, for_search, load_faiss, read_index
from biomodels.index.factory import chain_of

SLACK = 8  # results fetched beyond k, so that one search usually shows whether a tie crosses the k-th place

Scores = NDArray[np.float32]
Ids = NDArray[np.int64]


class Shards:
    """Memory-mapped FAISS indexes, searched in parallel, one core each.

    Args:
        paths: local files.
        dimension: D.
    """

    def __init__(self, paths: Sequence[Path], dimension: int) -> None:
        self._faiss = faiss = load_faiss()
        self._shards = [_Shard(faiss, path, dimension) for path in paths]
        self._threads = cores()
        self._pool = ThreadPoolExecutor(
            self._threads, thread_name_prefix="shard", initializer=lambda: faiss.omp_set_num_threads(1)
        )

    def search(
        self,
        X_ND: Scores,
        k: int,
        nprobe: int,
        selectors: Sequence[Any | None] | None = None,
        *,
        batch_invariant: bool = True,
    ) -> tuple[Scores, Ids]:
        """Return S_NK and I_NK as `ShardedIndex.search` does, for vectors that are scaled as the metric needs.

        Args:
            X_ND: queries.
            k: results per query.
            nprobe: lists to visit.
            selectors: for each index a FAISS `IDSelector` of the ids that may answer, or None for all.
            batch_invariant: see `ShardedIndex.search`.
        """
        for_search(self._faiss, batch_invariant=batch_invariant)
        pieces = np.array_split(X_ND, min(len(X_ND), self._threads))
        coarse = list(self._pool.map(lambda piece: self._shards[0].assign(piece, nprobe, batch_invariant), pieces))
        shards = list(zip(self._shards, selectors or [None] * len(self._shards), strict=True))
        work = [(piece, shard, selector) for piece in coarse for shard, selector in shards]
        found = list(self._pool.map(lambda item: item[1].search(item[0], k, item[2]), work))
        merged = [merge_topk(found[i : i + len(shards)], k) for i in range(0, len(found), len(shards))]
        return np.concatenate([scores for scores, _ in merged]), np.concatenate([ids for _, ids in merged])


class _Coarse:
    """Queries after the index's transform, and the lists that each visits; `lists` is None without lists."""

    def __init__(self, X_ND: Scores, lists: tuple[Scores, Ids] | None) -> None:
        self.X_ND = X_ND
        self.lists = lists


class _Shard:
    """One memory-mapped FAISS index."""

    def __init__(self, faiss: Any, path: Path, dimension: int) -> None:
        self._index = read_index(path)
        if self._index.d != dimension:
            raise ArtifactError(
                f"{path}: has vectors of {self._index.d}, not {dimension} dimensions; make the index again"
            )
        self._faiss = faiss
        self._ivf = faiss.try_extract_index_ivf(self._index)

    def assign(self, X_ND: Scores, nprobe: int, batch_invariant: bool) -> _Coarse:
        """Choose the lists to visit; they are the same in every shard."""
        if self._ivf is None:
            return _Coarse(X_ND, None)
        for transform in chain_of(self._index):  # row by row: a matrix product rounds by its shape
            pieces = X_ND[:, np.newaxis] if batch_invariant else [X_ND]
            X_ND = np.concatenate([transform.apply(piece) for piece in pieces])
        return _Coarse(X_ND, self._ivf.quantizer.search(X_ND, min(nprobe, self._ivf.nlist)))

    def search(self, coarse: _Coarse, k: int, selector: Any | None) -> tuple[Scores, Ids]:
        """Find the shard's k best, ties by name_id also across the k-th place."""
        total = int(self._index.ntotal)
        width = min(k + SLACK, max(total, 1))
        S_NK, I_NK = self._raw(coarse, slice(None), width, selector)
        if k < width:
            undecided = np.flatnonzero((S_NK[:, k - 1] == S_NK[:, -1]) & (I_NK[:, -1] >= 0))
            for row in undecided if width < total else ():
                s, i = self._all_tied(coarse, int(row), k, width, selector)
                S_NK[row, :k], I_NK[row, :k] = s, i
                S_NK[row, k:], I_NK[row, k:] = -np.inf, -1
        return merge_topk([(S_NK, I_NK)], k)

    def _all_tied(self, coarse: _Coarse, row: int, k: int, width: int, selector: Any | None) -> tuple[Scores, Ids]:
        """Widen one query's search until a lower score follows its k-th."""
        total = int(self._index.ntotal)
        while True:
            width = min(2 * width, total)
            S_NK, I_NK = self._raw(coarse, slice(row, row + 1), width, selector)
            if width == total or S_NK[0, k - 1] != S_NK[0, -1]:
                S_NK, I_NK = merge_topk([(S_NK, I_NK)], k)
                return S_NK[0], I_NK[0]

    def _raw(self, coarse: _Coarse, rows: slice, width: int, selector: Any | None) -> tuple[Scores, Ids]:
        X_ND = coarse.X_ND[rows]
        if coarse.lists is None:
            parameters = None if selector is None else self._faiss.SearchParameters(sel=selector)
            S_NK, I_NK = self._index.search(X_ND, width, params=parameters)
        else:
            S_NK, I_NK = self._visit(X_ND, coarse.lists[0][rows], coarse.lists[1][rows], width, selector)
        return np.where(I_NK < 0, np.float32(-np.inf), S_NK), I_NK

    def _visit(self, X_ND: Scores, S_NP: Scores, I_NP: Ids, width: int, selector: Any | None) -> tuple[Scores, Ids]:
        """Scan chosen lists; FAISS's Python wrapper would take nprobe from the index, which all threads share."""
        faiss = self._faiss
        X_ND, S_NP, I_NP = np.ascontiguousarray(X_ND), np.ascontiguousarray(S_NP), np.ascontiguousarray(I_NP)
        S_NK = np.empty((len(X_ND), width), dtype=np.float32)
        I_NK = np.empty((len(X_ND), width), dtype=np.int64)
        pointers = [faiss.swig_ptr(array) for array in (X_ND, I_NP, S_NP, S_NK, I_NK)]
        parameters = faiss.SearchParametersIVF(nprobe=I_NP.shape[1], sel=selector)
        self._ivf.search_preassigned_c(len(X_ND), pointers[0], width, *pointers[1:], False, parameters)
        return S_NK, I_NK


def merge_topk(parts: Sequence[tuple[Scores, Ids]], k: int) -> tuple[Scores, Ids]:
    """Merge results for the same queries from several shards.

    Args:
        parts: S_NK and I_NK of each shard; widths may differ.
        k: results to keep.

    Returns:
        S_NK and I_NK, score descending, ties by id; padded with -inf and -1.
    """
    S_NK = np.concatenate([part[0] for part in parts], axis=1)
    I_NK = np.concatenate([part[1] for part in parts], axis=1)
    order = np.lexsort((I_NK, -S_NK), axis=-1)[:, :k]
    S_NK, I_NK = np.take_along_axis(S_NK, order, axis=1), np.take_along_axis(I_NK, order, axis=1)
    missing = ((0, 0), (0, k - S_NK.shape[1]))
    if missing[1][1]:
        S_NK, I_NK = np.pad(S_NK, missing, constant_values=-np.inf), np.pad(I_NK, missing, constant_values=-1)
    return S_NK, I_NK


def unit(X_ND: Scores) -> Scores:
    """Scale rows to length 1; a zero vector stays zero."""
    lengths = np.sqrt(np.einsum("nd,nd->n", X_ND, X_ND, dtype=np.float64))[:, np.newaxis]
    return np.asarray(X_ND / np.maximum(lengths, 1e-12), dtype=np.float32)
