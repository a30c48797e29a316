"""Search a sharded index: memory-mapped FAISS shards under one coarse quantizer, names and concepts beside them.

Files of an `index` artifact::

    template.faiss            the trained index without vectors
    shards/shard-000.faiss    the vectors of a range of name_ids (`shard_of`); stock `faiss.read_index` reads it
    names/shard-000.arrow     the (concept, name) rows of the same name_ids, sorted by name_id
    concepts/bucket-000.arrow concept → preferred name; buckets by a hash of concept_id
    recall.json               recall over nprobe, and how the default nprobe was chosen

An update lays over them, in a folder of its own (see `biomodels.index.update`)::

    shards/shard-000.faiss    the vectors that were added
    names/shard-000.arrow     the rows of the strings that were added or whose rows changed
    removed/shard-000.arrow   the name_ids that are no more
    concepts/bucket-000.arrow concepts that changed; no preferred name: the concept is no more

Shapes: N queries, D dimensions, K results, P probed lists.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from biomodels.errors import CompatibilityError, UsageError
from biomodels.index import manifest
from biomodels.index.cache import local_file
from biomodels.index.engine import cores, load_faiss
from biomodels.index.filters import NameFilter
from biomodels.index.manifest import KIND, open_index
from biomodels.index.names import (
    NO_IDS,
    ConceptTable,
    LayeredNames,
    NameRow,
    NameTable,
    concept_bucket,
    preferred_name,
    read_removed,
)
from biomodels.index.shards import Ids, Scores, Shards, merge_topk, unit
from biomodels.terminology.normalise import Normaliser

__all__ = ["KIND", "NameFilter", "NameRow", "ShardedIndex", "merge_topk", "shard_of"]

SELECTIONS_KEPT = 8  # a selector holds some 50 bytes per id


class _Selection(NamedTuple):
    """For each FAISS index the ids that may answer (None: all), and how many strings those are."""

    selectors: list[Any | None]
    strings: int


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

    def __init__(self, uri: str, only: Sequence[int] | None, verify: bool) -> None:
        artifact, facts = open_index(uri)
        self.uri = artifact.uri
        self.digest = artifact.digest
        self.facts = artifact.facts
        self.model_digest = facts.model_digest
        self.dimension = facts.dimension
        self.metric = facts.metric
        self.factory = facts.factory
        self.nprobe = facts.nprobe
        self.shards = facts.shards
        self.normaliser = Normaliser.from_name(facts.normaliser)
        chosen = list(range(self.shards) if only is None else only)
        if not chosen or not set(chosen) <= set(range(self.shards)):
            raise UsageError(f"only: {chosen} is no choice of the {self.shards} shards of {artifact.uri}")
        base, delta = facts.base, facts.delta
        layers = [base] if delta is None else [base, delta]

        def paths(names: Iterable[str]) -> list[Path]:
            return list(pool.map(lambda name: local_file(artifact.uri, artifact.entry(name), verify=verify), names))

        with ThreadPoolExecutor(cores()) as pool:  # hashing leaves the interpreter free
            vectors = paths(manifest.shard_file(layer, i) for i in chosen for layer in layers)
            names = paths(manifest.names_file(layer, i) for i in chosen for layer in layers)
            removed = paths([] if delta is None else [manifest.removed_file(delta, i) for i in chosen])
            concepts = paths(manifest.concepts_file(base, bucket) for bucket in range(1 << facts.concept_bits))
            changed = paths([] if delta is None else [manifest.concepts_file(delta, 0)])
        self._layers = len(layers)
        self._shards = Shards(vectors, self.dimension)
        self._names: dict[int, LayeredNames] = {}
        for row, shard in enumerate(chosen):
            tables = [NameTable(file, verify=verify) for file in names[row * len(layers) : (row + 1) * len(layers)]]
            gone = read_removed(removed[row], verify=verify) if removed else NO_IDS
            self._names[shard] = LayeredNames(tables[0], tables[1] if delta is not None else None, gone)
        self._concept_bits = facts.concept_bits
        self._concepts = [ConceptTable(file, verify=verify) for file in concepts]
        self._changed = [ConceptTable(file, verify=verify) for file in changed]
        self._selections: OrderedDict[NameFilter | None, _Selection] = OrderedDict()
        self._lock = threading.Lock()

    @classmethod
    def open(cls, uri: str, *, only: Sequence[int] | None = None, verify: bool = False) -> ShardedIndex:
        """Memory-map an index; remote files are copied to the node's cache first.

        Args:
            uri: the artifact.
            only: numbers of the shards to search, for one process per shard; all by default.
            verify: read every file once and compare its SHA-256 with the manifest's, not only its size, and check
                every value of the Arrow files. Takes about a second per GB. Without it a file damaged at its full
                size gives wrong answers or ends the process.

        Raises:
            ArtifactError: it is missing, unfinished or damaged; the message names the file or the field.
            UsageError: faiss is not installed, or `only` names a shard that does not exist.
        """
        return cls(uri, only, verify)

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

    def search(
        self,
        E_ND: NDArray[np.floating[Any]],
        k: int,
        *,
        nprobe: int | None = None,
        where: NameFilter | None = None,
        batch_invariant: bool = True,
    ) -> tuple[Scores, Ids]:
        """Find the k strings nearest to each query.

        Args:
            E_ND: query vectors; scaled to length 1 here if the metric is cosine.
            k: results per query, at least 1.
            nprobe: lists to visit per query; the index's default if None, and more than there are means all.
            where: which names may answer; a string may if one of its names may. Others are passed over while the
                lists are scanned, so they take no places.
            batch_invariant: False compares many queries with the centroids at once, which is faster, but may visit
                another list where two are equally near.

        Returns:
            S_NK float32 and I_NK int64 (name_ids), score descending, ties by name_id; -inf and -1 where fewer than k
            were found. A row does not depend on the other rows, if `batch_invariant`.

        Raises:
            UsageError: k or nprobe is below 1, or the vectors have another dimension or are not finite.
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
        finite = np.isfinite(X_ND).all(axis=1)
        if not finite.all():
            raise UsageError(f"query {int(np.argmin(finite)) + 1}: its vector has a value that is not finite")
        if self.metric == "cosine":
            X_ND = unit(X_ND)
        selectors = self._selection(where).selectors
        return self._shards.search(X_ND, k, nprobe or self.nprobe, selectors, batch_invariant=batch_invariant)

    def matching(self, where: NameFilter | None) -> int:
        """Return how many strings may answer."""
        return self._selection(where).strings

    def rows_of(self, name_ids: Iterable[int], where: NameFilter | None = None) -> dict[int, list[NameRow]]:
        """Return every (concept, name) row that bears each string and may answer; homonyms have several concepts.

        Ids of -1, and ids that have no such row, get no entry.

        Raises:
            UsageError: an id belongs to a shard that was not opened.
        """
        found: dict[int, list[NameRow]] = {}
        for name_id in {int(value) for value in name_ids} - {-1}:
            shard = shard_of(name_id, self.shards)
            if shard not in self._names:
                raise UsageError(f"name_id {name_id} lies in shard {shard}, which was not opened")
            rows = [self._row(row) for row in self._names[shard].rows(name_id, where)]
            if rows:
                found[name_id] = rows
        return found

    def preferred_name(self, concept_id: str) -> str | None:
        """Return a concept's preferred name, or None if the index lacks the concept."""
        bucket = self._concepts[concept_bucket(concept_id, self._concept_bits)]
        return preferred_name([*self._changed, bucket], concept_id)

    def _selection(self, where: NameFilter | None) -> _Selection:
        with self._lock:
            found = self._selections.get(where)
            if found is None:
                found = self._selections[where] = self._select(where)
                if len(self._selections) > SELECTIONS_KEPT:
                    self._selections.popitem(last=False)
            self._selections.move_to_end(where)
            return found

    def _select(self, where: NameFilter | None) -> _Selection:
        selectors: list[Any | None] = []
        strings = 0
        for names in self._names.values():
            if where is None:
                layers = [_outside(names.removed), None]
            else:
                chosen, live = names.ids(where), names.ids()
                strings += len(chosen)
                few = len(chosen) <= len(live) // 2
                rest = np.union1d(np.setdiff1d(live, chosen, assume_unique=True), names.removed)
                layers = [_inside(chosen) if few else _outside(rest)] * 2
            selectors += layers[: self._layers]
        return _Selection(selectors, int(self.facts["strings"]) if where is None else strings)

    def _row(self, row: dict[str, Any]) -> NameRow:
        types = tuple(row["semantic_types"] or ())
        preferred_name = self.preferred_name(row["concept_id"]) or row["name"]
        return NameRow(**{**row, "semantic_types": types}, preferred_name=preferred_name)


def shard_of(name_id: int, shards: int) -> int:
    """Return the shard of a string: its name_id is a uniform hash below 2^63, so equal ranges are equal shares."""
    return (name_id * shards) >> 63


def _inside(ids: Ids) -> Any:
    return load_faiss().IDSelectorBatch(ids)


def _outside(ids: Ids) -> Any | None:
    return load_faiss().IDSelectorNot(_inside(ids)) if len(ids) else None
