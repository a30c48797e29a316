"""Small indexes for the tests of this package: synthetic vectors, built in one process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from biomodels import schemas
from biomodels.artifacts import Artifact, ArtifactBuilder
from biomodels.index import build
from biomodels.index.manifest import SCHEMA_VERSION
from biomodels.index.sharded import ShardedIndex
from biomodels.inference import parts
from biomodels.terminology.hashing import mix
from biomodels.terminology.normalise import Normaliser, name_id

DIMENSION = 32
PARTS = 8
NORMALISE = Normaliser()


@pytest.fixture(scope="session")
def make_row() -> Callable[..., dict]:
    """The function that makes a NAMES row."""
    return _make_row


@pytest.fixture(scope="session")
def make_embeddings() -> Callable[..., Artifact]:
    """The function that writes an `embeddings` artifact of given rows; a string's vector depends on it alone."""
    return _make_embeddings


@pytest.fixture(scope="session")
def make_index() -> Callable[..., ShardedIndex]:
    """The function that does what the job `index` does, in this process and without its measurements."""
    return _make_index


def _make_row(concept_id: str, name: str, **fields: object) -> dict:
    row = {"language": "en", "source": "TEST", "term_type": "SY", "preferred": False, "semantic_types": ["T047"]}
    return {"concept_id": concept_id, "name_id": name_id(NORMALISE(name)), "name": name, **row, **fields}


def vectors_of(ids: np.ndarray) -> np.ndarray:
    """Vectors around 40 centres; both are functions of the id."""
    centres = np.random.default_rng(0).normal(size=(40, DIMENSION))
    hashes = mix(ids[:, np.newaxis], np.arange(DIMENSION)).astype(np.float64) / 2**64
    return (centres[ids % 40] + 2 * (hashes - 0.5)).astype(np.float16)


def _make_embeddings(out: Path, rows: list[dict], **facts: object) -> Artifact:
    builder = ArtifactBuilder.begin(str(out), parts.KIND, config={}, inputs={})
    table = pa.Table.from_pylist(rows, schema=schemas.NAMES).sort_by([(n, "ascending") for n in parts._ORDER])
    ids = table["name_id"].to_numpy()
    for part in range(PARTS):
        inside = table.filter(pa.array((ids >> 60) == part))
        distinct = np.unique(inside["name_id"].to_numpy())
        builder.publish_table(parts.names_part(part), inside)
        column = parts.fixed_size_list(vectors_of(distinct))
        schema = schemas.embeddings_schema(DIMENSION)
        builder.publish_table(parts.embeddings_part(part), pa.table([pa.array(distinct), column], schema=schema))
    counts = {"names": len(rows), "strings": len(np.unique(ids)), "parts": PARTS, "dimension": DIMENSION}
    spec = {"pooling": "cls", "max_length": 25, "normalise": False, "prefix": ""}
    model = {"model_digest": "m" * 32, "spec": spec, "normaliser": NORMALISE.name, "storage": "float16"}
    builder.commit(counts | model | facts)
    return Artifact.open(str(out), parts.KIND)


def _make_index(
    embeddings: Artifact,
    out: Path,
    factory: str = "IVF32,Flat",
    *,
    shards: int = 3,
    metric: str = "cosine",
    template: str | None = None,
    nprobe: int = 4,
) -> ShardedIndex:
    identity = {"factory": factory, "shards": shards, "metric": metric}
    inputs = {"embeddings": embeddings.digest}
    builder = ArtifactBuilder.begin(str(out), "index", config=identity, inputs=inputs, schema_version=SCHEMA_VERSION)
    plan = build.Plan(embeddings, builder, factory, metric, shards, seed=13, train_sample=None, concept_bits=2)
    trained = build.train(plan) if template is None else build.copy_template(plan, template)
    for shard in range(shards):
        build.fill_shard(plan, trained, shard)
        build.write_names(plan, shard)
    for bucket in range(4):
        build.write_concepts(plan, bucket)
    build.commit(plan, {"nprobe": nprobe})
    return ShardedIndex.open(str(out))


@pytest.fixture(autouse=True)
def _no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of small files: a disk that is asked to keep each for sure takes longer than all the rest."""
    monkeypatch.setattr("os.fsync", lambda _: None)
