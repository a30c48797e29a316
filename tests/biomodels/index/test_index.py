from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import faiss
import numpy as np
import pyarrow as pa
import pytest

from biomodels import schemas, storage
from biomodels.artifacts import Artifact, ArtifactBuilder, FileEntry
from biomodels.errors import ArtifactError, CompatibilityError, UsageError
from biomodels.index import build, cache, names
from biomodels.index.factory import default_factory, lists_of, new_index
from biomodels.index.manifest import SCHEMA_VERSION
from biomodels.index.sharded import ShardedIndex, shard_of
from biomodels.index.shards import Shards, merge_topk, unit
from biomodels.inference import parts
from biomodels.terminology.normalise import name_id

DIMENSION = 32
STRINGS = 3000
PARTS = 8


def clustered(count: int, seed: int) -> np.ndarray:
    """Vectors around 60 centres, every tenth the copy of its neighbour, so that there are exact ties."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(60, DIMENSION))
    E_ND = centres[rng.integers(0, 60, count)] + 0.5 * rng.normal(size=(count, DIMENSION))
    E_ND[::10] = E_ND[1::10]
    return E_ND.astype(np.float16)


def row(concept_id: str, name: str, language: str = "en", preferred: bool = False) -> dict:
    return {
        "concept_id": concept_id,
        "name_id": name_id(name),
        "name": name,
        "language": language,
        "source": "TEST",
        "term_type": "PT" if preferred else "SY",
        "preferred": preferred,
        "semantic_types": ["T047"],
    }


def write_embeddings(out: Path, rows: list[dict], E_ND: np.ndarray) -> Artifact:
    """An `embeddings` artifact; vectors are given to the distinct ids in ascending order."""
    builder = ArtifactBuilder.begin(str(out), parts.KIND, config={}, inputs={})
    table = pa.Table.from_pylist(rows, schema=schemas.NAMES).sort_by([(n, "ascending") for n in parts._ORDER])
    ids = np.unique(table["name_id"].to_numpy())
    for part in range(PARTS):
        inside = table.filter(pa.array((table["name_id"].to_numpy() >> 60) == part))
        chosen = (ids >> 60) == part
        builder.publish_table(parts.names_part(part), inside)
        schema = schemas.embeddings_schema(E_ND.shape[1])
        vectors = pa.table([pa.array(ids[chosen]), parts.fixed_size_list(E_ND[: len(ids)][chosen])], schema=schema)
        builder.publish_table(parts.embeddings_part(part), vectors)
    builder.commit(
        {
            "model_digest": "m" * 32,
            "spec": {"pooling": "cls", "max_length": 25, "normalise": False, "prefix": ""},
            "normaliser": "nfc-ws-lower",
            "dimension": E_ND.shape[1],
            "parts": PARTS,
            "names": len(rows),
            "strings": len(ids),
        }
    )
    return Artifact.open(str(out), parts.KIND)


def build_index(embeddings: Artifact, out: Path, factory: str, shards: int, metric: str = "cosine") -> ShardedIndex:
    """Run the tasks of the job `index` one after another, without its measurements."""
    identity = {"factory": factory, "shards": shards, "metric": metric}
    builder = ArtifactBuilder.begin(
        str(out), "index", config=identity, inputs={"embeddings": embeddings.digest}, schema_version=SCHEMA_VERSION
    )
    plan = build.Plan(embeddings, builder, factory, metric, shards, seed=13, train_sample=None, concept_bits=2)
    template = build.train(plan)
    for shard in range(shards):
        build.fill_shard(plan, template, shard)
        build.write_names(plan, shard)
    for bucket in range(4):
        build.write_concepts(plan, bucket)
    build.commit(plan, {"nprobe": 8})
    return ShardedIndex.open(str(out))


@pytest.fixture(scope="module")
def embeddings(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    rows = [row(f"C{i // 3:05d}", f"name {i}", preferred=i % 3 == 0) for i in range(STRINGS)]
    return write_embeddings(tmp_path_factory.mktemp("e") / "embeddings", rows, clustered(STRINGS, 0))


@pytest.fixture(scope="module")
def queries() -> np.ndarray:
    return clustered(100, 7).astype(np.float32) + np.random.default_rng(3).normal(size=(100, DIMENSION)) * 0.05


FACTORIES = [
    "Flat", "SQ8", "IVF32,Flat", "IVF32,SQ8", "IVF16,PQ8x4", "OPQ8,IVF16,PQ8x4", "IVF32_HNSW16,Flat", "IVF16,RaBitQ",
]  # fmt: skip


@pytest.mark.parametrize("factory", FACTORIES)
def test_shards_answer_as_one_index(embeddings: Artifact, queries, tmp_path: Path, factory: str) -> None:
    one = build_index(embeddings, tmp_path / "1", factory, shards=1)
    three = build_index(embeddings, tmp_path / "3", factory, shards=3)
    S_1, I_1 = one.search(queries, 20)
    S_3, I_3 = three.search(queries, 20)
    np.testing.assert_allclose(S_1, S_3, atol=1e-6)
    same = I_1 == I_3
    beside = np.zeros_like(same)  # equal up to rounding: a neighbour in the ranking has the same score
    beside[:, 1:] |= np.abs(np.diff(S_1, axis=1)) < 1e-6
    beside[:, :-1] |= np.abs(np.diff(S_1, axis=1)) < 1e-6
    beside[:, -1] = True
    assert (same | beside).all()
    assert same.mean() > 0.95

    for index in (one, three):
        S_NK, I_NK = index.search(queries, 20)
        alone = [index.search(query[np.newaxis], 20) for query in queries[:20]]
        assert np.array_equal(S_NK[:20], np.concatenate([s for s, _ in alone]))
        assert np.array_equal(I_NK[:20], np.concatenate([i for _, i in alone]))
    stock = faiss.read_index(str(tmp_path / "1" / "shards" / "shard-000.faiss"))
    assert stock.ntotal == STRINGS


@pytest.mark.parametrize("metric", ["cosine", "ip"])
def test_all_lists_give_the_exact_neighbours_with_ties_by_id(embeddings, queries, tmp_path, metric: str) -> None:
    index = build_index(embeddings, tmp_path / "ix", "IVF32,Flat", shards=3, metric=metric)
    ids = np.concatenate([embeddings.read_table(e)["name_id"].to_numpy() for e in embeddings.files("embeddings/")])
    E_ND = clustered(STRINGS, 0).astype(np.float32)
    Q_ND = queries.astype(np.float32)
    if metric == "cosine":
        E_ND, Q_ND = unit(E_ND), unit(Q_ND)
    S_QN = Q_ND.astype(np.float64) @ E_ND.T.astype(np.float64)
    for k in (1, 7, 50):
        S_NK, I_NK = index.search(queries, k, nprobe=32)
        for query in range(len(queries)):
            exact = np.sort(S_QN[query])[::-1][:k]
            np.testing.assert_allclose(S_NK[query], exact, rtol=1e-5, atol=1e-5)
            scores = dict(zip(ids.tolist(), S_QN[query].tolist(), strict=True))
            np.testing.assert_allclose([scores[i] for i in I_NK[query].tolist()], exact, rtol=1e-5, atol=1e-5)
            order = list(zip(-S_NK[query], I_NK[query], strict=True))
            assert order == sorted(order)


def test_a_tie_across_the_kth_place_is_decided_by_id(tmp_path: Path) -> None:
    rows = [row("C1", f"n{i}") for i in range(200)]
    E_ND = np.ones((200, 8), np.float16)
    index = build_index(write_embeddings(tmp_path / "e", rows, E_ND), tmp_path / "ix", "Flat", shards=3)
    expected = sorted(name_id(f"n{i}") for i in range(200))
    S_NK, I_NK = index.search(np.ones((1, 8), np.float32), 5)
    assert I_NK[0].tolist() == expected[:5]
    assert np.allclose(S_NK, 1)


def test_more_than_there_is(tmp_path: Path) -> None:
    embeddings = write_embeddings(tmp_path / "e", [row("C1", "a"), row("C2", "b")], clustered(2, 1))
    index = build_index(embeddings, tmp_path / "ix", "Flat", shards=4)
    S_NK, I_NK = index.search(clustered(3, 2), 5)
    assert (I_NK[:, 2:] == -1).all()
    assert np.isneginf(S_NK[:, 2:]).all()
    assert sorted(I_NK[0, :2].tolist()) == sorted([name_id("a"), name_id("b")])


def test_homonyms_have_all_their_rows(tmp_path: Path) -> None:
    rows = [
        row("C2", "cold", preferred=True),
        row("C1", "cold"),
        row("C1", "common cold", preferred=True),
        row("C1", "erkältung", language="de", preferred=True),
        row("C3", "zzz", language="de"),
        row("C3", "yyy", language="en"),
    ]
    index = build_index(write_embeddings(tmp_path / "e", rows, clustered(6, 1)), tmp_path / "ix", "Flat", shards=3)
    cold = name_id("cold")
    found = index.rows_of([cold, -1, 12345])
    assert list(found) == [cold]
    assert [(r.concept_id, r.preferred, r.preferred_name) for r in found[cold]] == [
        ("C1", False, "common cold"),
        ("C2", True, "cold"),
    ]
    assert found[cold][0].semantic_types == ("T047",)
    assert index.preferred_name("C3") == "yyy"
    assert index.preferred_name("C0") is None
    assert index.preferred_name("C9") is None


def test_every_name_is_found_again(embeddings: Artifact, tmp_path: Path) -> None:
    index = build_index(embeddings, tmp_path / "ix", "IVF32,Flat", shards=3)
    for i in range(0, STRINGS, 37):
        (only,) = index.rows_of([name_id(f"name {i}")])[name_id(f"name {i}")]
        assert (only.name, only.concept_id, only.preferred_name) == (
            f"name {i}",
            f"C{i // 3:05d}",
            f"name {i // 3 * 3}",
        )


def test_one_process_per_shard_gives_the_same(embeddings: Artifact, queries, tmp_path: Path) -> None:
    whole = build_index(embeddings, tmp_path / "ix", "IVF32,Flat", shards=3)
    apart = [ShardedIndex.open(whole.uri, only=[i]) for i in range(3)]
    S_NK, I_NK = merge_topk([index.search(queries, 10) for index in apart], 10)
    expected = whole.search(queries, 10)
    assert np.array_equal(S_NK, expected[0])
    assert np.array_equal(I_NK, expected[1])
    outside = next(i for i in I_NK[0].tolist() if shard_of(i, 3) != 0)
    with pytest.raises(UsageError, match="was not opened"):
        apart[0].rows_of([outside])
    with pytest.raises(UsageError, match="no choice of the 3 shards"):
        ShardedIndex.open(whole.uri, only=[3])


def test_training_gives_the_same_bytes_again(embeddings: Artifact, tmp_path: Path) -> None:
    first = build_index(embeddings, tmp_path / "a", "IVF32_HNSW16,SQ8", shards=2)
    assert build_index(embeddings, tmp_path / "b", "IVF32_HNSW16,SQ8", shards=2).digest == first.digest


@pytest.mark.parametrize(
    ("k", "nprobe", "width", "message"),
    [(0, None, DIMENSION, "k: must"), (5, 0, DIMENSION, "nprobe: must"), (5, None, 7, "needs \\(N, 32\\)")],
)
def test_bad_searches(embeddings: Artifact, tmp_path: Path, k, nprobe, width, message: str) -> None:
    index = build_index(embeddings, tmp_path / "ix", "Flat", shards=1)
    with pytest.raises(UsageError, match=message):
        index.search(np.zeros((1, width), np.float32), k, nprobe=nprobe)
    assert index.search(np.zeros((0, DIMENSION), np.float32), 3)[0].shape == (0, 3)
    with pytest.raises(CompatibilityError, match="not by other"):
        index.require_model("other")
    index.require_model("m" * 32)


@pytest.mark.parametrize(
    "factory", ["Foo", "IVF64,PQ7", "HNSW32", "IVF16,PQ8,RFlat", "LSH", "IVFx,Flat", "IVF16,PQ8x4fs"]
)
def test_factories_that_cannot_work(factory: str) -> None:
    with pytest.raises(UsageError, match=r"--factory .*examples: Flat; IVF512,Flat"):
        new_index(factory, DIMENSION)


def test_codes_that_would_not_be_found_alike_in_shards_are_refused() -> None:
    with pytest.raises(UsageError, match=r"--factory IVF16,RaBitQ4: .*would not answer as one index"):
        new_index("IVF16,RaBitQ4", DIMENSION)


@pytest.mark.parametrize(
    "factory", ["IVF0,Flat", "IVF00_HNSW32,Flat", "OPQ0,IVF16,PQ8", "IVF16_HNSW0,Flat", "PCA8,IVF0,SQ8"]
)
def test_zeros_in_a_factory_are_refused(factory: str) -> None:
    with pytest.raises(UsageError, match=r"--factory .*0: numbers must be at least 1.*examples: Flat"):
        new_index(factory, DIMENSION)


@pytest.mark.parametrize("factory", ["IVF10,Flat", "IVF100,SQ8", "PCA10,IVF20,Flat"])
def test_zeros_within_a_number_are_taken(factory: str) -> None:
    assert lists_of(new_index(factory, DIMENSION)) >= 10


def test_too_few_vectors_to_train_on(embeddings: Artifact, tmp_path: Path) -> None:
    builder = ArtifactBuilder.begin(str(tmp_path / "ix"), "index", config={}, inputs={})
    plan = build.Plan(embeddings, builder, "IVF64,Flat", "ip", 1, seed=1, train_sample=10, concept_bits=0)
    with pytest.raises(UsageError, match="larger --train-sample"):
        build.train(plan)


@pytest.mark.parametrize(
    ("strings", "factory"),
    [
        (1, "Flat"),
        (9_999, "Flat"),
        (10_000, "IVF512,Flat"),
        (37_000, "IVF1024,Flat"),
        (726_661, "IVF4096,Flat"),
        (2_000_000, "IVF8192,SQ8"),
        (15_000_000, "IVF16384,SQ8"),
        (300_000_000, "IVF131072_HNSW32,SQ8"),
    ],
)
def test_default_factory(strings: int, factory: str) -> None:
    assert default_factory(strings) == factory
    if strings < 100_000:
        assert lists_of(new_index(factory, DIMENSION)) <= strings


@pytest.mark.parametrize("path", ["shards/shard-000.faiss", "names/shard-001.arrow", "concepts/bucket-000.arrow"])
def test_damaged_files(embeddings: Artifact, tmp_path: Path, path: str) -> None:
    whole = build_index(embeddings, tmp_path / "ix", "IVF32,Flat", shards=2)
    content = (tmp_path / "ix" / path).read_bytes()
    for number, damaged in enumerate([content[: len(content) // 2], b"\0" * len(content), None]):
        copy = Path(shutil.copytree(whole.uri, tmp_path / f"copy{number}"))
        (copy / path).unlink() if damaged is None else (copy / path).write_bytes(damaged)
        with pytest.raises(ArtifactError, match=path):
            ShardedIndex.open(str(copy))
    flipped = content[:-20] + bytes([content[-20] ^ 1]) + content[-19:]
    copy = Path(shutil.copytree(whole.uri, tmp_path / "flipped"))
    (copy / path).write_bytes(flipped)
    with pytest.raises(ArtifactError, match="content differs"):
        ShardedIndex.open(str(copy), verify=True)


@pytest.mark.parametrize("folder", ["shards", "names", "concepts"])
def test_random_flips_are_found_when_verified(embeddings: Artifact, tmp_path: Path, folder: str) -> None:
    whole = build_index(embeddings, tmp_path / "ix", "IVF32,Flat", shards=2)
    file = sorted((tmp_path / "ix" / folder).iterdir())[0]
    content = file.read_bytes()
    rng = np.random.default_rng(1)
    for _ in range(20):
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= 1 << rng.integers(8)
        file.write_bytes(damaged)
        with pytest.raises(ArtifactError, match=file.name):
            ShardedIndex.open(whole.uri, verify=True)
    file.write_bytes(content)
    assert ShardedIndex.open(whole.uri, verify=True).digest == whole.digest


def test_offsets_that_lead_out_of_an_arrow_file_are_found(tmp_path: Path) -> None:
    """Such a file can have the right checksum if its writer was at fault; reading a value would end the process."""
    offsets = np.array([0, 2, 1 << 28], dtype=np.int32)
    file = tmp_path / "bucket-000.arrow"
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, names.CONCEPTS) as writer:
        writer.write_batch(
            pa.RecordBatch.from_pylist([{"concept_id": "C1", "preferred_name": "a"}] * 2, names.CONCEPTS)
        )
    content = file.read_bytes()
    good = np.array([0, 2, 4], dtype=np.int32).tobytes()
    assert content.count(good) == 1
    file.write_bytes(content.replace(good, offsets.tobytes()))
    with pytest.raises(ArtifactError, match=r"bucket-000\.arrow: is no readable Arrow file"):
        names.ConceptTable(file, verify=True)


def test_a_cached_copy_that_has_gone_bad_is_fetched_again(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("BIOMODELS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(storage, "is_local", lambda _: False)
    uri, content = str(tmp_path), b"vectors"
    (tmp_path / "f").write_bytes(content)
    entry = FileEntry(path="f", bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    copy = cache.local_file(uri, entry)
    assert copy.is_relative_to(tmp_path / "cache")
    copy.write_bytes(b"VECTORS")
    assert cache.local_file(uri, entry).read_bytes() == b"VECTORS"
    assert cache.local_file(uri, entry, verify=True).read_bytes() == content


def edited(whole: ShardedIndex, copy: Path, facts: dict, /, **fields) -> str:
    """A copy of an index with other facts in its manifest; "REMOVED" takes one away."""
    shutil.copytree(whole.uri, copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    kept = {key: value for key, value in (manifest["facts"] | facts).items() if value != "REMOVED"}
    (copy / "manifest.json").write_text(json.dumps(manifest | {"facts": kept} | fields))
    return str(copy)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"nprobe": "x"}, r"facts\.nprobe: .*given: 'x'"),
        ({"nprobe": 0}, r"facts\.nprobe: .*greater than or equal to 1"),
        ({"nprobe": "REMOVED"}, r"facts\.nprobe: Field required"),
        ({"spec": None}, r"facts\.spec: .*given: None"),
        ({"spec": {}}, r"facts\.spec\.pooling: Field required"),
        ({"normaliser": "foo"}, r"facts\.normaliser: .*unknown normaliser 'foo'"),
        ({"metric": "l2"}, r"facts\.metric: .*given: 'l2'"),
        ({"concepts": -1}, r"facts\.concepts: .*given: -1"),
        ({"shards": 1}, r"facts\.shards stands for 1 files of shards/, but it lists 2"),
        ({"concept_bits": 10**9}, r"facts\.concept_bits stands for"),
        ({"dimension": 16}, r"has vectors of 32, not 16 dimensions"),
    ],
)
def test_a_manifest_edited_by_hand(embeddings: Artifact, tmp_path: Path, facts: dict, message: str) -> None:
    whole = build_index(embeddings, tmp_path / "ix", "Flat", shards=2)
    with pytest.raises(ArtifactError, match=message):
        ShardedIndex.open(edited(whole, tmp_path / "copy", facts))


def test_a_manifest_without_facts_or_of_another_schema(embeddings: Artifact, tmp_path: Path) -> None:
    whole = build_index(embeddings, tmp_path / "ix", "Flat", shards=2)
    with pytest.raises(ArtifactError, match=r"facts\.model_digest: Field required"):
        ShardedIndex.open(edited(whole, tmp_path / "bare", {}, facts={}))
    with pytest.raises(ArtifactError, match=r"has schema_version 7, where .* reads 2"):
        ShardedIndex.open(edited(whole, tmp_path / "newer", {}, schema_version=7))


def test_what_is_no_index(embeddings: Artifact, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="is no artifact"):
        ShardedIndex.open(str(tmp_path))
    with pytest.raises(ArtifactError, match="'embeddings' artifact where 'index' is needed"):
        ShardedIndex.open(embeddings.uri)


def test_merge_pads_and_orders() -> None:
    S_NK, I_NK = merge_topk(
        [
            (np.array([[0.5, 0.1]], np.float32), np.array([[9, 4]])),
            (np.array([[0.5, -np.inf]], np.float32), np.array([[3, -1]])),
        ],
        5,
    )
    assert I_NK.tolist() == [[3, 9, 4, -1, -1]]
    assert S_NK.tolist() == [[0.5, 0.5, np.float32(0.1), -np.inf, -np.inf]]


def test_concurrent_searches_do_not_share_nprobe(embeddings: Artifact, queries, tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    build_index(embeddings, tmp_path / "ix", "IVF32,Flat", shards=2)
    paths = {i: tmp_path / "ix" / "shards" / f"shard-{i:03d}.faiss" for i in range(2)}
    shards = Shards(list(paths.values()), DIMENSION)
    X_ND = unit(queries.astype(np.float32))
    expected = {nprobe: shards.search(X_ND, 10, nprobe) for nprobe in (1, 4, 32)}
    wanted = [1, 4, 32] * 10
    with ThreadPoolExecutor(6) as pool:
        for nprobe, (S_NK, I_NK) in zip(wanted, pool.map(lambda n: shards.search(X_ND, 10, n), wanted), strict=True):
            assert np.array_equal(S_NK, expected[nprobe][0])
            assert np.array_equal(I_NK, expected[nprobe][1])
