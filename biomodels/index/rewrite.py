"""Write an index anew, with its delta folded in and in any number of shards; every function here is one task's work.

Codes are copied, not made again, so that no answer changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from biomodels import schemas
from biomodels.artifacts import Artifact, ArtifactBuilder, FileEntry, Manifest
from biomodels.index import codes
from biomodels.index.cache import local_file
from biomodels.index.engine import write_index
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
from biomodels.index.names import (
    BATCH_ROWS,
    CONCEPTS,
    NO_IDS,
    ConceptTable,
    LayeredNames,
    NameTable,
    concept_bucket,
    in_batches,
    read_removed,
    write_arrow,
)
from biomodels.index.update import RECALL


@dataclass(frozen=True)
class Rewrite:
    """What is written anew: picklable, and the same for all tasks."""

    index: Artifact
    facts: IndexFacts
    builder: ArtifactBuilder
    shards: int

    @property
    def folder(self) -> str:
        """Where the new files go."""
        return self.builder.folder

    def local(self, path: str) -> Any:
        """Return one of the old version's files as a local one."""
        return local_file(self.index.uri, self.index.entry(path))

    def overlapping(self, shard: int) -> Iterator[int]:
        """Yield the old shards that hold name_ids of a new one."""
        first, last = bounds(shard, self.shards)
        for old in range(self.facts.shards):
            low, high = bounds(old, self.facts.shards)
            if low <= last and high >= first:
                yield old


def begin(index_uri: str, shards: int | None) -> Rewrite | None:
    """Start or go on with writing an index anew.

    Args:
        index_uri: directory of the index.
        shards: of the new version; by default as many as there are.

    Returns:
        What is to be done, or None if the index is so already.
    """
    index, facts = open_index(index_uri)
    if facts.delta is None and shards in (None, facts.shards):
        return None
    count = shards or facts.shards
    builder = ArtifactBuilder.begin_version(index, config={"shards": count}, inputs={"index": index.digest})
    return Rewrite(index, facts, builder, count)


def write_template(rewrite: Rewrite) -> FileEntry:
    """Publish the trained index, which stays the same, among the files of the new version."""
    source = rewrite.local(template_file(rewrite.facts.base))

    def write(local: str) -> None:
        with open(local, "wb") as sink:
            sink.write(source.read_bytes())

    return rewrite.builder.publish(template_file(rewrite.folder), write)


def write_vectors(rewrite: Rewrite, shard: int) -> FileEntry:
    """Publish a new shard's vectors."""
    facts = rewrite.facts
    sources = []
    for old in rewrite.overlapping(shard):
        sources.append(codes.Source(rewrite.local(shard_file(facts.base, old)), _removed(rewrite, old)))
        if facts.delta is not None:
            sources.append(codes.Source(rewrite.local(shard_file(facts.delta, old)), NO_IDS))
    index = codes.collect(rewrite.local(template_file(facts.base)), sources, *bounds(shard, rewrite.shards))

    def write(local: str) -> int:
        write_index(index, local)
        return int(index.ntotal)

    return rewrite.builder.publish(shard_file(rewrite.folder, shard), write)


def write_names(rewrite: Rewrite, shard: int) -> FileEntry:
    """Publish a new shard's names."""
    facts = rewrite.facts

    def tables() -> Iterator[pa.Table]:
        for old in rewrite.overlapping(shard):
            base = NameTable(rewrite.local(names_file(facts.base, old)))
            delta = None if facts.delta is None else NameTable(rewrite.local(names_file(facts.delta, old)))
            first, last = bounds(shard, rewrite.shards)
            low, high = bounds(old, facts.shards)
            yield from LayeredNames(base, delta, _removed(rewrite, old)).tables(max(first, low), min(last, high))

    return rewrite.builder.publish(
        names_file(rewrite.folder, shard), lambda local: write_arrow(local, schemas.NAMES, in_batches(tables()))
    )


def write_concepts(rewrite: Rewrite, bucket: int) -> FileEntry:
    """Publish the preferred names of a bucket's concepts."""
    facts = rewrite.facts
    batches = ConceptTable(rewrite.local(concepts_file(facts.base, bucket))).batches
    table = pa.Table.from_batches(batches, schema=CONCEPTS)
    if facts.delta is not None:
        changed = pa.Table.from_batches(
            ConceptTable(rewrite.local(concepts_file(facts.delta, 0))).batches, schema=CONCEPTS
        )
        here = [concept_bucket(i, facts.concept_bits) == bucket for i in changed["concept_id"].to_pylist()]
        changed = changed.filter(pa.array(here, pa.bool_()))
        kept = table.filter(pc.invert(pc.is_in(table["concept_id"], value_set=changed["concept_id"].combine_chunks())))
        living = changed.filter(pc.is_valid(changed["preferred_name"]))
        table = pa.concat_tables([kept, living]).sort_by("concept_id")
    pieces = (table.slice(start, BATCH_ROWS) for start in range(0, table.num_rows, BATCH_ROWS))
    return rewrite.builder.publish(
        concepts_file(rewrite.folder, bucket), lambda local: write_arrow(local, CONCEPTS, pieces)
    )


def commit(rewrite: Rewrite, *, run: dict[str, Any] | None = None) -> Manifest:
    """Make the new version the current one."""
    facts = {key: value for key, value in rewrite.index.facts.items() if key not in ("added", "removed")} | {
        "shards": rewrite.shards,
        "base": rewrite.folder,
        "delta": None,
        "origin": None,
    }
    return rewrite.builder.commit(facts, run=run, kept=rewrite.index.files(RECALL))


def _removed(rewrite: Rewrite, shard: int) -> Any:
    delta = rewrite.facts.delta
    return NO_IDS if delta is None else read_removed(rewrite.local(removed_file(delta, shard)))
