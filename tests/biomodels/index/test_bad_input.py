"""What cannot be indexed is refused with its place; what was not finished is never opened."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from biomodels import schemas
from biomodels.artifacts import ArtifactBuilder
from biomodels.errors import ArtifactError, InputError, UsageError, storage_error
from biomodels.index import build, engine, update
from biomodels.index.factory import check_size, new_index
from biomodels.index.manifest import SCHEMA_VERSION
from biomodels.index.sharded import ShardedIndex
from biomodels.inference import parts


@pytest.fixture(scope="module")
def rows(make_row) -> list[dict]:
    return [make_row(f"C{i // 2:04d}", f"name {i}") for i in range(2000)]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_vector_that_is_not_finite(value: float, rows, make_embeddings, make_index, tmp_path: Path) -> None:
    embeddings = make_embeddings(tmp_path / "e", rows)
    entry = embeddings.entry(parts.embeddings_part(3))
    table = embeddings.read_table(entry)
    E_ND = parts.vectors(table["embedding"], 32).astype(np.float16)
    E_ND[5, 7] = value
    copy = ArtifactBuilder.begin(str(tmp_path / "bad"), parts.KIND, config={}, inputs={})
    for file in embeddings.manifest.files:
        content = embeddings.read_table(file)
        if file == entry:
            columns = [table["name_id"], parts.fixed_size_list(E_ND)]
            content = pa.table(columns, schema=schemas.embeddings_schema(32))
        copy.publish_table(file.path, content)
    copy.commit(embeddings.facts)
    with pytest.raises(
        InputError, match=rf"part-00003.parquet: the vector of name_id {table['name_id'][5]} has a value"
    ):
        make_index(type(embeddings).open(copy.uri), tmp_path / "ix")
    with pytest.raises(ArtifactError, match="is unfinished"):
        ShardedIndex.open(str(tmp_path / "ix"))


def test_fewer_vectors_than_lists() -> None:
    with pytest.raises(UsageError, match=r"4096 lists cannot be trained on 2000 vectors; for so many take Flat"):
        check_size(new_index("IVF4096,Flat", 32), "IVF4096,Flat", 2000)


def test_a_codec_that_needs_more_vectors_than_there_are(make_row, make_embeddings, make_index, tmp_path: Path) -> None:
    few = make_embeddings(tmp_path / "e", [make_row("C1", f"name {i}") for i in range(20)])
    with pytest.raises(UsageError, match=r"--factory PCA32,IVF2,PQ8: cannot be trained on 20 of 20 vectors"):
        make_index(few, tmp_path / "ix", "PCA32,IVF2,PQ8")


def test_faiss_files_meet_a_full_disk_as_others_do(tmp_path: Path) -> None:
    """`/dev/full` fails at the last write, which FAISS's own writer does not tell."""
    for rows in (1, 100_000):
        index = new_index("Flat", 32)
        index.add_with_ids(np.ones((rows, 32), np.float32), np.arange(rows))
        with pytest.raises(OSError, match="No space left") as caught:
            engine.write_index(index, "/dev/full")
        assert caught.value.errno == errno.ENOSPC


def test_a_disk_that_fills_up(rows, make_embeddings, make_index, tmp_path: Path, monkeypatch) -> None:
    embeddings = make_embeddings(tmp_path / "e", rows)
    straight = make_index(embeddings, tmp_path / "straight")
    with monkeypatch.context() as patch:
        patch.setattr(build, "write_index", lambda index, _: engine.write_index(index, "/dev/full"))
        with pytest.raises(OSError, match="No space left"):
            make_index(embeddings, tmp_path / "ix")
    assert not list((tmp_path / "ix" / "_work" / "tmp").iterdir())
    with pytest.raises(ArtifactError, match="is unfinished"):
        ShardedIndex.open(str(tmp_path / "ix"))
    assert make_index(embeddings, tmp_path / "ix").digest == straight.digest
    # An update that finds no room leaves the version before as it is.
    changed = make_embeddings(tmp_path / "e2", rows[100:])
    made = update.begin(straight.uri, changed)
    update.write_changes(made, 0)
    with monkeypatch.context() as patch:
        patch.setattr(update, "write_index", lambda index, _: engine.write_index(index, "/dev/full"))
        with pytest.raises(OSError, match="No space left"):
            update.write_vectors(made, 0)
    assert ShardedIndex.open(straight.uri, verify=True).digest == straight.digest


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 200 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(place)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system can be mounted here ({error})")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)  # a lock of the builder is still open


def test_a_small_disk(rows, make_embeddings, make_index, tmp_path: Path, small_disk: Path) -> None:
    embeddings = make_embeddings(tmp_path / "e", rows)
    with pytest.raises(OSError, match="No space left") as caught:
        make_index(embeddings, small_disk / "ix")
    assert "make room and run the same command again" in str(storage_error(caught.value))
    with pytest.raises(ArtifactError, match="is unfinished"):
        ShardedIndex.open(str(small_disk / "ix"))


def test_a_manifest_of_the_schema_before(rows, make_embeddings, make_index, tmp_path: Path) -> None:
    index = make_index(make_embeddings(tmp_path / "e", rows[:50]), tmp_path / "ix", "Flat")
    manifest = Path(index.uri) / "manifest.json"
    text = manifest.read_text().replace(f'"schema_version": {SCHEMA_VERSION}', '"schema_version": 1')
    manifest.write_text(text)
    with pytest.raises(ArtifactError, match=r"schema_version 1, where this version of biomodels reads 2"):
        ShardedIndex.open(index.uri)
