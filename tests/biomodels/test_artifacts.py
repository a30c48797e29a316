"""Artifacts: the manifest is the commit, work is kept, and nothing is mixed."""

import multiprocessing
import os
import pickle
import signal
from pathlib import Path

import pyarrow as pa
import pytest

from biomodels import storage
from biomodels.artifacts import MANIFEST, Artifact, ArtifactBuilder, FileEntry, batches
from biomodels.errors import ArtifactError, UsageError

TABLE = pa.table({"n": pa.array([1, 2, 3], pa.int64())})


def begin(uri: Path, **config) -> ArtifactBuilder:
    return ArtifactBuilder.begin(str(uri), "numbers", config=config, inputs={"source": "abc"})


def make(uri: Path, **config) -> Artifact:
    builder = begin(uri, **config)
    builder.publish_table("part-0.parquet", TABLE)
    builder.commit({"rows": 3}, run={"seconds": 1.5})
    return Artifact.open(str(uri), "numbers")


def content(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != "run.json"
    }


def test_a_finished_artifact_reads_back(tmp_path: Path):
    artifact = make(tmp_path / "a", seed=1)
    assert artifact.read_table(artifact.files()[0]).equals(TABLE)
    assert [batch.num_rows for batch in batches(artifact)] == [3]
    assert artifact.facts == {"rows": 3}
    artifact.verify()
    assert sorted(content(tmp_path / "a")) == [MANIFEST, "part-0.parquet"]


def test_the_same_work_gives_the_same_bytes_and_digest_in_another_place(tmp_path: Path):
    first, second = make(tmp_path / "a", seed=1), make(tmp_path / "b", seed=1)
    assert content(tmp_path / "a") == content(tmp_path / "b")
    assert first.digest == second.digest
    assert make(tmp_path / "c", seed=2).digest != first.digest


def test_an_interrupted_artifact_is_no_data_and_goes_on(tmp_path: Path):
    builder = begin(tmp_path / "a", seed=1)
    builder.publish_table("part-0.parquet", TABLE)
    with pytest.raises(ArtifactError, match="unfinished"):
        Artifact.open(str(tmp_path / "a"))
    del builder
    again = begin(tmp_path / "a", seed=1)
    assert again.kept("part-0.parquet") == again.entries()[0]
    assert again.kept("part-1.parquet") is None
    again.commit({"rows": 3})
    assert content(tmp_path / "a") == content(make(tmp_path / "b", seed=1) and tmp_path / "b")


def test_a_part_that_was_damaged_meanwhile_is_not_kept(tmp_path: Path):
    builder = begin(tmp_path / "a", seed=1)
    builder.publish_table("part-0.parquet", TABLE)
    (tmp_path / "a" / "part-0.parquet").write_bytes(b"something else")
    assert builder.kept("part-0.parquet") is None


def test_a_finished_artifact_is_recognised_and_its_leftovers_removed(tmp_path: Path):
    make(tmp_path / "a", seed=1)
    (tmp_path / "a" / "_work" / "tmp").mkdir(parents=True)
    assert begin(tmp_path / "a", seed=1).finished is not None
    assert not (tmp_path / "a" / "_work").exists()


@pytest.mark.parametrize("finished", [True, False])
def test_another_config_is_refused_with_both_digests(tmp_path: Path, finished: bool):
    if finished:
        make(tmp_path / "a", seed=1)
    else:
        begin(tmp_path / "a", seed=1).publish_table("part-0.parquet", TABLE)
    with pytest.raises(ArtifactError, match=r"[0-9a-f]{32}.*[0-9a-f]{32}.*config\.seed"):
        begin(tmp_path / "a", seed=2)


