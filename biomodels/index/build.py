"""Build a sharded index from an `embeddings` artifact; every function here is one task's work.

The coarse quantizer and the codec are trained once, over a keyed sample; each shard then starts from that template.
Parts and shards both are ranges of name_ids, so a shard reads only its own parts.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from biomodels import schemas, storage
from biomodels.artifacts import Artifact, ArtifactBuilder, FileEntry, Manifest, canonical_json
from biomodels.errors import InputError, UsageError
from biomodels.index import concepts
from biomodels.index.cache import local_file
from biomodels.index.engine import for_training, load_faiss, read_index, write_index
from biomodels.index.factory import POINTS_PER_LIST, lists_of, new_index
from biomodels.index.filters import COLUMNS, values_of
from biomodels.index.manifest import bounds, concepts_file, names_file, open_index, shard_file, template_file
from biomodels.index.names import BATCH_ROWS, CONCEPTS, in_batches, write_arrow
from biomodels.index.shards import Ids, Scores, unit
from biomodels.index.training import train_index
from biomodels.inference.parts import embeddings_part, names_part, vectors
from biomodels.terminology.hashing import mix

SPILL_CONCEPTS = 1 << 18


@dataclass(frozen=True)
class Plan:
    """What is built: picklable, and the same for all tasks."""

    embeddings: Artifact
    builder: ArtifactBuilder
    factory: str
    metric: str
    shards: int
    seed: int
    train_sample: int | None
    concept_bits: int

    @property
    def parts(self) -> int:
        """Number of parts of the embeddings, a power of two."""
        return int(self.embeddings.facts["parts"])

    @property
    def strings(self) -> int:
        """Number of vectors."""
        return int(self.embeddings.facts["strings"])

    @property
    def dimension(self) -> int:
        """Columns of each vector."""
        return int(self.embeddings.facts["dimension"])

    def bounds(self, shard: int) -> tuple[int, int]:
        """Return a shard's first and last possible name_id: those that `shard_of` sends to it."""
        return bounds(shard, self.shards)

    def parts_of(self, shard: int) -> range:
        """Return the parts that hold a shard's name_ids."""
        shift = 64 - self.parts.bit_length()
        first, last = self.bounds(shard)
        return range(first >> shift, (last >> shift) + 1)


def read_part(plan: Plan, part: int, only: Ids | None = None) -> tuple[Ids, Scores]:
    """Read a part's name_ids and its vectors E_ND, scaled as the metric needs; of all strings, or of some.

    Raises:
        InputError: a vector is not finite.
    """
    table = plan.embeddings.read_table(plan.embeddings.entry(embeddings_part(part)))
    if only is not None:
        table = table.filter(pa.array(np.isin(table["name_id"].to_numpy(), only, assume_unique=True)))
    E_ND = vectors(table["embedding"], plan.dimension)
    finite = np.isfinite(E_ND).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise InputError(
            f"{plan.embeddings.file_uri(embeddings_part(part))}: the vector of name_id {table['name_id'][row]} has a "
            "value that is not finite; make the embeddings again"
        )
    return table["name_id"].to_numpy(), unit(E_ND) if plan.metric == "cosine" else E_ND


def read_shard(plan: Plan, shard: int, only: Ids | None = None) -> Iterator[tuple[Ids, Scores]]:
    """Read a shard's name_ids and vectors, part by part, in the order of name_id; of all strings, or of some."""
    first, last = plan.bounds(shard)
    for part in plan.parts_of(shard):
        ids, E_ND = read_part(plan, part, only)
        inside = slice(np.searchsorted(ids, first), np.searchsorted(ids, last, side="right"))
        if len(ids[inside]):
            yield ids[inside], E_ND[inside]


def sample(plan: Plan, size: int, *key: int) -> tuple[Ids, Scores]:
    """Choose about `size` vectors: those whose keyed hash is small, in the order of that hash.

    Args:
        plan: what is built.
        size: expected number; all vectors if there are no more.
        key: what sets this choice apart from others under the same seed.
    """
    share = min(1.0, size / max(1, plan.strings))
    found: list[tuple[Ids, Scores, Any]] = []
    for part in range(plan.parts):
        ids, E_ND = read_part(plan, part)
        hashes = mix(plan.seed, *key, ids)
        chosen = hashes / np.float64(2**64) < share if share < 1 else np.ones(len(ids), dtype=bool)
        found.append((ids[chosen], E_ND[chosen], hashes[chosen]))
    ids, E_ND, hashes = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.argsort(hashes, kind="stable")
    return ids[order], E_ND[order]


def train(plan: Plan) -> FileEntry:
    """Train the empty index and publish it as `template.faiss`.

    Raises:
        UsageError: the sample is too small for the factory.
    """
    index = new_index(plan.factory, plan.dimension)
    if not index.is_trained:
        _, E_ND = sample(plan, plan.train_sample or max(BATCH_ROWS, POINTS_PER_LIST * lists_of(index)))
        try:
            index = train_index(plan.factory, E_ND, seed=plan.seed)
        except RuntimeError as error:
            reason = str(error).rsplit(": ", maxsplit=1)[-1].strip()
            raise UsageError(
                f"--factory {plan.factory}: cannot be trained on {len(E_ND)} of {plan.strings} vectors ({reason}); "
                "choose one with fewer lists, or a larger --train-sample"
            ) from error
    return plan.builder.publish(template_file(""), lambda local: write_index(index, local))


