"""Search a sharded index: memory-mapped FAISS shards under one coarse quantizer, names and concepts beside them.

Files of an `index` artifact::

    template.faiss            the trained index without vectors
    shards/shard-000.faiss    the vectors whose name_id leaves this remainder; stock `faiss.read_index` reads it
    names/shard-000.arrow     the (concept, name) rows of the same name_ids, sorted by name_id
    concepts/bucket-000.arrow concept → preferred name; buckets by a hash of concept_id, as many as shards
    recall.json               recall over nprobe, and how the default nprobe was chosen

Shapes: N queries, D dimensions, K results, P probed lists.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biomodels.artifacts import Artifact
from biomodels.errors import ArtifactError, CompatibilityError, UsageError
from biomodels.index.cache import local_path
from biomodels.index.engine import for_search, load_faiss
from biomodels.index.names import ConceptTable, NameRow, NameTable, concept_bucket
from biomodels.terminology.normalise import Normaliser

KIND = "index"
SLACK = 8  # results fetched beyond k, so that one search usually shows whether a tie crosses the k-th place

Scores = NDArray[np.float32]
Ids = NDArray[np.int64]


class ShardedIndex:
    """An index opened for reading.

    Attributes:
        uri, digest: where it is and its identity.
        model_digest: the embedding model that made the vectors; no other may query it.
        dimension: D.
        metric: "cosine" or "ip".
        factory, nprobe, shards: how it was built; `nprobe` is the default of `search`.
        normaliser: what names went through before they were encoded; mentions must too.
        facts: the manifest's facts, with counts `strings`, `names` and `concepts`.
    """

    def __init__(self, artifact: Artifact, only: Sequence[int] | None, verify: bool) -> None:
        facts = artifact.facts
        self.uri = artifact.uri
        self.digest = artifact.digest
        self.facts = facts
        self.model_digest = str(facts["model_digest"])
        self.dimension = int(facts["dimension"])
        self.metric = str(facts["metric"])
        self.factory = str(facts["factory"])
        self.nprobe = int(facts["nprobe"])
        self.shards = int(facts["shards"])
        self.normaliser = Normaliser.from_name(str(facts["normaliser"]))
        chosen = range(self.shards) if only is None else only
        if not chosen or not set(chosen) <= set(range(self.shards)):
            raise UsageError(f"only: {list(chosen)} is no choice of the {self.shards} shards of {artifact.uri}")

        def path(name: str) -> Path:
            return local_path(artifact, name, verify=verify)

        self._shards = {i: _Shard(path(shard_file(i)), self.dimension) for i in chosen}
        self._names = {i: NameTable(path(names_file(i))) for i in chosen}
        self._concepts = [ConceptTable(path(concepts_file(i))) for i in range(self.shards)]
        faiss = load_faiss()
        self._pool = ThreadPoolExecutor(
            min(len(self._shards), len(os.sched_getaffinity(0))),
            thread_name_prefix="shard",
            initializer=lambda: faiss.omp_set_num_threads(1),
        )

    @classmethod
    def open(cls, uri: str, *, only: Sequence[int] | None = None, verify: bool = False) -> ShardedIndex:
        """Memory-map an index; remote files are copied to the node's cache first.

        Args:
            uri: the artifact.
            only: numbers of the shards to search, for one process per shard; all by default.
            verify: compare every file's SHA-256 with the manifest's, not only its size.

        Raises:
            ArtifactError: it is missing, unfinished or damaged.
            UsageError: faiss is not installed, or `only` names a shard that does not exist.
        """
        for_search(load_faiss())
        return cls(Artifact.open(uri, KIND), only, verify)

    def require_model(self, model_digest: str) -> None:
        """Refuse a model that did not make this index.

        Raises:
            CompatibilityError: naming both digests.
        """
        if model_digest != self.model_digest:
            raise CompatibilityError(
                f"{self.uri}: its vectors were made by model {self.model_digest}, not by {model_digest}; "
                "give that model (with the same pooling and length) or build the index again with this one"
            )

    def search(self, E_ND: NDArray[np.floating[Any]], k: int, *, nprobe: int | None = None) -> tuple[Scores, Ids]:
        """Find the k strings nearest to each query.

        Args:
            E_ND: query vectors; scaled to length 1 here if the metric is cosine.
            k: results per query, at least 1.
            nprobe: lists to visit per query; the index's default if None, and more than there are means all.

        Returns:
            S_NK float32 and I_NK int64 (name_ids), score descending, ties by name_id; -inf and -1 where fewer than k
            were found. A row does not depend on the other rows.

        Raises:
            UsageError: k or nprobe is below 1, or the vectors have another dimension.
        """
        if k < 1:
            raise UsageError(f"k: must be at least 1 (given: {k})")
        if nprobe is not None and nprobe < 1:
            raise UsageError(f"nprobe: must be at least 1 (given: {nprobe})")
        if E_ND.ndim != 2 or E_ND.shape[1] != self.dimension:
            raise UsageError(f"queries of shape {E_ND.shape}: {self.uri} needs (N, {self.dimension})")
        if not len(E_ND):
            return np.empty((0, k), np.float32), np.empty((0, k), np.int64)
        X_ND = np.ascontiguousarray(E_ND, dtype=np.float32)
        if self.metric == "cosine":
            X_ND = unit(X_ND)
        any_shard = next(iter(self._shards.values()))
        coarse = self._pool.submit(any_shard.assign, X_ND, nprobe or self.nprobe).result()
        parts = self._pool.map(lambda shard: shard.search(coarse, k), self._shards.values())
        return merge_topk(list(parts), k)

    def rows_of(self, name_ids: Iterable[int]) -> dict[int, list[NameRow]]:
        """Return every (concept, name) row that bears each string; homonyms have several concepts.

        Ids of -1, and ids that the index lacks, get no entry.

        Raises:
            UsageError: an id belongs to a shard that was not opened.
        """
        found: dict[int, list[NameRow]] = {}
        for name_id in {int(value) for value in name_ids} - {-1}:
            table = self._names.get(name_id % self.shards)
            if table is None:
                raise UsageError(f"name_id {name_id} lies in shard {name_id % self.shards}, which was not opened")
            rows = [self._row(row) for row in table.rows(name_id)]
            if rows:
                found[name_id] = rows
        return found

    def preferred_name(self, concept_id: str) -> str | None:
        """Return a concept's preferred name, or None if the index lacks the concept."""
        return self._concepts[concept_bucket(concept_id, self.shards)].preferred_name(concept_id)

    def _row(self, row: dict[str, Any]) -> NameRow:
        types = tuple(row["semantic_types"] or ())
        preferred_name = self.preferred_name(row["concept_id"]) or row["name"]
        return NameRow(**{**row, "semantic_types": types}, preferred_name=preferred_name)


