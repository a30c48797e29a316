from __future__ import annotations

import json
from pathlib import Path

import pytest

from biomodels.errors import RejectRateError, UsageError
from ray_jobs.command import load
from ray_jobs.evaluate import linking

DICTIONARY = "C1||Melanoma\nC1||skin cancer\nC2||Nevus\nC2||mole\nC3||Short Stature\nC3|C4||dwarfism\n"
QUERIES = "C1||melanoma\nC2||birthmark mole\nC3||small stature\nC9||unknown thing\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "d.txt").write_text(DICTIONARY)
    (tmp_path / "q.txt").write_text(QUERIES)
    return {"dictionary": str(tmp_path / "d.txt"), "queries": str(tmp_path / "q.txt"), "out": str(tmp_path / "r.json")}


def test_the_report_is_a_function_of_the_files_and_the_model(files, minilm, capsys):
    report = linking.main(linking.Config(model=minilm, **files))
    first = Path(files["out"]).read_bytes()
    linking.main(linking.Config(model=minilm, **files, num_cpus=1))
    assert Path(files["out"]).read_bytes() == first
    assert json.loads(first) == report
    assert str(Path(files["out"]).parent) not in first.decode()
    assert {(row["metric"], row["unit"], row["n"]) for row in report["results"]} == {
        (metric, unit, 4) for metric in ("cosine", "ip") for unit in ("name", "concept")
    }
    for row in report["results"]:
        assert row["acc"] == {"1": 0.75, "5": 0.75, "10": 0.75}
    assert (report["queries_in_dictionary"], report["queries_without_gold_in_dictionary"]) == (1, 1)
    assert report["dictionary"]["concepts"] == 4
    shown = capsys.readouterr().out
    assert "75.00" in shown
    assert "1 queries are names of the dictionary" in shown


def test_case_matters_only_if_asked(files, minilm):
    kept = linking.main(linking.Config(model=minilm, **files, lowercase=False))
    assert kept["normaliser"] == "nfc-ws"
    assert kept["queries_in_dictionary"] == 0


def test_raw_inner_products_differ_from_cosine(files, tiny_bert):
    report = linking.main(linking.Config(model=tiny_bert, pooling="mean", normalise=False, **files))
    assert report["model"]["normalise"] is False
    assert report["model"]["pooling"] == "mean"


def test_malformed_lines_are_counted_and_written_beside_the_report(files, minilm):
    with Path(files["queries"]).open("ab") as file:
        file.write(b"no separator\nC1||caf\xe9\n")
    with pytest.raises(RejectRateError, match=r"q\.txt:5: 1 fields.*2 of 6 lines"):
        linking.main(linking.Config(model=minilm, **files))
    report = linking.main(linking.Config(model=minilm, max_reject_rate=0.5, **files))
    assert report["queries"]["rejected"] == 2
    rejects = [json.loads(line) for line in Path(files["out"] + ".rejects.jsonl").read_text().splitlines()]
    assert [(reject["line"], reject["content"]) for reject in rejects] == [(5, "no separator"), (6, "C1||caf\\xe9")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ks": "0"}, "--ks"),
        ({"ks": "1,many"}, "--ks"),
        ({"ks": ""}, "--ks"),
        ({"precision": "int3"}, "--precision"),
        ({"max_reject_rate": "2"}, "--max-reject-rate"),
    ],
)
def test_bad_options(files, options, message):
    with pytest.raises(UsageError, match=message):
        load(linking.Config, None, {"model": "m", **files} | options)


def test_depths_are_sorted_and_distinct(files):
    assert load(linking.Config, None, {"model": "m", **files, "ks": "10,1,10"}).ks == (1, 10)


def test_a_directory_is_no_report_file(files, minilm, tmp_path):
    with pytest.raises(UsageError, match="is a directory"):
        linking.main(linking.Config(model=minilm, **files | {"out": str(tmp_path)}))
