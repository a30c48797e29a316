from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from biomodels.errors import InputError, UsageError
from ray_jobs.command import load
from ray_jobs.evaluate import linking
from ray_jobs.evaluate.benchmark import labelled

NAMES = "D1||malignant melanoma\nD1||skin cancer\nD2||nevus\nD2||mole\nD3||short stature\nD3||dwarfism\nD4||seizure\n"
FILES = {
    "processed_test/1.concept": "1||0|8||D||melanoma||D1\n1||9|13||D||birthmark mole||D2\n"
    "1||14|18||D||dwarfs|moles||D3|D2\n",
    "processed_test/2.concept": "2||0|8||D||melanoma||D1\n2||0|8||D||small stature||D3\n2||0|8||D||fits||D7\n",
    "processed_train/3.concept": "3||0|8||D||melanoma||D1\n3||0|8||D||fits||D4\n",
    "train_dictionary.txt": NAMES,
    "test_dictionary.txt": NAMES + "D1||melanoma\nD4||fits\n",
}


@pytest.fixture
def folder(tmp_path):
    for name, content in FILES.items():
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return str(tmp_path / "data")


def config(folder, tmp_path, **options):
    return linking.Config(
        benchmark="ncbi-disease", data=folder, out=str(tmp_path / "out/report.json"), resamples=50, **options
    )


def test_a_report_has_one_entry_for_each_part_mode_and_system(folder, tmp_path, minilm, capsys):
    options = {"model": f"small={minilm}", "work": str(tmp_path / "work"), "save_mentions": str(tmp_path / "m")}
    report = linking.main(config(folder, tmp_path, **options))
    first = (tmp_path / "out/report.json").read_bytes()
    page = (tmp_path / "out/report.html").read_bytes()
    entries = {(e["mode"], e["system"]): e for e in report["entries"]}
    assert list(entries) == [
        ("reference", "exact match"),
        ("reference", "TF-IDF"),
        ("reference", "small"),
        ("reference", "small, cosine"),
        ("reference", "TF-IDF + small"),
        ("fair", "exact match"),
        ("fair", "TF-IDF"),
        ("fair", "small"),
        ("fair", "TF-IDF + small"),
    ]
    assert len(entries) == len(report["entries"])
    exact, exact_fair = entries["reference", "exact match"], entries["fair", "exact match"]
    assert (exact["n"], exact["acc@1"]) == (6, pytest.approx(2 / 6))
    assert (exact_fair["n"], exact_fair["acc@1"]) == (5, 0.0)
    assert exact_fair["unseen"]["n"] == 3
    assert entries["fair", "small"]["acc@5"] >= 0.6
    assert entries["fair", "small"]["model"] == report["models"]["small"]["digest"]
    assert exact["model"] is None
    for entry in report["entries"]:
        assert {"benchmark", "part", "mode", "system", "acc@1", "acc@5", "n", "ci95", "model", "data"} <= entry.keys()
        assert 0 <= entry["ci95"][0] <= entry["acc@1"] <= entry["ci95"][1] <= 1
    assert exact["data"] != exact_fair["data"]
    pairs = {(c["mode"], c["first"], c["second"]) for c in report["comparisons"]}
    assert len(pairs) == 5 * 4 // 2 + 4 * 3 // 2
    assert json.loads(first) == report
    assert str(tmp_path) not in first.decode() + page.decode()
    assert page.decode().count("<svg") == 2
    assert "http" not in page.decode().replace("http://www.w3.org", "").replace("https://www.w3.org", "")
    assert pq.read_table(tmp_path / "m/ncbi-disease.test.parquet").num_rows == 6
    shown = capsys.readouterr().out
    assert "TF-IDF + small" in shown
    assert "1 of 6 queries have no gold" in shown

    linking.main(config(folder, tmp_path, **options))  # with the vectors that are kept
    assert (tmp_path / "out/report.json").read_bytes() == first
    assert (tmp_path / "out/report.html").read_bytes() == page


def test_several_poolings_and_no_model(folder, tmp_path, minilm):
    report = linking.main(config(folder, tmp_path, model=minilm, pooling="cls,mean", mode="fair", mixture=0))
    assert [e["system"] for e in report["entries"]] == ["exact match", "TF-IDF", "model cls", "model mean"]
    assert {m["pooling"] for m in report["models"].values()} == {"cls", "mean"}
    assert {m["max_length"] for m in report["models"].values()} == {25}
    baselines = linking.main(config(folder, tmp_path, mode="fair"))
    assert [e["system"] for e in baselines["entries"]] == ["exact match", "TF-IDF"]


def test_several_parts_have_a_mean(tmp_path, capsys):
    data = tmp_path / "data"
    data.mkdir()
    (data / "dictionary.txt").write_text("A||alpha\nB||beta\n")
    (data / "de.txt").write_text("A||alpha\nB||beta\nA||beta\nB||alpha\n")
    (data / "fr.txt").write_text("A||alpha\n")
    report = linking.main(
        linking.Config(benchmark="xl-bel", data=str(data), out=str(tmp_path / "r.json"), mode="reference", resamples=50)
    )
    exact = {e["part"]: e for e in report["entries"] if e["system"] == "exact match"}
    assert {part: e["acc@1"] for part, e in exact.items()} == {"de": 0.5, "fr": 1.0, "mean": 0.75}
    assert exact["fr"]["saturated"] == "string equality alone finds 100.0%"
    assert exact["de"]["saturated"] is None
    shown = capsys.readouterr().out
    assert shown.count("exact match") == 1
    assert "75.0" in shown
    assert (tmp_path / "r.html").read_text().count("<svg") == 2


