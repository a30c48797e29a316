"""The job `shard sentences` on small files, and on the shared corpora."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from biomodels.artifacts import Artifact, ArtifactBuilder
from biomodels.errors import InputError, RejectRateError, UsageError
from ray_jobs.command import load
from ray_jobs.shard import sentences
from ray_jobs.shard.sentences import Config

pytestmark = pytest.mark.ray


def table(uri):
    artifact = Artifact.open(str(uri), "sentences")
    return [
        (row["sentence_1"], row["sentence_2"], tuple(row["hard_negatives"]))
        for entry in artifact.files("part-")
        for row in artifact.read_table(entry).to_pylist()
    ]


def content(uri):
    return {path.name: path.read_bytes() for path in Path(uri).rglob("*") if path.is_file() and path.name != "run.json"}


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"sentence number {i % 900} of many\n\n" for i in range(1000)))
    return path


def test_bytes_do_not_depend_on_pieces_or_order_of_files(ray_session, lines, tmp_path, monkeypatch, capsys):
    other = tmp_path / "other.txt"
    other.write_text("one more sentence\nsentence number 3 of many\n")
    made = []
    for name, size, files in (("a", 32, (lines, other)), ("b", 0.002, (other, lines))):
        sentences.main(Config(files=tuple(map(str, files)), out=str(tmp_path / name), block_size=size))
        made.append(content(tmp_path / name))
    assert made[0] == made[1]
    found = table(tmp_path / "a")
    assert sorted(found) == sorted(
        [(f"sentence number {i} of many", None, ()) for i in range(900)] + [("one more sentence", None, ())]
    )
    assert [row[0] for row in found] != sorted(row[0] for row in found)
    facts = Artifact.open(str(tmp_path / "a")).facts
    assert (facts["examples"], facts["duplicates"], facts["read"], facts["columns"]) == (901, 101, 1002, 1)
    assert "901   single sentences" in capsys.readouterr().out
    sentences.main(Config(files=(str(lines),), out=str(tmp_path / "c"), keep_duplicates=True))
    assert len(table(tmp_path / "c")) == 1000


def test_a_sample_is_the_same_however_it_is_read(ray_session, lines, tmp_path):
    found = {}
    for name, size in (("a", 32), ("b", 0.002)):
        sentences.main(Config(files=(str(lines),), out=str(tmp_path / name), block_size=size, sample=37, seed=5))
        found[name] = table(tmp_path / name)
    assert found["a"] == found["b"]
    assert len(set(found["a"])) == 37
    sentences.main(Config(files=(str(lines),), out=str(tmp_path / "all"), seed=5))
    assert table(tmp_path / "all")[:37] == found["a"]
    sentences.main(Config(files=(str(lines),), out=str(tmp_path / "more"), sample=5000))
    assert len(table(tmp_path / "more")) == 900


def test_a_job_that_fails_late_goes_on_where_it_stopped(ray_session, lines, tmp_path, monkeypatch):
    config = Config(files=(str(lines),), out=str(tmp_path / "a"), block_size=0.005)
    sentences.main(config)
    expected = content(tmp_path / "a")
    config = config.model_copy(update={"out": str(tmp_path / "b")})

    def killed(self, facts, *, run=None):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(ArtifactBuilder, "commit", killed)
        sentences.main(config)
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "b" / "_work" / "read").iterdir()}
    assert len(kept) > 3
    sentences.main(config)
    assert content(tmp_path / "b") == expected


def test_nli_files_become_triples(ray_session, tmp_path):
    rows = []
    for i in range(60):
        for label, hypothesis in (("entailment", "e"), ("contradiction", "c"), ("neutral", "n"), ("-", "x")):
            rows.append({"gold_label": label, "sentence1": f"premise {i}", "sentence2": f"{hypothesis} {i}"})
    first, second = tmp_path / "snli.jsonl", tmp_path / "mnli.jsonl"
    first.write_text("\n".join(map(json.dumps, rows[:101])))
    second.write_text("\n".join(map(json.dumps, rows[101:])))
    artifact = sentences.main(Config(files=(str(first), str(second)), out=str(tmp_path / "nli"), block_size=0.003))
    assert sorted(table(tmp_path / "nli")) == sorted((f"premise {i}", f"e {i}", (f"c {i}",)) for i in range(60))
    assert artifact.facts["without_gold_label"] == 60
    assert artifact.facts["premises_without_triple"] == 0


def test_malformed_rows_are_rejected_with_file_and_line(ray_session, tmp_path, lines):
    bad = tmp_path / "bad.csv"
    bad.write_text("sent0,sent1\n" + "a b,c d\n" * 3 + "\nragged\n" + "e f,g h\n")
    config = Config(files=(str(bad),), out=str(tmp_path / "out"))
    with pytest.raises(RejectRateError, match=r"bad\.csv:6: has 1 column where 2 are needed"):
        sentences.main(config)
    artifact = sentences.main(config.model_copy(update={"max_reject_rate": 0.5}))
    assert sorted(table(tmp_path / "out")) == [("a b", "c d", ()), ("e f", "g h", ())]
    (reject,) = artifact.read_table(artifact.entry("rejects/rejects.parquet")).to_pylist()
    assert reject == {"file": "bad.csv", "line": 6, "reason": "has 1 column where 2 are needed", "content": "ragged"}

    content = lines.read_bytes().replace(b"number 700", b"num\xe9er 700", 1)
    lines.write_bytes(content)
    artifact = sentences.main(Config(files=(str(lines),), out=str(tmp_path / "cut"), block_size=0.003))
    (reject,) = artifact.read_table(artifact.entry("rejects/rejects.parquet")).to_pylist()
    assert (reject["line"], reject["reason"]) == (1401, "is not UTF-8")

    with pytest.raises(InputError, match=r"bad\.csv: has 2 sentences in a row, but .*lines\.txt has 1"):
        sentences.main(Config(files=(str(bad), str(lines)), out=str(tmp_path / "mixed"), max_reject_rate=0.5))


def test_bad_options(tmp_path):
    for options, message in [
        ({}, "--files is required"),
        ({"files": ["a"], "sample": "0"}, "--sample"),
        ({"files": ["a"], "format": "xml"}, "--format"),
    ]:
        with pytest.raises(UsageError, match=message):
            load(Config, None, {"out": str(tmp_path), **options})


def test_the_shared_corpora(ray_session, shared_data, tmp_path):
    data = shared_data / "sentences"
    nli = sentences.main(Config(files=(str(data / "nli" / "snli_devtest_for_simcse.csv"),), out=str(tmp_path / "nli")))
    assert (nli.facts["read"], nli.facts["rejects"], nli.facts["columns"]) == (6339, 0, 3)
    text = sentences.main(
        Config(files=(str(data / "unlabelled" / "biomed_unlabeled.txt"),), out=str(tmp_path / "text"))
    )
    assert (text.facts["read"], text.facts["rejects"], text.facts["columns"]) == (9919, 0, 1)
    assert text.facts["examples"] + text.facts["duplicates"] == 9919