class _Coarse:
    """Queries after the index's transform, and the lists that each visits; `lists` is None without lists."""

    def __init__(self, X_ND: Scores, lists: tuple[Scores, Ids] | None) -> None:
        self.X_ND = X_ND
        self.lists = lists


class _Shard:
    """One memory-mapped FAISS index."""

    def __init__(self, path: Path, dimension: int) -> None:
        faiss = load_faiss()
        try:
            self._index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:
            raise ArtifactError(f"{path}: faiss cannot read it ({error}); make the index again") from error
        if self._index.d != dimension:
            raise ArtifactError(
                f"{path}: has vectors of {self._index.d}, not {dimension} dimensions; make the index again"
            )
        self._faiss = faiss
        self._ivf = faiss.try_extract_index_ivf(self._index)

    def assign(self, X_ND: Scores, nprobe: int) -> _Coarse:
        """Choose the lists to visit; they are the same in every shard."""
        if self._ivf is None:
            return _Coarse(X_ND, None)
        index = self._faiss.downcast_index(self._index)
        if isinstance(index, self._faiss.IndexPreTransform):  # row by row: a matrix product rounds by its shape
            for i in range(index.chain.size()):
                X_ND = np.concatenate([index.chain.at(i).apply(row[np.newaxis]) for row in X_ND])
        return _Coarse(X_ND, self._ivf.quantizer.search(X_ND, min(nprobe, self._ivf.nlist)))

    def search(self, coarse: _Coarse, k: int) -> tuple[Scores, Ids]:
        """Find the shard's k best, ties by name_id also across the k-th place."""
        total = int(self._index.ntotal)
        width = min(k + SLACK, max(total, 1))
        S_NK, I_NK = self._raw(coarse, slice(None), width)
        if k < width:
            undecided = np.flatnonzero((S_NK[:, k - 1] == S_NK[:, -1]) & (I_NK[:, -1] >= 0))
            for row in undecided if width < total else ():
                s, i = self._all_tied(coarse, int(row), k, width, total)
                S_NK[row, :k], I_NK[row, :k] = s, i
                S_NK[row, k:], I_NK[row, k:] = -np.inf, -1
        return merge_topk([(S_NK, I_NK)], k)

    def _all_tied(self, coarse: _Coarse, row: int, k: int, width: int, total: int) -> tuple[Scores, Ids]:
        """Widen one query's search until a lower score follows its k-th."""
        while True:
            width = min(2 * width, total)
            S_NK, I_NK = self._raw(coarse, slice(row, row + 1), width)
            if width == total or S_NK[0, k - 1] != S_NK[0, -1]:
                S_NK, I_NK = merge_topk([(S_NK, I_NK)], k)
                return S_NK[0], I_NK[0]

    def _raw(self, coarse: _Coarse, rows: slice, width: int) -> tuple[Scores, Ids]:
        X_ND = coarse.X_ND[rows]
        if coarse.lists is None:
            S_NK, I_NK = self._index.search(X_ND, width)
        else:
            S_NP, I_NP = (np.ascontiguousarray(part[rows]) for part in coarse.lists)
            parameters = self._faiss.SearchParametersIVF(nprobe=I_NP.shape[1])
            S_NK, I_NK = self._ivf.search_preassigned(X_ND, width, I_NP, S_NP, params=parameters)
        return np.where(I_NK < 0, np.float32(-np.inf), S_NK), I_NK


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


def _numbered(folder: str, stem: str, suffix: str) -> Callable[[int], str]:
    return lambda i: f"{folder}/{stem}-{i:03d}.{suffix}"


shard_file = _numbered("shards", "shard", "faiss")
names_file = _numbered("names", "shard", "arrow")
concepts_file = _numbered("concepts", "bucket", "arrow")
