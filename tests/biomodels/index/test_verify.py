from __future__ import annotations

import json
from pathlib import Path

import faiss
import numpy as np
import pyarrow as pa
import pytest

from biomodels.artifacts import Artifact
from biomodels.errors import ArtifactError
from biomodels.index import codes, verify
from biomodels.index.names import write_arrow
from biomodels.schemas import NAMES


def rewrite_file(path: Path, change) -> None:
    """Change a FAISS file in a way that leaves it readable."""
    index = faiss.read_index(str(path))
    change(faiss.try_extract_index_ivf(index), index)
    faiss.write_index(index, str(path))


@pytest.fixture
def home(tmp_path, make_row, make_embeddings, make_index) -> Path:
    rows = [make_row(f"C{i // 2:03d}", f"name {i}") for i in range(800)]
    make_index(make_embeddings(tmp_path / "e", rows), tmp_path / "ix", "IVF16,SQ8", shards=2)
    return tmp_path / "ix"


def forged(home: Path) -> str:
    """Let the manifest agree with the files as they are now: what a writer at fault would leave."""
    from biomodels import storage

    manifest = json.loads((home / "manifest.json").read_text())
    for entry in manifest["files"]:
        path = home / entry["path"]
        entry |= {"bytes": path.stat().st_size, "sha256": storage.sha256(str(path))}
    (home / "manifest.json").write_text(json.dumps(manifest))
    return str(home)


@pytest.mark.parametrize("factory", ["Flat", "IVF16,Flat", "IVF16,PQ8x4", "IVF16,RaBitQ", "PCA16,IVF16,SQ8"])
@pytest.mark.parametrize("metric", ["cosine", "ip"])
def test_every_vector_finds_itself(factory, metric, tmp_path, make_row, make_embeddings, make_index) -> None:
    rows = [make_row(f"C{i // 2:03d}", f"name {i}") for i in range(800)]
    index = make_index(make_embeddings(tmp_path / "e", rows), tmp_path / "ix", factory, shards=2, metric=metric)
    artifact = Artifact.open(index.uri)
    assert all(verify.check_file(artifact, entry) == entry.bytes for entry in artifact.manifest.files)
    counts = [verify.check_shard(index.uri, shard) for shard in range(2)]
    verify.check_counts(index.uri, {key: counts[0][key] + counts[1][key] for key in counts[0]})
    blocks = [block for shard in range(2) for block in verify.find_themselves(index.uri, shard, 1.0)]
    assert sum(many for many, _ in blocks) == 800
    share = sum(many for shard in range(2) for many, _ in verify.find_themselves(index.uri, shard, 0.25))
    assert 120 < share < 280


def test_a_vector_in_the_place_of_another_is_found(tmp_path, make_row, make_embeddings, make_index) -> None:
    rows = [make_row(f"C{i // 2:03d}", f"name {i}") for i in range(800)]
    home = Path(make_index(make_embeddings(tmp_path / "e", rows), tmp_path / "ix", "IVF16,Flat", shards=2).uri)

    def misplace(ivf, index) -> None:
        """Put a copy of a vector into the list that is farthest from its own."""
        C_LD = ivf.quantizer.reconstruct_n(0, ivf.nlist)
        here = next(number for number in range(ivf.nlist) if ivf.invlists.list_size(number))
        order = np.argsort(C_LD @ C_LD[here])
        there = next(number for number in order.tolist() if ivf.invlists.list_size(number))
        views = [faiss.rev_swig_ptr(ivf.invlists.get_codes(number), ivf.code_size) for number in (here, there)]
        views[1][:] = views[0]

    before = [late for _, late in verify.find_themselves(str(home), 0, 1.0)]
    rewrite_file(home / "shards/shard-000.faiss", misplace)
    # It still finds itself, but only when all lists are visited: its list is not one of those near to it.
    after = [late for _, late in verify.find_themselves(forged(home), 0, 1.0)]
    assert sum(after) > sum(before)


def test_an_id_of_no_name_is_found(home: Path) -> None:
    def rename(ivf, index) -> None:
        number = max(range(16), key=ivf.invlists.list_size)
        faiss.rev_swig_ptr(ivf.invlists.get_ids(number), 1)[0] += 1

    rewrite_file(home / "shards/shard-000.faiss", rename)
    with pytest.raises(ArtifactError, match="shard 0: the vectors are not those of the names"):
        verify.check_shard(forged(home), 0)


def test_a_shard_of_another_place_is_found(home: Path) -> None:
    for kind, suffix in (("shards", "faiss"), ("names", "arrow")):
        (home / kind / f"shard-000.{suffix}").write_bytes((home / kind / f"shard-001.{suffix}").read_bytes())
    with pytest.raises(ArtifactError, match="shard 0: ids of the base come twice or belong to another shard"):
        verify.check_shard(forged(home), 0)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [("name", "other", "'other' has the id of another name"), ("concept_id", "C999", "names of concepts that have no")],
)
def test_a_row_that_does_not_fit_is_found(home: Path, column: str, value: str, message: str) -> None:
    file = home / "names/shard-000.arrow"
    table = pa.ipc.open_file(file.read_bytes()).read_all()
    values = table[column].to_pylist()
    values[3] = value
    table = table.set_column(NAMES.get_field_index(column), column, pa.array(values))
    write_arrow(str(file), NAMES, [table.cast(NAMES)])
    with pytest.raises(ArtifactError, match=message):
        verify.check_shard(forged(home), 0)


def test_counts_that_differ_are_found(home: Path) -> None:
    verify.check_counts(str(home), {"strings": 800, "names": 800})
    with pytest.raises(ArtifactError, match="has 799 names, but its manifest says 800"):
        verify.check_counts(str(home), {"strings": 800, "names": 799})


def test_vectors_are_decoded_as_faiss_decodes_them(home: Path) -> None:
    index = faiss.read_index(str(home / "shards/shard-000.faiss"))
    exact = np.empty(index.d, np.float32)
    for rows in codes.stored(index):
        decoded = codes.decoded(index, rows)
        for offset in range(len(rows.ids)):
            index.reconstruct_from_offset(rows.number, offset, faiss.swig_ptr(exact))
            assert np.array_equal(exact, decoded[offset])
