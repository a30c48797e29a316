"""Update an index to a changed dictionary without building it again; every function here is one task's work.

A version is a base (what was built, or compacted), and over it a delta: the vectors of strings that the base lacks,
the rows of strings that were added or whose rows changed, the name_ids that are no more, and the concepts whose
preferred name may be another. The delta is always told against the base, so a version depends on the base and on the
dictionary, not on the updates between them. A string's vector is a function of the string and the model, hence one
that the base has is never stored again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from biomodels import schemas, storage
from biomodels.artifacts import Artifact, ArtifactBuilder, FileEntry, Manifest, canonical_json
from biomodels.errors import CompatibilityError, InputError
from biomodels.index import build, concepts
from biomodels.index.cache import local_file
from biomodels.index.engine import for_training, load_faiss, read_index, write_index
from biomodels.index.filters import values_of
from biomodels.index.manifest import (
    IndexFacts,
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
    REMOVED,
    ConceptTable,
    Ids,
    NameTable,
    in_batches,
    read_arrow,
    write_arrow,
)

RECALL = "recall.json"


@dataclass(frozen=True)
class Update:
    """What is updated to what: picklable, and the same for all tasks."""

    index: Artifact
    facts: IndexFacts
    plan: build.Plan

    @property
    def folder(self) -> str:
        """Where the delta goes."""
        return self.plan.builder.folder

    def base_names(self, shard: int) -> NameTable:
        """Open the base's names of one shard."""
        return NameTable(local_file(self.index.uri, self.index.entry(names_file(self.facts.base, shard))))


def begin(index_uri: str, embeddings: Artifact) -> Update:
    """Start or go on with an update.

    Args:
        index_uri: directory of the index.
        embeddings: of the whole dictionary as it is now.

    Raises:
        CompatibilityError: the embeddings were made by another model, or from names normalised otherwise.
        InputError: there are no names.
    """
    index, facts = open_index(index_uri)
    for field in ("model_digest", "dimension", "normaliser"):
        old, new = getattr(facts, field), embeddings.facts[field]
        if old != new:
            raise CompatibilityError(
                f"{embeddings.uri}: has {field} {new}, but the index {index_uri} has {old}; embed the names as those "
                "of the index were, or build another index"
            )
    if not embeddings.facts["strings"]:
        raise InputError(f"{embeddings.uri}: has no vectors; an index cannot be emptied")
    builder = ArtifactBuilder.begin_version(
        index, config={}, inputs={"index": facts.origin or index.digest, "embeddings": embeddings.digest}
    )
    plan = build.Plan(
        embeddings=embeddings,
        builder=builder,
        factory=facts.factory,
        metric=facts.metric,
        shards=facts.shards,
        seed=0,
        train_sample=None,
        concept_bits=facts.concept_bits,
    )
    return Update(index, facts, plan)


def write_changes(update: Update, shard: int) -> FileEntry:
    """Compare a shard's names with the base's; publish the rows that are new and the ids that are no more.

    What concepts are concerned, and counts, go to the work area.
    """
    base = update.base_names(shard)
    builder = update.plan.builder
    removed: list[Ids] = []
    found: list[pa.Array] = []
    values: list[dict[str, list[str]]] = []
    rows = 0

    def changed() -> Iterator[pa.Table]:
        nonlocal rows
        for first, last, new in build.names_of(update.plan, shard):
            old = base.between(first, last)
            written, gone = compare(old, new)
            kept = new.filter(_in(new, written))
            before = old.filter(_in(old, np.union1d(written, gone)))
            removed.append(gone)
            found.extend(pc.unique(table["concept_id"]) for table in (kept, before))
            values.append(values_of([new]))
            rows += new.num_rows
            yield kept

    builder.publish(
        names_file(update.folder, shard), lambda local: write_arrow(local, schemas.NAMES, in_batches(changed()))
    )
    distinct = pc.unique(pa.chunked_array(found, pa.string())).to_pylist()
    counts = {"names": rows, "concerned": distinct, **build.joined_values(values)}
    storage.publish_bytes(canonical_json(counts), builder.work("counts", f"{shard:03d}.json"))
    gone = np.concatenate(removed)
    return builder.publish(
        removed_file(update.folder, shard),
        lambda local: write_arrow(local, REMOVED, [pa.table([pa.array(gone)], schema=REMOVED)]),
    )


def compare(old: pa.Table, new: pa.Table) -> tuple[Ids, Ids]:
    """Compare NAMES rows, both sorted by name_id and then alike.

    Returns:
        The ids whose rows in `new` are not those in `old`, and the ids that `new` lacks; both sorted.
    """
    ids_old, counts_old = np.unique(old["name_id"].to_numpy(), return_counts=True)
    ids_new, counts_new = np.unique(new["name_id"].to_numpy(), return_counts=True)
    gone = np.setdiff1d(ids_old, ids_new, assume_unique=True)
    written = np.setdiff1d(ids_new, ids_old, assume_unique=True)
    common, at_old, at_new = np.intersect1d(ids_old, ids_new, assume_unique=True, return_indices=True)
    aligned = common[counts_old[at_old] == counts_new[at_new]]
    recounted = np.setdiff1d(common, aligned, assume_unique=True)
    before, after = old.filter(_in(old, aligned)), new.filter(_in(new, aligned))
    differs = np.zeros(after.num_rows, dtype=bool)
    for column in schemas.NAMES.names:
        differs |= _differs(before[column], after[column])
    rewritten = np.unique(after["name_id"].to_numpy()[differs])
    return np.sort(np.concatenate([written, recounted, rewritten])), gone


