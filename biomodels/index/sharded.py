"""Search a sharded index: memory-mapped FAISS shards under one coarse quantizer, names and concepts beside them.

Files of an `index` artifact::

    template.faiss            the trained index without vectors
    shards/shard-000.faiss    the vectors of a range of name_ids (`shard_of`); stock `faiss.read_index` reads it
    names/shard-000.arrow     the (concept, name) rows of the same name_ids, sorted by name_id
    concepts/bucket-000.arrow concept → preferred name; buckets by a hash of concept_id
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

from biomodels.errors import CompatibilityError, UsageError
from biomodels.index.cache import local_file
from biomodels.index.manifest import KIND, open_index
from biomodels.index.names import ConceptTable, NameRow, NameTable, concept_bucket
from biomodels.index.shards import Ids, Scores, Shards, merge_topk, unit
from biomodels.terminology.normalise import Normaliser

__all__ = ["KIND", "NameRow", "ShardedIndex", "merge_topk", "shard_of"]


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
        chosen = range(self.shards) if only is None else only
        if not chosen or not set(chosen) <= set(range(self.shards)):
            raise UsageError(f"only: {list(chosen)} is no choice of the {self.shards} shards of {artifact.uri}")

        def path(name: str) -> Path:
            return local_file(artifact.uri, artifact.entry(name), verify=verify)

        buckets = range(1 << facts.concept_bits)
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:  # hashing leaves the interpreter free
            shards = dict(zip(chosen, pool.map(path, map(shard_file, chosen)), strict=True))
            names = dict(zip(chosen, pool.map(path, map(names_file, chosen)), strict=True))
            concepts = list(pool.map(path, map(concepts_file, buckets)))
        self._shards = Shards(shards, self.dimension)
        self._names = {i: NameTable(file, verify=verify) for i, file in names.items()}
        self._concept_bits = facts.concept_bits
        self._concepts = [ConceptTable(file, verify=verify) for file in concepts]

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
        return self._shards.search(X_ND, k, nprobe or self.nprobe)

    def rows_of(self, name_ids: Iterable[int]) -> dict[int, list[NameRow]]:
        """Return every (concept, name) row that bears each string; homonyms have several concepts.

        Ids of -1, and ids that the index lacks, get no entry.

        Raises:
            UsageError: an id belongs to a shard that was not opened.
        """
        found: dict[int, list[NameRow]] = {}
        for name_id in {int(value) for value in name_ids} - {-1}:
            shard = shard_of(name_id, self.shards)
            if shard not in self._names:
                raise UsageError(f"name_id {name_id} lies in shard {shard}, which was not opened")
            rows = [self._row(row) for row in self._names[shard].rows(name_id)]
            if rows:
                found[name_id] = rows
        return found

    def preferred_name(self, concept_id: str) -> str | None:
        """Return a concept's preferred name, or None if the index lacks the concept."""
        return self._concepts[concept_bucket(concept_id, self._concept_bits)].preferred_name(concept_id)

    def _row(self, row: dict[str, Any]) -> NameRow:
        types = tuple(row["semantic_types"] or ())
        preferred_name = self.preferred_name(row["concept_id"]) or row["name"]
        return NameRow(**{**row, "semantic_types": types}, preferred_name=preferred_name)


def shard_of(name_id: int, shards: int) -> int:
    """Return the shard of a string: its name_id is a uniform hash below 2^63, so equal ranges are equal shares."""
    return (name_id * shards) >> 63


def _numbered(folder: str, stem: str, suffix: str) -> Callable[[int], str]:
    return lambda i: f"{folder}/{stem}-{i:03d}.{suffix}"


shard_file = _numbered("shards", "shard", "faiss")
names_file = _numbered("names", "shard", "arrow")
concepts_file = _numbered("concepts", "bucket", "arrow")
