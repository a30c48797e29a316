"""The job on Ray: equal bytes however the work is cut, resume, held-out synonyms, rejects, and every format."""

import random
from pathlib import Path

import pytest

from biomodels import storage
from biomodels.artifacts import Artifact
from biomodels.errors import ArtifactError, InputError, RejectRateError, UsageError
from biomodels.terminology.names import fold
from ray_jobs.command import load, user_error
from ray_jobs.shard import name_parts, pair_parts, source_blocks
from ray_jobs.shard.terminology import Config, main

pytestmark = pytest.mark.ray

CONCEPTS = 400


def rows(seed=0):
    """Lines of a made-up MRCONSO.RRF: homonyms, languages, obsolete and repeated rows, one large concept."""
    rng = random.Random(seed)
    lines = []
    for number in range(CONCEPTS):
        cui = f"C{number:07d}"
        for name in range(60 if number == 0 else 1 + number % 6):
            language = "ENG" if name % 3 == 0 else rng.choice(["ENG", "GER", "FRE"])
            text = f"Common {name}" if rng.random() < 0.1 else f"Name {name} of {number}"
            status = ("P", "PF", "Y") if name == 0 else (rng.choice("PS"), rng.choice(["PF", "VO"]), "N")
            suppress = "O" if rng.random() < 0.05 else "N"
            lines.append(
                f"{cui}|{language}|{status[0]}|L1|{status[1]}|S1|{status[2]}|A1||||SAB{name % 2}|PT|X|{text}"
                f"|0|{suppress}||"
            )
    return lines + lines[:5]