def test_another_config_may_follow_one_that_finished_nothing(tmp_path: Path):
    builder = begin(tmp_path / "a", seed=1)
    storage.publish_bytes(b"half", builder.work("spill", "0"))
    assert begin(tmp_path / "a", seed=2).entries() == []
    assert not storage.exists(builder.work("spill"))
    with pytest.raises(ArtifactError, match="is being made"):
        begin(tmp_path / "a", seed=2).publish_table("part-0.parquet", TABLE)
        begin(tmp_path / "a", seed=1)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match=r"file/a: cannot be written"):
        begin(tmp_path / "file" / "a")
    with pytest.raises(UsageError, match=r"file/report\.json: cannot be written"):
        storage.publish_bytes(b"", str(tmp_path / "file" / "report.json"))


def test_an_unknown_scheme_is_named():
    with pytest.raises(UsageError, match="s3x://a/b"):
        storage.exists("s3x://a/b")


def test_a_directory_with_other_files_is_refused(tmp_path: Path):
    (tmp_path / "thesis.tex").write_text("do not overwrite")
    with pytest.raises(ArtifactError, match=r"thesis\.tex"):
        begin(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_directory_is_made_by_one_process_at_a_time(tmp_path: Path):
    builder = begin(tmp_path / "a", seed=1)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        outcome = pool.apply(second_maker, (tmp_path / "a",))
    assert "another process" in outcome
    builder.commit({})


def test_a_failed_builder_leaves_its_lock_to_the_next_in_its_process(tmp_path: Path):
    failed = begin(tmp_path / "a", seed=1)
    assert begin(tmp_path / "a", seed=1).identity == failed.identity


def second_maker(uri: Path) -> str:
    try:
        begin(uri, seed=1)
    except ArtifactError as error:
        return str(error)
    return "was let in"


def test_a_builder_travels_to_other_processes(tmp_path: Path):
    builder = begin(tmp_path / "a", seed=1)
    entry = pickle.loads(pickle.dumps(builder)).publish_table("part-0.parquet", TABLE)
    assert builder.entries() == [entry]
    assert isinstance(entry, FileEntry)


def test_a_failed_write_leaves_nothing(tmp_path: Path):
    builder = begin(tmp_path / "a")

    def write(path: str) -> int:
        Path(path).write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        builder.publish("part-0", write)
    assert builder.entries() == []
    assert storage.list_files(builder.work("tmp")) == []


def die_while_publishing(uri: Path, file: str) -> None:
    replace = os.replace

    def killed_at_the_file(source: str, target: str) -> None:
        if str(target).endswith(file):
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)

    os.replace = killed_at_the_file
    make(uri)


def test_a_kill_between_writing_and_naming_a_file_leaves_no_trace(tmp_path: Path):
    undisturbed = make(tmp_path / "undisturbed")
    for file in ("done/part-0.parquet.json", "run.json", "manifest.json"):
        process = multiprocessing.Process(target=die_while_publishing, args=(tmp_path / "killed", file))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert list((tmp_path / "killed").rglob(".*.tmp"))
    killed = make(tmp_path / "killed")
    assert content(tmp_path / "killed") == content(tmp_path / "undisturbed")
    assert killed.digest == undisturbed.digest


@pytest.mark.parametrize("damage", ["", "{}", '{"kind": 3', "[1]"])
def test_a_damaged_manifest_is_named(tmp_path: Path, damage: str):
    make(tmp_path / "a")
    (tmp_path / "a" / MANIFEST).write_text(damage)
    with pytest.raises(ArtifactError, match="manifest"):
        Artifact.open(str(tmp_path / "a"))


def test_a_missing_or_shortened_file_is_named(tmp_path: Path):
    artifact = make(tmp_path / "a")
    (tmp_path / "a" / "part-0.parquet").write_bytes(b"PAR1")
    with pytest.raises(ArtifactError, match="4 bytes"):
        artifact.read_table(artifact.files()[0])
    (tmp_path / "a" / "part-0.parquet").unlink()
    with pytest.raises(ArtifactError, match="missing"):
        artifact.verify()


def test_another_kind_is_refused(tmp_path: Path):
    make(tmp_path / "a")
    with pytest.raises(ArtifactError, match="'numbers' artifact where 'index' is needed"):
        Artifact.open(str(tmp_path / "a"), "index")