def copy_template(plan: Plan, index: str) -> FileEntry:
    """Publish the trained index of another index as `template.faiss`."""
    artifact, facts = open_index(index)
    trained = local_file(artifact.uri, artifact.entry(template_file(facts.base)), verify=True)
    return plan.builder.publish(template_file(""), lambda local: _copy(trained, local))


def _copy(source: Path, target: str) -> None:
    shutil.copyfile(source, target)


def fill_shard(plan: Plan, template: FileEntry, shard: int) -> FileEntry:
    """Add a shard's vectors to the template, in the order of name_id, and publish it."""
    for_training(load_faiss())
    index = read_index(local_file(plan.builder.uri, template), mapped=False)
    for ids, E_ND in read_shard(plan, shard):
        index.add_with_ids(np.ascontiguousarray(E_ND), np.ascontiguousarray(ids))

    def write(local: str) -> int:
        write_index(index, local)
        return int(index.ntotal)

    return plan.builder.publish(shard_file("", shard), write)


def write_names(plan: Plan, shard: int) -> FileEntry:
    """Publish a shard's (concept, name) rows, and before them spill what they say about preferred names and values."""
    best: concepts.Best = {}
    values: list[dict[str, list[str]]] = []
    spills = 0

    def tables() -> Iterator[pa.Table]:
        nonlocal best, spills
        for table in in_batches(table for _, _, table in names_of(plan, shard)):
            yield table
            values.append(values_of([table]))
            concepts.consider(best, table)
            if len(best) > SPILL_CONCEPTS:
                concepts.spill(plan.builder, best, plan.concept_bits, f"{shard:03d}-{spills:04d}")
                best, spills = {}, spills + 1

    def write(local: str) -> int:
        rows = write_arrow(local, schemas.NAMES, tables())
        concepts.spill(plan.builder, best, plan.concept_bits, f"{shard:03d}-{spills:04d}")
        storage.publish_bytes(canonical_json(joined_values(values)), plan.builder.work("values", f"{shard:03d}.json"))
        return rows

    return plan.builder.publish(names_file("", shard), write)


def write_concepts(plan: Plan, bucket: int) -> FileEntry:
    """Publish the preferred names of a bucket's concepts, once all names are written."""
    best = concepts.gather(plan.builder, [bucket])
    ids = sorted(best)
    table = pa.table({"concept_id": ids, "preferred_name": [best[i][1] for i in ids]}, schema=CONCEPTS)

    pieces = (table.slice(start, BATCH_ROWS) for start in range(0, table.num_rows, BATCH_ROWS))
    return plan.builder.publish(concepts_file("", bucket), lambda local: write_arrow(local, CONCEPTS, pieces))


def commit(plan: Plan, measured: Mapping[str, Any], *, run: Mapping[str, Any] | None = None) -> Manifest:
    """Make the index exist, once all its files are there.

    Args:
        plan: what was built.
        measured: facts of the measurements: at least `nprobe`.
        run: for `run.json`.
    """
    entries = plan.builder.entries()
    folder = plan.builder.work("values")
    values = joined_values([storage.read_json(storage.join(folder, name)) for name in storage.list_files(folder)])

    def rows(kind: str) -> int:
        return sum(entry.rows or 0 for entry in entries if entry.path.startswith(kind))

    facts = {
        **{key: plan.embeddings.facts[key] for key in ("model_digest", "spec", "dimension", "normaliser")},
        "strings": rows("shards/"),
        "names": rows("names/"),
        "concepts": rows("concepts/"),
        **values,
        **measured,
        "metric": plan.metric,
        "factory": plan.factory,
        "lists": lists_of(new_index(plan.factory, plan.dimension)),
        "shards": plan.shards,
        "concept_bits": plan.concept_bits,
        "base": "",
        "delta": None,
        "origin": None,
    }
    return plan.builder.commit(facts, run=run)


def joined_values(found: Iterable[Mapping[str, Sequence[str]]]) -> dict[str, list[str]]:
    """Join what `values_of` found in several places."""
    pieces = list(found)
    return {field: sorted({value for piece in pieces for value in piece[field]}) for field in COLUMNS}


def names_of(plan: Plan, shard: int) -> Iterator[tuple[int, int, pa.Table]]:
    """Read a shard's NAMES rows in the order of name_id, part by part, each with the name_ids that it covers.

    Yields:
        First and last possible name_id, and the rows; the ranges leave no gap.
    """
    first, last = plan.bounds(shard)
    shift = 64 - plan.parts.bit_length()
    for part in plan.parts_of(shard):
        table = plan.embeddings.read_table(plan.embeddings.entry(names_part(part)), schemas.NAMES.names)
        low, high = max(first, part << shift), min(last, ((part + 1) << shift) - 1)
        ids = table["name_id"].to_numpy()
        start, stop = np.searchsorted(ids, low), np.searchsorted(ids, high, side="right")
        yield low, high, table.slice(start, stop - start)