COMETA = "ID\tTerm\tGeneral SNOMED ID\tExample\n"
MEDMENTIONS = (
    "1|t|Heart attack\n1|a|Rash.\n1\t0\t12\tHeart attack\tT047\tUMLS:C1\n1\t13\t17\tRash\tT184\tUMLS:C2\n\n"
    "2|t|Rash\n2|a|\n2\t0\t4\tRash\tT184\tUMLS:C2\n"
)


@pytest.mark.parametrize(
    ("benchmark", "files", "counts"),
    [
        (
            "cometa",
            {
                "splits/stratified_general/test.csv": COMETA
                + "1\theart attack\tC1\tx\n2\tRash\tC2\tx\n3\trash\tC2\tx\n",
                "splits/zeroshot_general/test.csv": COMETA + "4\texanthema\tC2\tx\n",
                "COMETA_id_sf_dictionary.txt": "C1||heart attack\nC2||rash\n",
            },
            {
                ("stratified_general", "reference"): (3, 2 / 3),
                ("stratified_general", "fair"): (2, 1.0),
                ("zeroshot_general", "reference"): (1, 0.0),
                ("zeroshot_general", "fair"): (1, 0.0),
                ("mean", "reference"): (4, 1 / 3),
                ("mean", "fair"): (3, 0.5),
            },
        ),
        (
            "medmentions",
            {
                "corpus_pubtator.txt": MEDMENTIONS,
                "corpus_pubtator_pmids_test.txt": "1\n2\n",
                "umls_dictionary.txt": "C1||heart attack\nC2||exanthema\n",
            },
            {("test", "reference"): (3, 1 / 3), ("test", "fair"): (2, 0.5)},
        ),
        (
            "askapatient",
            {f"AskAPatient.fold-{n}.test.txt": "C1\tHeadache\theadache\nC2\tRash\tspots\n" for n in range(3)},
            {
                (part, mode): (6 if part == "mean" else 2, 0.5)
                for part in ("fold-0", "fold-1", "fold-2", "mean")
                for mode in ("reference", "fair")
            },
        ),
    ],
)
def test_every_shape_of_benchmark_is_counted(tmp_path, benchmark, files, counts):
    for name, content in files.items():
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    report = linking.main(
        linking.Config(benchmark=benchmark, data=str(tmp_path / "data"), out=str(tmp_path / "r.json"), resamples=20)
    )
    exact = {(e["part"], e["mode"]): e for e in report["entries"] if e["system"] == "exact match"}
    assert {key: (e["n"], e["acc@1"]) for key, e in exact.items()} == {
        key: (n, pytest.approx(share)) for key, (n, share) in counts.items()
    }


def test_fair_needs_a_dictionary_without_training_mentions(folder, tmp_path):
    Path(folder, "train_dictionary.txt").unlink()
    with pytest.raises(InputError, match="no train_dictionary"):
        linking.main(config(folder, tmp_path))
    report = linking.main(config(folder, tmp_path, mode="reference"))
    assert {e["mode"] for e in report["entries"]} == {"reference"}


def test_malformed_lines_go_beside_the_report(folder, tmp_path):
    with Path(folder, "train_dictionary.txt").open("a") as file:
        file.write("no separator\n")
    report = linking.main(config(folder, tmp_path, max_reject_rate=0.2))
    assert report["rejected"] == 1
    assert "no separator" in (tmp_path / "out/report.json.rejects.jsonl").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"benchmark": "ncbi"}, "--benchmark"),
        ({"benchmark": "custom"}, "--benchmark needs --data"),
        ({"benchmark": "custom", "data": "d", "queries": "q"}, "without --benchmark"),
        ({"dictionary": "d"}, "give --benchmark and --data"),
        ({"dictionary": "d", "queries": "q", "model": "a,b"}, "with one --model"),
        ({"benchmark": "custom", "data": "d", "pooling": "max"}, "--pooling"),
        ({"benchmark": "custom", "data": "d", "mixture": "2"}, "--mixture"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(UsageError, match=message):
        load(linking.Config, None, {"model": "m", "out": "o"} | options)


def test_models_are_told_apart():
    assert [m.label for m in labelled(["a=/x/model", "/y/model/", "org/name"], [])] == ["a", "model", "name"]
    assert [m.label for m in labelled(["m"], ["cls", "mean"])] == ["m cls", "m mean"]
    with pytest.raises(UsageError, match="two models would be called 'model'"):
        labelled(["/x/model", "/y/model"], [])


@pytest.mark.ray
def test_a_large_dictionary_is_searched_by_an_index(folder, tmp_path, minilm, ray_session):
    options = {"model": f"small={minilm}", "mixture": 0, "mode": "reference"}
    exact = linking.main(config(folder, tmp_path, **options))
    indexed = linking.main(config(folder, tmp_path, exact_limit=3, work=str(tmp_path / "work"), **options))
    for one, other in zip(exact["entries"], indexed["entries"], strict=True):
        assert one["curve"] == other["curve"], one["system"]
    assert "more than --exact-limit" in indexed["notes"][0]