@pytest.fixture(scope="module")
def meta(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("META")
    (folder / "MRCONSO.RRF").write_text("\n".join(rows()) + "\n", encoding="utf-8")
    (folder / "MRSTY.RRF").write_text(
        "".join(f"C{number:07d}|T{number % 7:03d}|A|B|AT||\n" for number in range(CONCEPTS)), encoding="utf-8"
    )
    return folder


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(name_parts, "ROWS_PER_PART", 400)
    monkeypatch.setattr(pair_parts, "ROWS_PER_PART", 500)


def shard(out, **options):
    return main(load(Config, None, {"out": str(out), **{key: str(value) for key, value in options.items()}}))


def bad_input(kind, match, out, **options):
    with pytest.raises(Exception) as caught:  # Ray wraps what a task raises
        shard(out, **options)
    error = user_error(caught.value)
    assert isinstance(error, kind), caught.value
    assert match in str(error)


def table(artifact):
    return [row for entry in artifact.files("part-") for row in artifact.read_table(entry).to_pylist()]


def test_same_bytes_for_other_blocks_and_another_row_order(ray_session, meta, tmp_path, small_parts):
    shuffled = tmp_path / "shuffled.RRF"
    lines = rows()
    random.Random(7).shuffle(lines)
    shuffled.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sty = meta / "MRSTY.RRF"
    one = shard(tmp_path / "one", mrconso=meta / "MRCONSO.RRF", mrsty=sty, hold_out=30, export_dictionary=True)
    two = shard(tmp_path / "two", mrconso=shuffled, mrsty=sty, hold_out=30, export_dictionary=True, block_size=0.01)
    for role in ("names", "pairs", "held_out", "dictionary"):
        assert getattr(one, role).manifest.files == getattr(two, role).manifest.files, role
    assert one.names.facts == two.names.facts
    assert len(one.names.files("part-")) == 4 and len(one.pairs.files("part-")) > 1
    assert not storage.exists(str(tmp_path / "two" / "names" / "_work"))

    names, pairs = table(one.names), table(one.pairs)
    assert len(names) == one.names.facts["names"] and len(pairs) == one.pairs.facts["pairs"]
    concepts = {row["concept_id"] for row in names}
    assert sum(row["preferred"] for row in names) == len(concepts) == one.names.facts["concepts"]
    assert all(row["semantic_types"] == [f"T{int(row['concept_id'][1:]) % 7:03d}"] for row in names)
    removed = one.names.facts["removed"]
    assert one.names.facts["rows"] == {"mrconso": len(lines), "mrsty": CONCEPTS}
    assert len(lines) - removed["suppressed"] - removed["obsolete"] - removed["duplicate"] - removed["held_out"] == len(
        names
    )
    assert removed["obsolete"] > 0 and removed["duplicate"] == 5
    assert max(sum(row["concept_id"] == "C0000000" for row in pairs), 0) == 50

    queries = Path(storage.join(one.held_out.uri, "queries.txt")).read_text(encoding="utf-8").splitlines()
    held_out = {fold(line.split("||")[1]) for line in queries}
    assert queries == sorted(queries) and len(held_out) == len(queries) == 30
    assert {line.split("||")[0] for line in queries} <= concepts
    dictionary = Path(storage.join(one.dictionary.uri, "dictionary.txt")).read_text(encoding="utf-8").splitlines()
    kept = [row["name"] for row in names] + [row[side] for row in pairs for side in ("name_1", "name_2")]
    assert not held_out & {fold(text) for text in kept + [line.split("||")[1] for line in dictionary]}
    assert len(dictionary) == len({(row["concept_id"], row["name_id"]) for row in names})


class KilledError(Exception):
    """Stands for the end of the driver at a chosen moment."""


def interrupted_after(count, original):
    """Wrap a generator function so that it stops after `count` results, counted over all calls."""
    left = iter(range(count - 1, -1, -1))

    def stopping(*args, **options):
        for result in original(*args, **options):
            yield result
            if next(left) == 0:
                raise KilledError

    return stopping


def stamps(folder, pattern):
    return {path: path.stat().st_mtime_ns for path in folder.rglob(pattern)}


def test_interrupted_runs_go_on_and_keep_what_is_finished(ray_session, meta, tmp_path, small_parts, monkeypatch):
    options = {"mrconso": meta / "MRCONSO.RRF", "block_size": 0.02}
    whole = shard(tmp_path / "whole", **options)
    out = tmp_path / "out"
    moments = [
        (source_blocks, "fan_out_streams", 2, "0-*.json"),
        (name_parts, "fan_out", 1, "names/part-*.parquet"),
        (pair_parts, "fan_out", 1, "finished.json"),
        (pair_parts, "fan_out", 2, "pairs/part-*.parquet"),
    ]
    done = {}
    for module, function, count, files in moments:
        if files == "finished.json":  # else the tasks that made the names have chosen all pairs
            lost = sorted(out.glob("pairs/_work/spill/*/finished.json"))[0]
            lost.unlink()
        with monkeypatch.context() as patch, pytest.raises(KilledError):
            patch.setattr(module, function, interrupted_after(count, getattr(module, function)))
            shard(out, **options)
        assert done.items() <= stamps(out, "*").items()  # what an earlier run finished was not made again
        done = stamps(out, files)
        assert done
    result = shard(out, **options)
    assert done.items() <= stamps(out, "*").items()
    assert result.names.manifest == whole.names.manifest and result.pairs.manifest == whole.pairs.manifest
    result.names.verify()
    result.pairs.verify()
    before = stamps(out, "*.parquet")
    assert shard(out, **options).pairs.digest == whole.pairs.digest
    assert stamps(out, "*.parquet") == before
    bad_input(ArtifactError, "config.languages", out, **options, languages="ENG")


def test_rejects_are_published_with_file_line_and_reason(ray_session, meta, tmp_path):
    lines = rows()
    lines[100] = lines[100].replace("|PT|", "|PT|extra|")
    lines[700] = lines[700].replace("Name", "").split("|0|")[0]
    path = tmp_path / "bad.RRF"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = shard(tmp_path / "out", mrconso=path, block_size=0.01)
    rejects = result.names.read_table(result.names.files("rejects/")[0]).to_pylist()
    assert [(row["file"], row["line"]) for row in rejects] == [("bad.RRF", 101), ("bad.RRF", 701)]
    assert result.names.facts["rejects"] == 2
    assert "19 columns" in rejects[0]["reason"] and rejects[0]["content"] == lines[100][:200]
    bad_input(RejectRateError, "2 of ", tmp_path / "strict", mrconso=path, max_reject_rate=0.001)
    bad_input(RejectRateError, "bad.RRF:101", tmp_path / "strict", mrconso=path, max_reject_rate=0.001)


def test_obo_and_tsv(ray_session, tmp_path):
    obo = tmp_path / "x.obo"
    obo.write_text(
        'ontology: x\n\n[Term]\nid: X:1\nname: First\nsynonym: "Eins" EXACT []\nsynonym: "Odd" BROAD []\n\n'
        "[Term]\nid: X:2\nname: Gone\nis_obsolete: true\n",
        encoding="utf-8",
    )
    result = shard(tmp_path / "obo", obo=obo, term_types="LABEL,EXACT")
    assert [(row["concept_id"], row["name"], row["preferred"]) for row in table(result.names)] == [
        ("X:1", "Eins", False),
        ("X:1", "First", True),
    ]
    assert {row["name_1"] for row in table(result.pairs)} | {row["name_2"] for row in table(result.pairs)} == {
        "eins",
        "first",
    }
    tsv = tmp_path / "x.tsv"
    tsv.write_text("concept_id\tname\tsemantic_types\nA\tx\tT1\nA\ty\tT2|T1\nB\tz\t\n", encoding="utf-8")
    result = shard(tmp_path / "tsv", tsv=tsv)
    assert [row["semantic_types"] for row in table(result.names)] == [["T1", "T2"], ["T1", "T2"], []]
    assert len(table(result.pairs)) == 1


def test_bad_input(ray_session, meta, tmp_path):
    empty = tmp_path / "empty.obo"
    empty.write_text("[Typedef]\nid: part_of\n", encoding="utf-8")
    conso = meta / "MRCONSO.RRF"
    bad_input(InputError, "holds no usable row", tmp_path / "a", obo=empty)
    bad_input(InputError, "no name passes the filters", tmp_path / "b", mrconso=conso, languages="SPA")
    bad_input(UsageError, "only", tmp_path / "c", mrconso=conso, hold_out=100_000)
    bad_input(InputError, "check --mrconso", tmp_path / "d", mrconso=tmp_path / "none")
    bad_input(UsageError, "exactly one of --mrconso, --obo, --tsv", tmp_path / "e")
    bad_input(UsageError, "exactly one of", tmp_path / "f", mrconso=conso, obo=empty)
    bad_input(UsageError, "--mrsty goes with --mrconso", tmp_path / "g", obo=empty, mrsty=conso)
    bad_input(UsageError, "--languages", tmp_path / "h", mrconso=conso, languages="english")
    damaged = tmp_path / "cut.gz"
    damaged.write_bytes(b"\x1f\x8b\x08\x00garbage")
    bad_input(InputError, "damaged gzip", tmp_path / "i", mrconso=damaged)


def test_real_sample(ray_session, shared_data, tmp_path):
    sample = shared_data / "terminology" / "sample"
    result = shard(tmp_path, mrconso=sample / "MRCONSO.RRF", mrsty=sample / "MRSTY.RRF", languages="ENG,GER")
    assert result.names.facts["concepts"] == 2000 and set(result.names.facts["languages"]) == {"en", "de"}
    assert Artifact.open(str(tmp_path / "pairs"), "pairs").facts["pairs"] > 20_000
