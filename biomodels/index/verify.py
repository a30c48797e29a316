"""Check an index from its bytes to its answers; every function here is one task's work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from biomodels.artifacts import Artifact, FileEntry
from biomodels.errors import ArtifactError
from biomodels.index import codes
from biomodels.index.cache import local_file
from biomodels.index.engine import read_index
from biomodels.index.factory import chain_of
from biomodels.index.manifest import (
    IndexFacts,
    bounds,
    concepts_file,
    names_file,
    open_index,
    removed_file,
    shard_file,
    template_file,
)
from biomodels.index.names import CONCEPTS, NO_IDS, ConceptTable, Ids, LayeredNames, NameTable, read_removed
from biomodels.index.sharded import ShardedIndex
from biomodels.index.shards import Scores, unit
from biomodels.terminology.hashing import hash_strings, mix
from biomodels.terminology.normalise import Normaliser

BLOCK = 1 << 14
NEAR = 10  # a vector must be among so many results of the search for it
TIE = 1e-5


def check_file(index: Artifact, entry: FileEntry) -> int:
    """Read a file, compare its SHA-256 with the manifest's, and return its bytes.

    Raises:
        ArtifactError: it differs.
    """
    local_file(index.uri, entry, verify=True)
    return entry.bytes


def check_shard(uri: str, shard: int) -> dict[str, int]:
    """Check that a shard's vectors, names and removals fit together.

    Returns:
        Counts of `strings` and `names`.

    Raises:
        ArtifactError: saying what does not fit.
    """
    index, facts = open_index(uri)
    place = f"{uri}: shard {shard}"
    base_names, delta_names = _tables(index, facts, shard)
    removed = _removed(index, facts, shard)
    base, delta = (_ids(index, layer, shard) for layer in (facts.base, facts.delta))
    first, last = bounds(shard, facts.shards)
    for what, ids in (("base", base), ("delta", delta), ("removed", removed)):
        if len(ids) != len(np.unique(ids)) or (len(ids) and not first <= int(ids.min()) <= int(ids.max()) <= last):
            raise ArtifactError(f"{place}: ids of the {what} come twice or belong to another shard; {_AGAIN}")
    if not np.array_equal(np.sort(base), base_names.ids()):
        raise ArtifactError(f"{place}: the vectors are not those of the names; {_AGAIN}")
    if not np.isin(removed, base).all() or np.isin(delta, base).any():
        raise ArtifactError(f"{place}: the update does not fit the base; {_AGAIN}")
    names = LayeredNames(base_names, delta_names, removed)
    living = names.ids()
    if not np.array_equal(living, np.union1d(np.setdiff1d(base, removed), delta)):
        raise ArtifactError(f"{place}: the vectors are not those of the names after the update; {_AGAIN}")
    normaliser = Normaliser.from_name(facts.normaliser)
    concepts = _concepts(index, facts)
    rows = 0
    for table in names.tables(first, last):
        rows += table.num_rows
        texts = map(normaliser, table["name"].to_pylist())
        wrong = np.flatnonzero(hash_strings(texts) != table["name_id"].to_numpy())
        if len(wrong):
            raise ArtifactError(
                f"{place}: {table['name'][int(wrong[0])].as_py()!r} has the id of another name; {_AGAIN}"
            )
        known = pc.is_in(pc.unique(table["concept_id"]), value_set=concepts)
        if not pc.all(known, min_count=0).as_py():
            raise ArtifactError(f"{place}: has names of concepts that have no preferred name; {_AGAIN}")
    return {"strings": len(living), "names": rows}


def check_counts(uri: str, found: dict[str, int]) -> None:
    """Compare counts over all shards with what the manifest says.

    Raises:
        ArtifactError: naming the count that differs.
    """
    index, facts = open_index(uri)
    found = found | {"concepts": len(_concepts(index, facts))}
    for field, count in found.items():
        if getattr(facts, field) != count:
            raise ArtifactError(f"{uri}: has {count:,} {field}, but its manifest says {getattr(facts, field):,}")


def find_themselves(uri: str, shard: int, share: float) -> Iterator[tuple[int, int]]:
    """Search for each stored vector of a shard, in the shard.

    It must be among the ten best, or tie with the tenth: first of all in the list nearest to it, then in as many as
    a search visits, then in all.

    Args:
        uri: the index.
        shard: number of the shard.
        share: of the vectors to search for, chosen by a hash of their ids.

    Yields:
        For each block of vectors: how many, and how many of them were found only when all lists were visited.

    Raises:
        ArtifactError: one is not found at all.
    """
    index = ShardedIndex.open(uri, only=[shard])
    artifact, facts = open_index(uri)
    template = read_index(local_file(artifact.uri, artifact.entry(template_file(facts.base))))
    for ids, X_ND in _stored(uri, shard, share):
        missing = np.arange(len(ids))
        hidden = 0
        for nprobe in (1, index.nprobe, int(index.facts["lists"])):
            hidden = len(missing) if nprobe == index.facts["lists"] else 0
            if len(missing):
                S_NK, I_NK = index.search(X_ND[missing], NEAR, nprobe=nprobe, batch_invariant=False)
                own = _own_score(template, X_ND[missing], index.metric)
                found = (ids[missing, np.newaxis] == I_NK).any(axis=1) | (S_NK[:, -1] >= own - TIE)
                missing = missing[~found]
        if len(missing):
            raise ArtifactError(f"{uri}: shard {shard}: the vector of {ids[missing[0]]} does not find itself; {_AGAIN}")
        yield len(ids), hidden


_AGAIN = "make the index again"


def _stored(uri: str, shard: int, share: float) -> Iterator[tuple[Ids, Scores]]:
    """Yield the living vectors of a shard, decoded, in blocks."""
    index, facts = open_index(uri)
    removed = _removed(index, facts, shard)
    waiting: list[tuple[Ids, Scores]] = []
    for layer in (facts.base, facts.delta):
        if layer is None:
            continue
        opened = read_index(local_file(index.uri, index.entry(shard_file(layer, shard))))
        for rows in codes.stored(opened):
            chosen = ~np.isin(rows.ids, removed) & (mix(rows.ids) / np.float64(2**64) < share)
            if chosen.any():
                kept = codes.Codes(rows.ids[chosen], rows.codes[chosen], rows.number)
                waiting.append((kept.ids, codes.decoded(opened, kept)))
            if sum(len(ids) for ids, _ in waiting) >= BLOCK:
                yield _joined(waiting)
                waiting = []
    if waiting:
        yield _joined(waiting)


def _own_score(template: Any, X_ND: Scores, metric: str) -> Scores:
    """Return the score of each vector in a search for it."""
    queries = unit(X_ND) if metric == "cosine" else X_ND
    for transform in chain_of(template):
        queries, X_ND = transform.apply(queries), transform.apply(X_ND)
    return np.asarray(np.einsum("nd,nd->n", queries, X_ND))


def _joined(pieces: list[tuple[Ids, Scores]]) -> tuple[Ids, Scores]:
    return np.concatenate([ids for ids, _ in pieces]), np.concatenate([vectors for _, vectors in pieces])


def _ids(index: Artifact, layer: str | None, shard: int) -> Ids:
    if layer is None:
        return NO_IDS
    opened = read_index(local_file(index.uri, index.entry(shard_file(layer, shard))))
    return np.concatenate([NO_IDS, *(rows.ids for rows in codes.stored(opened))])


def _tables(index: Artifact, facts: IndexFacts, shard: int) -> tuple[NameTable, NameTable | None]:
    def opened(layer: str) -> NameTable:
        return NameTable(local_file(index.uri, index.entry(names_file(layer, shard))), verify=True)

    return opened(facts.base), None if facts.delta is None else opened(facts.delta)


def _removed(index: Artifact, facts: IndexFacts, shard: int) -> Ids:
    if facts.delta is None:
        return NO_IDS
    return read_removed(local_file(index.uri, index.entry(removed_file(facts.delta, shard))), verify=True)


def _concepts(index: Artifact, facts: IndexFacts) -> pa.Array:
    """Return the ids of all concepts that have a preferred name."""
    paths = [concepts_file(facts.base, bucket) for bucket in range(1 << facts.concept_bits)]
    found = [batch for path in paths for batch in ConceptTable(_local(index, path), verify=True).batches]
    ids = pa.chunked_array([batch.column(0) for batch in found], pa.string())
    if facts.delta is not None:
        table = pa.Table.from_batches(
            ConceptTable(_local(index, concepts_file(facts.delta, 0)), verify=True).batches, schema=CONCEPTS
        )
        changed = table["concept_id"].combine_chunks()
        living = table.filter(pc.is_valid(table["preferred_name"]))["concept_id"]
        kept = ids.filter(pc.invert(pc.is_in(ids, value_set=changed)))
        ids = pa.chunked_array([*kept.chunks, *living.chunks], pa.string())
    return ids.combine_chunks()


def _local(index: Artifact, path: str) -> Any:
    return local_file(index.uri, index.entry(path))
