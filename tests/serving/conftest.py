"""A small real index, made by a real encoder, for the tests of the service and of the job `link`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

NAMES = {
    "C01": ["Melanoma", "malignant melanoma", "melanoma of the skin"],
    "C02": ["Nevus", "mole", "melanocytic nevus"],
    "C03": ["Mole", "Talpidae"],
    "C04": ["Short stature", "small stature", "decreased body height"],
    "C05": ["Myocardial infarction", "heart attack"],
    "C06": ["Heart failure", "cardiac failure", "congestive heart failure"],
    "C07": ["Seizure", "epileptic seizure", "fit"],
    "C08": ["Renal cell carcinoma", "kidney cancer", "hypernephroma"],
    "C09": ["Pneumonia", "lung infection"],
    "C10": ["<b>Rash</b>", "skin rash", "exanthema & erythema"],
    **{f"D{i:02d}": [f"syndrome type {i}", f"disorder {i} of the liver"] for i in range(40)},
}


CONCEPT_BITS = 1


def build_index(directory: Path, model: str, *, shards: int = 2) -> str:
    """Build an index of `NAMES` from its file format."""
    import faiss
    import numpy as np

    from biomodels import schemas
    from biomodels.artifacts import ArtifactBuilder
    from biomodels.index.names import CONCEPTS, concept_bucket
    from biomodels.index.sharded import concepts_file, names_file, shard_file, shard_of
    from biomodels.index.shards import unit
    from biomodels.inference.text_encoder import TextEncoder
    from biomodels.terminology.normalise import Normaliser, name_id

    encoder, normalise = TextEncoder(model), Normaliser()
    rows = [
        {
            "concept_id": concept,
            "name_id": name_id(normalise(name)),
            "name": name,
            "language": "en",
            "source": "TEST",
            "term_type": "PT" if not i else "SY",
            "preferred": not i,
            "semantic_types": ["T047"],
        }
        for concept, names in NAMES.items()
        for i, name in enumerate(names)
    ]
    rows.sort(key=lambda row: (row["name_id"], row["concept_id"]))
    texts = {row["name_id"]: normalise(row["name"]) for row in rows}
    ids = np.array(sorted(texts), dtype=np.int64)
    E_ND = unit(encoder.encode([texts[i] for i in ids.tolist()]))
    template = faiss.index_factory(encoder.dimension, "IVF4,Flat", faiss.METRIC_INNER_PRODUCT)
    template.train(E_ND)
    builder = ArtifactBuilder.begin(str(directory), "index", config={}, inputs={"model": encoder.digest})

    def write_arrow(path: str, schema: pa.Schema, part: list[dict]) -> None:
        def write(local: str) -> int:
            with pa.ipc.new_file(local, schema) as sink:
                sink.write_table(pa.Table.from_pylist(part, schema=schema))
            return len(part)

        builder.publish(path, write)

    for shard in range(shards):
        mine = np.array([shard_of(i, shards) == shard for i in ids.tolist()])
        index = faiss.clone_index(template)
        index.add_with_ids(E_ND[mine], ids[mine])
        builder.publish(shard_file(shard), lambda local, index=index: faiss.write_index(index, local))
        part = [row for row in rows if shard_of(row["name_id"], shards) == shard]
        write_arrow(names_file(shard), schemas.NAMES, part)
    for bucket in range(1 << CONCEPT_BITS):
        concepts = [
            {"concept_id": concept, "preferred_name": names[0]}
            for concept, names in sorted(NAMES.items())
            if concept_bucket(concept, CONCEPT_BITS) == bucket
        ]
        write_arrow(concepts_file(bucket), CONCEPTS, concepts)
    facts = {
        "model_digest": encoder.digest,
        "spec": encoder.spec.model_dump(),
        "dimension": encoder.dimension,
        "metric": "cosine",
        "factory": "IVF4,Flat",
        "nprobe": 1,
        "shards": shards,
        "concept_bits": CONCEPT_BITS,
        "normaliser": normalise.name,
        "strings": len(ids),
        "names": len(rows),
        "concepts": len(NAMES),
    }
    builder.commit(facts, run={"model": model})
    return str(directory)


@pytest.fixture(scope="session")
def small_index(tmp_path_factory: pytest.TempPathFactory, minilm: str) -> str:
    """An index of two shards made by MiniLM."""
    return build_index(tmp_path_factory.mktemp("small") / "index", minilm)
