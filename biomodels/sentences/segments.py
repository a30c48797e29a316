"""Stretches of an index of sentences, each searched in its own way: exactly, or by inverted lists in shards.

Shapes: N queries, D dimensions, K results.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from biomodels.artifacts import Artifact, ArtifactBuilder
from biomodels.index import build, recall
from biomodels.index.cache import local_file
from biomodels.index.engine import for_search, load_faiss
from biomodels.index.factory import check_size, default_factory, lists_of, new_index
from biomodels.index.manifest import shard_file
from biomodels.index.shards import Ids, Scores, Shards, merge_topk
from biomodels.inference.parts import fixed_size_list

KIND = "sentence_vectors"
PART_ROWS = 1 << 16
SHARD_ROWS = 1 << 20
RECALL_QUERIES = 200
RECALL = 0.95
"""Share of the ten nearest sentences that a search of inverted lists should find."""

_BLOCK_ROWS = 1 << 15
_BLOCK_QUERIES = 256


class Segment(Protocol):
    """A stretch of rows that can be searched."""

    rows: int
    facts: dict[str, Any]

    def search(self, Q_ND: Scores, k: int, alive: NDArray[np.bool_] | None) -> tuple[Scores, Ids]:
        """Return S_NK and rows I_NK, score descending, ties by row; -inf and -1 where there is no more.

        Args:
            Q_ND: unit vectors.
            k: results for each query.
            alive: which rows may be found; all if None.
        """

    def files(self) -> dict[str, Path]:
        """Return name → local file of what a saved index keeps of this segment."""


class ExactSegment:
    """Vectors compared one by one.

    Args:
        E_ND: unit vectors, in memory or memory-mapped.
        file: where they lie as `.npy`, if they do.
        faiss: compare with FAISS; else with numpy.
    """

    def __init__(self, E_ND: Scores, file: Path | None = None, *, faiss: bool = True) -> None:
        self.E_ND = E_ND
        self.rows = len(E_ND)
        self._file = file
        self._faiss = load_faiss() if faiss else None
        self.facts: dict[str, Any] = {"kind": "exact", "rows": self.rows, "faiss": faiss}

    def files(self) -> dict[str, Path]:
        """See `Segment`; vectors in memory have no file."""
        return {"vectors.npy": self._file} if self._file is not None else {}

    def search(self, Q_ND: Scores, k: int, alive: NDArray[np.bool_] | None) -> tuple[Scores, Ids]:
        """See `Segment`."""
        found = [
            self._search(Q_ND[start : start + _BLOCK_QUERIES], k, alive)
            for start in range(0, len(Q_ND), _BLOCK_QUERIES)
        ]
        return np.concatenate([part[0] for part in found]), np.concatenate([part[1] for part in found])

    def _search(self, Q_ND: Scores, k: int, alive: NDArray[np.bool_] | None) -> tuple[Scores, Ids]:
        best: tuple[Scores, Ids] = np.empty((len(Q_ND), 0), np.float32), np.empty((len(Q_ND), 0), np.int64)
        for start in range(0, self.rows, _BLOCK_ROWS):
            S_NM = self._scores(Q_ND, np.asarray(self.E_ND[start : start + _BLOCK_ROWS]))
            if alive is not None:
                S_NM[:, ~alive[start : start + _BLOCK_ROWS]] = -np.inf
            best = merge_topk([best, _best(S_NM, start, k)], k)
        return merge_topk([best], k)

    def _scores(self, Q_ND: Scores, E_MD: Scores) -> Scores:
        if self._faiss is None:
            return np.stack([E_MD @ query for query in Q_ND])  # one by one: a matrix product rounds by its shape
        faiss = for_search(self._faiss)
        S_NM = np.empty((len(Q_ND), len(E_MD)), dtype=np.float32)
        Q_ND, E_MD = np.ascontiguousarray(Q_ND), np.ascontiguousarray(E_MD)
        for query, row in zip(Q_ND, S_NM, strict=True):
            faiss.fvec_inner_products_ny(
                faiss.swig_ptr(row), faiss.swig_ptr(query), faiss.swig_ptr(E_MD), E_MD.shape[1], len(E_MD)
            )
        return S_NM


class ShardedSegment:
    """Vectors in inverted lists, cut into memory-mapped shards; see `biomodels.index`.

    A row's id in the shards is its number times `step`, so that ids spread evenly below 2^63, as the shards need.
    """

    def __init__(self, directory: str, files: dict[str, Path], facts: dict[str, Any]) -> None:
        self.directory = directory
        self.facts = facts
        self.rows = int(facts["rows"])
        self._files = files
        self._lists = int(facts["lists"])
        self._nprobe = int(facts["nprobe"])
        self._step = _step(self.rows)
        shards = [files[shard_file("", number)] for number in range(int(facts["shards"]))]
        self._shards = Shards(shards, int(facts["dimension"]))

    def files(self) -> dict[str, Path]:
        """See `Segment`."""
        return self._files

    def search(self, Q_ND: Scores, k: int, alive: NDArray[np.bool_] | None) -> tuple[Scores, Ids]:
        """See `Segment`. Visits more lists, and looks deeper, for a query that did not find k rows that are alive."""
        living = self.rows if alive is None else int(alive.sum())
        wanted = min(k, living)
        S_NK, I_NK = self._once(Q_ND, k, self._nprobe, alive)
        width, nprobe = k, self._nprobe
        while wanted and (short := np.flatnonzero((I_NK >= 0).sum(axis=1) < wanted)).size:
            if width >= self.rows and nprobe >= self._lists:
                break
            width, nprobe = min(2 * width + 8, self.rows), min(2 * nprobe, self._lists)
            found = self._once(Q_ND[short], width, nprobe, alive)
            S_NK[short], I_NK[short] = merge_topk([found], k)
        return S_NK, I_NK

    def _once(self, Q_ND: Scores, width: int, nprobe: int, alive: NDArray[np.bool_] | None) -> tuple[Scores, Ids]:
        S_NK, I_NK = self._shards.search(np.ascontiguousarray(Q_ND), width, nprobe)
        I_NK = np.where(I_NK < 0, -1, I_NK // self._step)
        if alive is not None:
            dead = (I_NK >= 0) & ~alive[I_NK]
            S_NK, I_NK = np.where(dead, np.float32(-np.inf), S_NK), np.where(dead, -1, I_NK)
        return merge_topk([(S_NK, I_NK)], width)


def build_sharded(
    vectors: Path, rows: int, dimension: int, out: str, *, factory: str | None = None, nprobe: int | None = None
) -> ShardedSegment:
    """Build shards from a file of vectors.

    Args:
        vectors: raw float32, rows x dimension, of unit length.
        rows, dimension: its shape.
        out: directory of the shards, removed by the caller when it is not needed any more.
        factory: of FAISS; by default what `default_factory` takes for so many rows.
        nprobe: lists that a search visits; by default as few as find `RECALL` of the ten nearest of a sample.

    Raises:
        UsageError: faiss is not installed, or does not know the factory.
    """
    factory = factory or default_factory(rows)
    index = new_index(factory, dimension)
    check_size(index, factory, rows)
    lists = lists_of(index)
    builder = ArtifactBuilder.begin(out, KIND, config={"factory": factory, "rows": rows}, inputs={})
    source = _Vectors(np.memmap(vectors, dtype=np.float32, mode="r", shape=(rows, dimension)))
    plan = build.Plan(
        embeddings=cast(Artifact, source),
        builder=builder,
        factory=factory,
        metric="ip",
        shards=-(-rows // SHARD_ROWS),
        seed=13,
        train_sample=None,
        concept_bits=0,
    )
    template = build.train(plan)
    entries = [build.fill_shard(plan, template, shard) for shard in range(plan.shards)]
    facts = {
        "kind": "sharded",
        "rows": rows,
        "dimension": dimension,
        "factory": factory,
        "lists": lists,
        "shards": plan.shards,
        "nprobe": nprobe or 1,
    }
    files = {entry.path: local_file(out, entry) for entry in entries}
    if nprobe is None and lists > 1:
        facts |= _calibrated(plan, ShardedSegment(out, files, facts), lists)
    builder.commit(facts)
    return ShardedSegment(out, files, facts)


def _calibrated(plan: build.Plan, segment: ShardedSegment, lists: int) -> dict[str, Any]:
    """Choose nprobe, and report what it finds."""
    ids, Q_ND = build.sample(plan, RECALL_QUERIES, 1)
    queries = ids, Q_ND
    truth = recall.exact(queries, (build.read_part(plan, part) for part in range(plan.parts)))
    result, _ = recall.calibrate(segment._shards.search, queries, truth, lists=lists, target=RECALL)
    curve = {point["nprobe"]: point["recall_at_10"] for point in result["curve"]}
    return {"nprobe": result["nprobe"], "recall_at_10": curve[result["nprobe"]]}


def _best(S_NM: Scores, start: int, k: int) -> tuple[Scores, Ids]:
    """Return each row's k best columns and all that tie with the k-th; the places of others hold -inf and -1."""
    kept = np.ones(S_NM.shape, dtype=bool)
    if S_NM.shape[1] > k:
        kept = -np.partition(-S_NM, k - 1, axis=1)[:, k - 1 : k] <= S_NM
    kept &= ~np.isneginf(S_NM)
    width = int(kept.sum(axis=1).max(initial=0))
    I_NK = np.argsort(~kept, axis=1, kind="stable")[:, :width]
    found = np.take_along_axis(kept, I_NK, axis=1)
    S_NK = np.where(found, np.take_along_axis(S_NM, I_NK, axis=1), np.float32(-np.inf))
    return S_NK, np.where(found, I_NK + start, -1)


def _step(rows: int) -> int:
    return (1 << 63) // max(1, rows)


@dataclass(frozen=True)
class _Vectors:
    """A file of vectors, as `build.Plan` reads an artifact of embeddings: part by part, ids ascending."""

    E_ND: NDArray[np.float32]

    @property
    def facts(self) -> dict[str, int]:
        rows, dimension = self.E_ND.shape
        parts = 1 << max(0, (-(-rows // PART_ROWS) - 1).bit_length())
        return {"parts": parts, "strings": rows, "dimension": dimension}

    def entry(self, path: str) -> int:
        return int(os.path.basename(path).split("-")[1].split(".")[0])

    def read_table(self, part: int) -> pa.Table:
        rows, step = len(self.E_ND), _step(len(self.E_ND))
        width = (1 << 63) // self.facts["parts"]
        first, after = (min(rows, -(-edge // step)) for edge in (part * width, (part + 1) * width))
        ids = np.arange(first, after, dtype=np.int64) * step
        return pa.table({"name_id": ids, "embedding": fixed_size_list(np.asarray(self.E_ND[first:after]))})