def write_vectors(update: Update, shard: int) -> FileEntry:
    """Add the vectors of the strings that the base lacks to the trained index, and publish it."""
    builder, facts = update.plan.builder, update.facts
    entry = builder.kept(names_file(update.folder, shard), verify=False)
    assert entry is not None, "changes come first"
    ids = NameTable(local_file(builder.uri, entry)).ids()
    added = np.setdiff1d(ids, update.base_names(shard).ids(), assume_unique=True)
    for_training(load_faiss())
    index = read_index(local_file(update.index.uri, update.index.entry(template_file(facts.base))), mapped=False)
    for part_ids, E_ND in build.read_shard(update.plan, shard, added) if len(added) else ():
        index.add_with_ids(np.ascontiguousarray(E_ND), np.ascontiguousarray(part_ids))

    def write(local: str) -> int:
        write_index(index, local)
        return int(index.ntotal)

    return builder.publish(shard_file(update.folder, shard), write)


def concerned(update: Update) -> pa.Array:
    """Return the concepts with a row that came, went or changed, sorted."""
    return pa.array(sorted({concept for count in _counts(update) for concept in count["concerned"]}), pa.string())


def spill_candidates(update: Update, shard: int, chosen: pa.Array) -> None:
    """Spill what a shard's names say about the preferred names of the concerned concepts."""
    best: concepts.Best = {}
    for _, _, table in build.names_of(update.plan, shard):
        concepts.consider(best, table.filter(pc.is_in(table["concept_id"], value_set=chosen)))
    concepts.spill(update.plan.builder, best, update.plan.concept_bits, f"{shard:03d}")


def write_concepts(update: Update, chosen: pa.Array) -> FileEntry:
    """Publish the preferred names of the concerned concepts; null for one that has no name any more."""
    best = concepts.gather(update.plan.builder, range(1 << update.plan.concept_bits))
    names = [best[i][1] if i in best else None for i in chosen.to_pylist()]
    table = pa.table([chosen, names], schema=CONCEPTS)
    pieces = (table.slice(start, BATCH_ROWS) for start in range(0, table.num_rows, BATCH_ROWS))
    return update.plan.builder.publish(
        concepts_file(update.folder, 0), lambda local: write_arrow(local, CONCEPTS, pieces)
    )


def base_files(index: Artifact, facts: IndexFacts) -> list[FileEntry]:
    """Return the files that every version over the same base has."""
    kinds = tuple(facts.base + kind for kind in ("shards/", "names/", "concepts/"))
    single = (template_file(facts.base), RECALL)
    return [entry for entry in index.manifest.files if entry.path in single or entry.path.startswith(kinds)]


def commit(update: Update, *, run: dict[str, Any] | None = None) -> Manifest:
    """Make the new version the current one."""
    index, facts, builder = update.index, update.facts, update.plan.builder
    kept = base_files(index, facts)
    counts = _counts(update)
    entries = {entry.path: entry for entry in [*kept, *builder.entries()]}

    def rows(kind: str) -> int:
        return sum(entry.rows or 0 for path, entry in entries.items() if path.startswith(kind))

    added, removed = rows(f"{update.folder}shards/"), rows(f"{update.folder}removed/")
    new_facts = {
        **index.facts,
        **build.joined_values(counts),
        "strings": rows(f"{facts.base}shards/") + added - removed,
        "names": sum(count["names"] for count in counts),
        "concepts": rows(f"{facts.base}concepts/") + _more_concepts(update, entries[concepts_file(update.folder, 0)]),
        "delta": update.folder,
        "origin": facts.origin or index.digest,
        "added": added,
        "removed": removed,
    }
    return builder.commit(new_facts, run=run, kept=kept)


def _counts(update: Update) -> list[dict[str, Any]]:
    folder = update.plan.builder.work("counts")
    return [storage.read_json(storage.join(folder, name)) for name in storage.list_files(folder)]


def _more_concepts(update: Update, entry: FileEntry) -> int:
    """Return how many more concepts there are than in the base."""
    changed = read_arrow(local_file(update.plan.builder.uri, entry), CONCEPTS)
    if not changed:
        return 0
    table = pa.Table.from_batches(changed)
    ids = table["concept_id"].combine_chunks()
    before = 0
    for bucket in range(1 << update.facts.concept_bits):
        path = local_file(update.index.uri, update.index.entry(concepts_file(update.facts.base, bucket)))
        for batch in ConceptTable(path).batches:
            before += int(pc.sum(pc.is_in(batch.column(0), value_set=ids)).as_py() or 0)
    return int(table.num_rows) - int(table["preferred_name"].null_count) - before


def _in(table: pa.Table, ids: Ids) -> pa.Array:
    return pa.array(np.isin(table["name_id"].to_numpy(), ids))


def _differs(old: pa.ChunkedArray, new: pa.ChunkedArray) -> Any:
    """Say row by row whether two columns differ; null equals null."""
    if pa.types.is_list(new.type):
        old, new = (pc.binary_join(column, "\x1f") for column in (old, new))
    same = pc.fill_null(pc.equal(old, new), False)
    both_null = pc.and_(pc.is_null(old), pc.is_null(new))
    return ~np.asarray(pc.or_(same, both_null).to_numpy(), dtype=bool)
