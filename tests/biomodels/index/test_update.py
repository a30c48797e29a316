"""Updates, compaction and resharding: each must answer as an index that was built so from the beginning."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from biomodels.artifacts import Artifact
from biomodels.errors import ArtifactError, CompatibilityError, InputError
from biomodels.index import rewrite, update
from biomodels.index.sharded import NameFilter, ShardedIndex
from biomodels.linking.linker import rank_concepts

FACTORIES = ["Flat", "SQ8", "IVF32,Flat", "IVF32,SQ8", "IVF32_HNSW16,SQ4", "IVF16,RaBitQ", "PCA16,IVF16,SQ8"]


@pytest.fixture(scope="module")
def before(make_row) -> list[dict]:
    return [
        make_row(f"C{i // 3:04d}", f"name {i}", preferred=i % 3 == 0, language="de" if i % 5 == 0 else "en")
        for i in range(1500)
    ]


@pytest.fixture(scope="module")
def after(before, make_row) -> list[dict]:
    """Some concepts go, some come, one is renamed, two are merged, a name moves, other rows change."""
    rows = [row for row in before if row["concept_id"] not in {"C0007", "C0100", "C0101"}]
    rows = [{**row, "concept_id": "C0020"} if row["concept_id"] == "C0021" else row for row in rows]
    rows = [{**row, "semantic_types": ["T001"]} if row["concept_id"] == "C0030" else row for row in rows]
    rows = [{**row, "preferred": row["name"] == "name 121"} if row["concept_id"] == "C0040" else row for row in rows]
    rows += [make_row(f"N{i // 2:03d}", f"new name {i}", language="fr") for i in range(40)]
    rows += [make_row("C0050", "another name"), make_row("N500", "name 7"), make_row("N501", "name 300")]
    return rows


@pytest.fixture(scope="module")
def queries() -> np.ndarray:
    return np.random.default_rng(5).normal(size=(60, 32)).astype(np.float32)


def run_update(index: ShardedIndex, embeddings: Artifact) -> ShardedIndex:
    """What the job `index update` does, in this process."""
    made = update.begin(index.uri, embeddings)
    if made.plan.builder.finished is None:
        for shard in range(index.shards):
            update.write_changes(made, shard)
            update.write_vectors(made, shard)
        chosen = update.concerned(made)
        for shard in range(index.shards):
            update.spill_candidates(made, shard, chosen)
        update.write_concepts(made, chosen)
        update.commit(made)
    return ShardedIndex.open(index.uri, verify=True)


def run_rewrite(index: ShardedIndex, shards: int | None = None) -> ShardedIndex:
    """What the jobs `index compact` and `index reshard` do, in this process."""
    made = rewrite.begin(index.uri, shards)
    if made is not None:
        rewrite.write_template(made)
        for shard in range(made.shards):
            rewrite.write_vectors(made, shard)
            rewrite.write_names(made, shard)
        for bucket in range(1 << made.facts.concept_bits):
            rewrite.write_concepts(made, bucket)
        rewrite.commit(made)
    return ShardedIndex.open(index.uri, verify=True)


def same_answers(first: ShardedIndex, second: ShardedIndex, queries: np.ndarray) -> None:
    """Bit by bit: strings and scores, concepts and all that is shown of them, also under a filter."""
    for k, nprobe in ((1, None), (10, None), (40, 1000)):
        for one, other in zip(
            first.search(queries, k, nprobe=nprobe), second.search(queries, k, nprobe=nprobe), strict=True
        ):
            assert np.array_equal(one, other)
    for where in (None, NameFilter.of(["fr", "de"]), NameFilter.of(semantic_types=["T001"])):
        assert rank_concepts(first, queries, 5, where) == rank_concepts(second, queries, 5, where)
        assert first.matching(where) == second.matching(where)
    for field in ("strings", "names", "concepts", "languages", "sources", "semantic_types"):
        assert first.facts[field] == second.facts[field], field


@pytest.mark.parametrize("factory", FACTORIES)
def test_it_answers_as_a_rebuild_does(
    factory, before, after, queries, make_embeddings, make_index, tmp_path: Path
) -> None:
    old = make_embeddings(tmp_path / "e0", before)
    new = make_embeddings(tmp_path / "e1", after)
    index = make_index(old, tmp_path / "ix", factory)
    rebuilt = make_index(new, tmp_path / "rebuilt", factory, template=index.uri)
    updated = run_update(index, new)
    same_answers(updated, rebuilt, queries)
    compacted = run_rewrite(updated)
    assert compacted.facts["delta"] is None
    same_answers(compacted, rebuilt, queries)
    for one, other in zip(
        Artifact.open(compacted.uri).files(compacted.facts["base"]), Artifact.open(rebuilt.uri).files(), strict=True
    ):
        assert (one.path.split("/", 1)[1], one.sha256, one.rows) == (other.path, other.sha256, other.rows)
    # The old versions are there still, and answer as they did.
    for version in (index.digest, updated.digest[:10]):
        assert ShardedIndex.open(f"{index.uri}@{version}", verify=True).digest.startswith(version)
    first = ShardedIndex.open(f"{index.uri}@{index.digest}")
    for one, other in zip(index.search(queries, 10), first.search(queries, 10), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("factory", ["Flat", "IVF32,SQ8"])
def test_other_numbers_of_shards_give_the_same(factory, before, after, queries, make_embeddings, make_index, tmp_path):
    old, new = make_embeddings(tmp_path / "e0", before), make_embeddings(tmp_path / "e1", after)
    one = make_index(new, tmp_path / "1", factory, shards=1)
    eight = make_index(new, tmp_path / "8", factory, shards=8, template=one.uri)
    same_answers(one, eight, queries)
    index = run_update(make_index(old, tmp_path / "3", factory, shards=3, template=one.uri), new)
    resharded = run_rewrite(index, 8)
    assert resharded.shards == 8
    same_answers(resharded, eight, queries)
    back = run_rewrite(resharded, 1)
    same_answers(back, one, queries)
    pairs = zip(Artifact.open(back.uri).files(back.facts["base"]), Artifact.open(one.uri).files(), strict=True)
    assert all(mine.sha256 == theirs.sha256 for mine, theirs in pairs)
    assert rewrite.begin(back.uri, 1) is None


def test_removed_concepts_are_never_returned_and_moved_ones_are(
    before, after, queries, make_embeddings, make_index, make_row, tmp_path
):
    index = make_index(make_embeddings(tmp_path / "e0", before), tmp_path / "ix")
    updated = run_update(index, make_embeddings(tmp_path / "e1", after))
    gone = {"C0007", "C0100", "C0101", "C0021"}
    found = {c.concept_id for answer in rank_concepts(updated, queries, 400) for c in answer}
    assert not found & gone
    assert "N000" in found
    for concept_id in gone:
        assert updated.preferred_name(concept_id) is None
        assert index.preferred_name(concept_id) is not None
    assert updated.preferred_name("C0040") == "name 121"
    assert updated.preferred_name("C0001") == index.preferred_name("C0001") == "name 3"
    identity = make_row("", "name 7")["name_id"]
    assert [row.concept_id for row in updated.rows_of([identity])[identity]] == ["C0002", "N500"]
    removed = make_row("", "name 21")["name_id"]
    assert updated.rows_of([removed]) == {}
    returned = make_row("", "name 300")["name_id"]  # of a concept that is gone; another has the name now
    assert [row.concept_id for row in updated.rows_of([returned])[returned]] == ["N501"]


def test_updates_of_updates_depend_on_the_last_dictionary_alone(
    before, after, queries, make_embeddings, make_index, make_row, tmp_path
):
    old, new = make_embeddings(tmp_path / "e0", before), make_embeddings(tmp_path / "e1", after)
    third = make_embeddings(tmp_path / "e2", [*before[60:], *after[-20:], make_row("C0000", "name 0")])
    index, other = make_index(old, tmp_path / "ix"), make_index(old, tmp_path / "other")
    assert index.digest == other.digest
    twice = run_update(run_update(index, new), third)
    once = run_update(other, third)
    assert twice.digest == once.digest
    same_answers(twice, once, queries)
    back = run_update(twice, old)
    same_answers(back, index, queries)
    assert back.facts["added"] == back.facts["removed"] == 0
    # The same command again has nothing to do.
    digest = back.digest
    assert update.begin(index.uri, old).plan.builder.finished is not None
    assert run_update(back, old).digest == digest
    assert len(Artifact.versions(index.uri)) == 4


def test_an_update_that_was_stopped_leaves_the_old_version(
    before, after, queries, make_embeddings, make_index, tmp_path
):
    index = make_index(make_embeddings(tmp_path / "e0", before), tmp_path / "ix")
    new = make_embeddings(tmp_path / "e1", after)
    made = update.begin(index.uri, new)
    update.write_changes(made, 0)
    update.write_vectors(made, 0)
    assert ShardedIndex.open(index.uri).digest == index.digest
    # Another update gives up what was begun, and this one goes on or begins anew.
    other = update.begin(index.uri, make_embeddings(tmp_path / "e2", before[3:]))
    update.write_changes(other, 0)
    straight = run_update(make_index(Artifact.open(str(tmp_path / "e0")), tmp_path / "straight"), new)
    assert run_update(index, new).digest == straight.digest
    assert not (tmp_path / "ix" / "_work").exists()


@pytest.mark.parametrize(
    ("facts", "message"),
    [({"model_digest": "other"}, "model_digest other, but the index"), ({"normaliser": "nfc-ws"}, "has normaliser")],
)
def test_embeddings_of_another_kind(before, facts, message, make_embeddings, make_index, tmp_path):
    index = make_index(make_embeddings(tmp_path / "e0", before[:300]), tmp_path / "ix", "Flat")
    with pytest.raises(CompatibilityError, match=message):
        update.begin(index.uri, make_embeddings(tmp_path / "e1", before[:200], **facts))


def test_an_empty_dictionary(before, make_embeddings, make_index, tmp_path):
    index = make_index(make_embeddings(tmp_path / "e0", before[:300]), tmp_path / "ix", "Flat")
    with pytest.raises(InputError, match="cannot be emptied"):
        update.begin(index.uri, make_embeddings(tmp_path / "e1", []))


def test_only_the_current_version_is_followed_by_another(before, after, make_embeddings, make_index, tmp_path):
    index = make_index(make_embeddings(tmp_path / "e0", before), tmp_path / "ix", "Flat")
    new, third = make_embeddings(tmp_path / "e1", after), make_embeddings(tmp_path / "e2", before[9:])
    run_update(index, new)
    with pytest.raises(ArtifactError, match=f"{index.digest} is not its current version"):
        update.begin(f"{index.uri}@{index.digest}", third)
    assert ShardedIndex.open(index.uri, verify=True).facts["added"] > 0


def test_versions_are_named_by_their_digests(before, after, make_embeddings, make_index, tmp_path):
    index = make_index(make_embeddings(tmp_path / "e0", before), tmp_path / "ix", "Flat")
    updated = run_update(index, make_embeddings(tmp_path / "e1", after))
    assert [version.digest for version in Artifact.versions(index.uri)] == [updated.digest, index.digest]
    with pytest.raises(ArtifactError, match=f"has no such version; its versions are {updated.digest[:12]}, "):
        ShardedIndex.open(f"{index.uri}@0000000")


@pytest.mark.parametrize("folder", ["shards", "names", "removed", "concepts"])
def test_a_damaged_or_missing_delta_is_refused(folder, before, after, make_embeddings, make_index, tmp_path):
    index = make_index(make_embeddings(tmp_path / "e0", before), tmp_path / "ix", "IVF16,SQ8")
    updated = run_update(index, make_embeddings(tmp_path / "e1", after))
    file = sorted((Path(updated.uri) / updated.facts["delta"] / folder).iterdir())[0]
    content = file.read_bytes()
    file.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    with pytest.raises(ArtifactError, match=file.name):
        ShardedIndex.open(updated.uri, verify=True)
    file.write_bytes(content[:-9])
    with pytest.raises(ArtifactError, match=f"{file.name}: has"):
        ShardedIndex.open(updated.uri)
    file.unlink()
    with pytest.raises(ArtifactError, match=f"{file.name}: is missing"):
        ShardedIndex.open(updated.uri)
    file.write_bytes(content)
    manifest = Path(updated.uri) / "manifest.json"
    written = json.loads(manifest.read_text())
    written["files"] = [entry for entry in written["files"] if not entry["path"].endswith(f"{folder}/{file.name}")]
    manifest.write_text(json.dumps(written))
    with pytest.raises(ArtifactError, match=r"its manifest is damaged: .* stands for"):
        ShardedIndex.open(updated.uri)
