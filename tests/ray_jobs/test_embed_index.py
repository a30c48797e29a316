"""The jobs `embed` and `index` on one local Ray: the same bytes however many work, and bad input refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from biomodels import storage
from biomodels.artifacts import Artifact
from biomodels.errors import ArtifactError, InputError, RejectRateError, UsageError
from biomodels.index.sharded import ShardedIndex
from biomodels.inference.parts import vectors
from biomodels.inference.text_encoder import TextEncoder
from biomodels.terminology.normalise import Normaliser, name_id
from ray_jobs import embed, index

pytestmark = pytest.mark.ray
NORMALISE = Normaliser()


@pytest.fixture(scope="module")
def names(write_names, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_names(tmp_path_factory.mktemp("names") / "names", 600)


def manifest(directory: object) -> bytes:
    return (Path(str(directory)) / "manifest.json").read_bytes()


@pytest.fixture(scope="module")
def embeddings(ray_session: None, names: str, tiny_bert: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    out = str(tmp_path_factory.mktemp("e") / "embeddings")
    embed.main(embed.Config(model=tiny_bert, names=names, out=out, part_rows=100, actors=1))
    return out


def test_three_actors_write_the_bytes_of_one(embeddings: str, names: str, tiny_bert: str, tmp_path: Path) -> None:
    out = tmp_path / "three"
    embed.main(embed.Config(model=tiny_bert, names=names, out=str(out), part_rows=100, actors=3))
    assert manifest(out) == manifest(embeddings)
    Artifact.open(str(out)).verify()
    assert not (out / "_work").exists()


def test_each_string_is_encoded_once_and_every_row_is_kept(embeddings: str, names: str, tiny_bert: str) -> None:
    artifact, given = Artifact.open(embeddings), Artifact.open(names)
    rows = [row for entry in given.files() for row in given.read_table(entry).to_pylist()]
    kept = [row for entry in artifact.files("names/") for row in artifact.read_table(entry).to_pylist()]
    assert sorted(map(str, rows)) == sorted(map(str, kept))
    assert [row["name_id"] for row in kept] == sorted(row["name_id"] for row in kept)
    tables = [artifact.read_table(entry) for entry in artifact.files("strings/")]
    texts = [text for table in tables for text in table["text"].to_pylist()]
    assert sorted(texts) == sorted({NORMALISE(row["name"]) for row in rows})
    assert artifact.facts["strings"] == len(texts) < artifact.facts["names"] == 600
    assert artifact.facts["parts"] == len(tables) == 8
    E_ND = np.concatenate([vectors(artifact.read_table(e)["embedding"], 32) for e in artifact.files("embeddings/")])
    expected = TextEncoder(tiny_bert).encode(texts)
    assert np.array_equal(E_ND, expected.astype(np.float16).astype(np.float32))


def test_a_finished_artifact_is_left_alone_and_another_is_not_mixed_in(
    embeddings: str, names: str, tiny_bert: str
) -> None:
    before = manifest(embeddings)
    embed.main(embed.Config(model=tiny_bert, names=names, out=embeddings, part_rows=100, actors=2))
    assert manifest(embeddings) == before
    with pytest.raises(ArtifactError, match=r"config\.part_rows"):
        embed.main(embed.Config(model=tiny_bert, names=names, out=embeddings, part_rows=50))
    with pytest.raises(ArtifactError, match="inputs"):
        embed.main(embed.Config(model=tiny_bert, names=names, out=embeddings, part_rows=100, pooling="mean"))


def test_a_changed_dictionary_encodes_new_strings_only(
    embeddings: str, write_names, tiny_bert: str, tmp_path: Path
) -> None:
    names = write_names(tmp_path / "names", 630)  # 600 as before; the homonyms among them move
    fresh = embed.main(embed.Config(model=tiny_bert, names=names, out=str(tmp_path / "fresh"), part_rows=40))
    options = {"model": tiny_bert, "names": names, "part_rows": 40, "reuse": embeddings}
    reused = embed.main(embed.Config(out=str(tmp_path / "reused"), **options))
    assert manifest(tmp_path / "reused") == manifest(tmp_path / "fresh")
    counts = storage.read_json(str(tmp_path / "reused" / "run.json"))["strings"]
    assert counts["encoded"] + counts["reused"] == fresh.facts["strings"] == reused.facts["strings"]
    assert counts["reused"] >= 570
    assert 20 <= counts["encoded"] <= 60
    with pytest.raises(InputError, match=r"cannot be reused: it has storage 'float16', not 'float32'"):
        embed.main(embed.Config(out=str(tmp_path / "other"), storage="float32", **options))
    with pytest.raises(InputError, match=r"cannot be reused: it has model_digest"):
        embed.main(embed.Config(out=str(tmp_path / "other"), pooling="mean", **options))


def test_a_text_file_of_names_becomes_an_index(tiny_bert: str, tmp_path: Path, ray_session: None) -> None:
    path = tmp_path / "names.txt"
    path.write_bytes("".join(f"Disease {i % 90}\n" for i in range(200)).encode() + b"DISEASE 1\nbad \xff\n")
    config = embed.Config(model=tiny_bert, names=str(path), out=str(tmp_path / "e"), part_rows=50, actors=1)
    facts = embed.main(config).facts
    assert facts["strings"] == facts["names"] == 90
    (rejects,) = Artifact.open(config.out).files("rejects/")
    assert Artifact.open(config.out).read_table(rejects).to_pylist()[0]["line"] == 202
    index.main(index.Config(embeddings=config.out, out=str(tmp_path / "ix"), factory="Flat"))
    opened = ShardedIndex.open(str(tmp_path / "ix"))
    (row,) = opened.rows_of([name_id("disease 1")])[name_id("disease 1")]
    assert (row.concept_id, row.name) == ("disease 1", "DISEASE 1")
    with pytest.raises(RejectRateError, match=r"1 of 202 rows are malformed.*names.txt:202: is not UTF-8"):
        embed.main(config.model_copy(update={"out": str(tmp_path / "strict"), "max_reject_rate": 0.0}))
    path.write_text("\n \n")
    with pytest.raises(InputError, match="has no names"):
        embed.main(config.model_copy(update={"out": str(tmp_path / "blank")}))


def test_index_finds_every_name_again(embeddings: str, names: str, tiny_bert: str, tmp_path: Path) -> None:
    answers = {}
    for shards in (1, 3):
        out = str(tmp_path / str(shards))
        config = index.Config(
            embeddings=embeddings, out=out, factory="IVF16,Flat", shards=shards, target_recall=1.0, recall_queries=100
        )
        facts = index.main(config).facts
        again = tmp_path / f"again{shards}"
        index.main(config.model_copy(update={"out": str(again)}))
        assert manifest(again) == manifest(out)
        opened = ShardedIndex.open(out, verify=True)
        assert facts["recall_at_10"] == 1.0
        assert opened.nprobe == facts["nprobe"] <= 16
        assert facts["names"] == 600
        assert facts["concepts"] == 200
        encoder = TextEncoder(tiny_bert)
        opened.require_model(encoder.digest)
        opened.nprobe = 16
        queries = [NORMALISE(f"Disease {i} of the heart") for i in range(1, 99, 2)]
        answers[shards] = opened.search(encoder.encode(queries), 60)
        # The random model tells many names apart by less than the 1e-5 to which scores are rounded: they share a place.
        for query, scores, found in zip(queries, *answers[shards], strict=True):
            (place,) = np.flatnonzero(found == name_id(query))
            assert scores[place] >= scores[0] - 1e-5
    np.testing.assert_allclose(answers[1][0], answers[3][0], atol=1e-6)
    rows = opened.rows_of([name_id(NORMALISE("Disease 1 of the kidney"))])
    assert len({row.concept_id for found in rows.values() for row in found}) == 2


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"factory": "Foo"}, UsageError, "--factory Foo: .*examples: Flat"),
        ({"factory": "IVF4096,Flat"}, UsageError, "4096 lists cannot be trained on"),
        ({"embeddings": "nowhere"}, ArtifactError, "nowhere: is no artifact"),
    ],
)
def test_bad_index_options(embeddings: str, tmp_path: Path, changes: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        index.main(index.Config(**({"embeddings": embeddings, "out": str(tmp_path / "ix")} | changes)))
    assert not (tmp_path / "ix").exists()


def test_bad_names(write_names, tiny_bert: str, tmp_path: Path, ray_session: None) -> None:
    def attempt(names: str, out: str, **options: object) -> None:
        embed.main(embed.Config(**{"model": tiny_bert, "names": names, "out": str(tmp_path / out)} | options))

    with pytest.raises(InputError, match="has no names"):
        attempt(write_names(tmp_path / "empty", 0), "a")
    with pytest.raises(UsageError, match="this cluster has 0 GPUs"):
        attempt(write_names(tmp_path / "some", 5), "b", gpus_per_actor=1)
    with pytest.raises(InputError, match="there is no such directory"):
        attempt(str(tmp_path / "some"), "c", model="./nowhere")
    from ray_jobs.command import user_error

    with pytest.raises(Exception) as caught:
        attempt(write_names(tmp_path / "one_id", 5, name_id=7), "d")
    assert "two strings have it" in str(user_error(caught.value))
    with pytest.raises(Exception) as caught:
        attempt(write_names(tmp_path / "wrong_id", 1, name_id=7), "e")
    assert "is not the identity of" in str(user_error(caught.value))
