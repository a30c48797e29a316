"""The jobs that work on an index, on one local Ray, from embeddings that the job `embed` made."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from biomodels import schemas
from biomodels.artifacts import Artifact, ArtifactBuilder
from biomodels.errors import ArtifactError, UsageError
from biomodels.index.sharded import ShardedIndex
from biomodels.inference.text_encoder import TextEncoder
from biomodels.linking.linker import Linker
from biomodels.terminology.normalise import Normaliser, name_id
from ray_jobs import embed, index
from ray_jobs.index import compact, prune, reshard, update, verify

pytestmark = pytest.mark.ray
NORMALISE = Normaliser()


def write(out: Path, concepts: dict[str, list[str]]) -> str:
    rows = [
        {
            "concept_id": concept,
            "name_id": name_id(NORMALISE(name)),
            "name": name,
            "language": "en",
            "source": "TEST",
            "term_type": "SY",
            "preferred": i == 0,
            "semantic_types": ["T047"],
        }
        for concept, names in concepts.items()
        for i, name in enumerate(names)
    ]
    builder = ArtifactBuilder.begin(str(out), "names", config={}, inputs={})
    builder.publish_table("part-00000.parquet", pa.Table.from_pylist(rows, schema=schemas.NAMES))
    builder.commit({"normaliser": NORMALISE.name})
    return str(out)


@pytest.fixture(scope="module")
def embeddings(ray_session: None, tiny_bert: str, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Embeddings of a dictionary and of the next edition of it."""
    folder = tmp_path_factory.mktemp("editions")
    first = {f"C{i:03d}": [f"disease {i}", f"illness {i} of the heart"] for i in range(120)}
    second = {concept: names for concept, names in first.items() if concept not in {"C005", "C006"}}
    second |= {
        "C007": ["disease 7 renamed", "illness 7 of the heart"],
        "N001": ["new disorder", "illness 5 of the heart"],
    }
    made = []
    for number, concepts in enumerate((first, second)):
        names = write(folder / f"names{number}", concepts)
        out = str(folder / f"embeddings{number}")
        before = made[0] if made else None
        embed.main(embed.Config(model=tiny_bert, names=names, out=out, part_rows=100, storage="float32", reuse=before))
        made.append(out)
    return made


def test_the_life_of_an_index(embeddings: list[str], tiny_bert: str, tmp_path: Path, capsys) -> None:
    """Built, updated, verified, compacted, cut anew, pruned: the answers are those of an index of the last edition."""
    home = str(tmp_path / "index")
    first = index.main(index.Config(embeddings=embeddings[0], out=home, factory="IVF8,SQ8", shards=2))
    rebuilt = str(tmp_path / "rebuilt")
    index.main(index.Config(embeddings=embeddings[1], out=rebuilt, template=home, shards=2))
    encoder = TextEncoder(tiny_bert)
    mentions = ["disease 7 renamed", "new disorder", "illness 5 of the heart", "disease 5", "illness of heart", "x"]

    def answers(where: str) -> list:
        opened = ShardedIndex.open(where, verify=True)
        opened.nprobe = 8  # each build chooses its own
        found = opened.search(encoder.encode(mentions), 10)
        return [*(array.tolist() for array in found), Linker(encoder, opened).link(mentions, 10)]

    expected = answers(rebuilt)
    updated = update.main(update.Config(index=home, embeddings=embeddings[1]))
    assert answers(home) == expected
    assert (updated.facts["added"], updated.facts["removed"]) == (2, 4)
    opened = ShardedIndex.open(home)
    opened.nprobe = 8
    (answer,) = Linker(encoder, opened).link(["illness 5 of the heart"], 119)  # the random model tells few names apart
    found = {candidate.concept_id: candidate.matched_name for candidate in answer}
    assert found["N001"] == "illness 5 of the heart"
    assert not {"C005", "C006"} & set(found)
    assert update.main(update.Config(index=home, embeddings=embeddings[1])) == updated
    counts = verify.main(verify.Config(index=home))
    assert counts == {"strings": 238, "names": 238, "searched": 238, "hidden": counts["hidden"]}
    assert verify.main(verify.Config(index=f"{home}@{first.digest[:8]}", share=0.5))["strings"] == 240
    compact.main(compact.Config(index=home))
    assert answers(home) == expected
    resharded = reshard.main(reshard.Config(index=home, shards=5))
    assert reshard.main(reshard.Config(index=home, shards=5)) == resharded
    assert answers(home) == expected
    assert verify.main(verify.Config(index=home))["searched"] == 238

    assert len(Artifact.versions(home)) == 4
    prune.main(prune.Config(index=home, keep=(first.digest[:6],)))
    assert [version.digest for version in Artifact.versions(home)] == [resharded.digest, first.digest]
    assert ShardedIndex.open(f"{home}@{first.digest}", verify=True).facts["strings"] == 240
    assert answers(home) == expected
    prune.main(prune.Config(index=home))
    assert len(Artifact.versions(home)) == 1
    assert answers(home) == expected
    assert not (Path(home) / "shards").exists() or not list((Path(home) / "shards").iterdir())
    with pytest.raises(UsageError, match=r"--keep 0000: .* has no such version"):
        prune.main(prune.Config(index=home, keep=("0000",)))
    assert json.loads((Path(home) / "run.json").read_text())["model"] == tiny_bert


def test_verify_tells_what_is_wrong(embeddings: list[str], tmp_path: Path) -> None:
    home = tmp_path / "index"
    index.main(index.Config(embeddings=embeddings[0], out=str(home), factory="IVF8,Flat", shards=2))
    file = home / "shards" / "shard-001.faiss"
    content = bytearray(file.read_bytes())
    content[-40] ^= 1
    file.write_bytes(content)
    with pytest.raises(Exception, match=r"shard-001\.faiss: content differs") as caught:
        verify.main(verify.Config(index=str(home)))
    from ray_jobs.command import user_error

    assert isinstance(user_error(caught.value), ArtifactError)


def test_a_plan_writes_nothing(embeddings: list[str], tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert index.main(index.Config(embeddings=embeddings[0], plan=True)) is None
    shown = capsys.readouterr().out
    assert "240 vectors of 32 dimensions" in shown
    assert "Flat: so few vectors are compared one by one, which is exact." in shown
    index.main(index.Config(embeddings=embeddings[0], plan=True, out=str(tmp_path / "ix"), factory="IVF8,PQ8"))
    assert "→ IVF8,PQ8" in capsys.readouterr().out
    assert not (tmp_path / "ix").exists()
    with pytest.raises(UsageError, match="--out is required"):
        index.main(index.Config(embeddings=embeddings[0]))
    with pytest.raises(UsageError, match="--memory-budget 1,000 bytes: 240 vectors of 32 dimensions need at least"):
        index.main(index.Config(embeddings=embeddings[0], plan=True, memory_budget=1000))
    with pytest.raises(UsageError, match="--factory: the trained index of --template has its factory already"):
        index.main(index.Config(embeddings=embeddings[0], out="x", factory="Flat", template="y"))
