"""The job `evaluate sentences`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from biomodels.errors import InputError, UsageError
from biomodels.inference.text_encoder import TextEncoder
from biomodels.sentences.benchmarks import STS_PARTS
from ray_jobs.command import load
from ray_jobs.evaluate import sentences
from ray_jobs.evaluate.sentences import Config

SUBJECTS = ["man", "woman", "dog", "panda", "child"]
VERBS = ["runs", "sleeps", "eats rice", "plays the violin"]
TEXTS = [f"a {subject} {verb}" for subject in SUBJECTS for verb in VERBS]


@pytest.fixture
def data(tmp_path) -> Path:
    """STS12 in SentEval's layout, STS-B, TREC and MRPC, all small."""
    root = tmp_path / "data"
    year = root / "downstream" / "STS" / "STS12-en-test"
    year.mkdir(parents=True)
    for shift, part in enumerate(STS_PARTS["STS12"], start=2):
        pairs = [(TEXTS[i], TEXTS[(i * shift) % 20]) for i in range(20)]
        (year / f"STS.input.{part}.txt").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
        (year / f"STS.gs.{part}.txt").write_text("".join(f"{(i * 7) % 6}\n" for i in range(20)))
    (root / "STSBenchmark").mkdir()
    rows = "".join(f"g\tf\ty\t{i}\t{(i * 3) % 6}\t{TEXTS[i]}\t{TEXTS[(i * 3) % 20]}\n" for i in range(20))
    for split in ("dev", "test"):
        (root / "STSBenchmark" / f"sts-{split}.csv").write_text(rows)
    (root / "TREC").mkdir()
    for name in ("train_5500.label", "TREC_10.label"):
        (root / "TREC" / name).write_text(
            "".join(f"{'HUM' if i % 2 else 'NUM'}:x {text} ?\n" for i, text in enumerate(TEXTS))
        )
    return root


def test_sts_is_scipys_spearman_over_all_subsets(data, minilm, tmp_path, capsys):
    out = tmp_path / "report.json"
    report = sentences.main(Config(model=minilm, data=str(data), out=str(out)))
    assert json.loads(out.read_text()) == report
    encoder = TextEncoder(minilm)
    scores, gold = [], []
    for part in STS_PARTS["STS12"]:
        folder = data / "downstream" / "STS" / "STS12-en-test"
        pairs = [line.split("\t") for line in (folder / f"STS.input.{part}.txt").read_text().splitlines()]
        E_ND, F_ND = (encoder.encode([pair[i] for pair in pairs]).astype(np.float64) for i in (0, 1))
        scores += [round(a @ b / np.sqrt((a @ a) * (b @ b)), 12) for a, b in zip(E_ND, F_ND, strict=True)]
        gold += [float(line) for line in (folder / f"STS.gs.{part}.txt").read_text().split()]
    result = report["results"]["STS12"]
    assert result["all"]["spearman"] == pytest.approx(spearmanr(scores, gold)[0], abs=1e-12)
    low, high = result["interval"]
    assert low < result["score"] == 100 * result["all"]["spearman"] < high
    assert report["results"]["STS13"]["kind"] == "n/a"
    assert report["averages"]["sts"]["over"] == ["STS12", "STSBenchmark"]
    both = [report["results"][task]["score"] for task in ("STS12", "STSBenchmark")]
    assert report["averages"]["sts"]["score"] == pytest.approx(sum(both) / 2)
    shown = capsys.readouterr()
    assert "| STS12 | STS13 | STS14 | STS15 | STS16 | STSBenchmark | SICKRelatedness |" in " ".join(shown.out.split())
    row = shown.out.splitlines()[4]
    assert [cell.strip() for cell in row.split("|")[2:6]] == ["n/a"] * 4
    assert "0.00" not in row and "n/a: STS13, STS14, STS15, STS16, SICKRelatedness" in shown.out
    assert "STSBenchmark test has 20 rows where the published file has 1,379" in shown.err
    assert str(tmp_path) not in out.read_text()


def test_dev_mode_has_no_years_and_fits_fast(data, minilm, tmp_path):
    options = {"model": minilm, "data": str(data), "out": str(tmp_path / "r.json"), "mode": "dev", "resamples": 0}
    report = sentences.main(Config(**options, tasks=("TREC", "STSBenchmark", "STS12")))
    assert list(report["results"]) == ["STS12", "STSBenchmark", "TREC"]
    assert report["results"]["STS12"] == {"kind": "n/a", "reason": "it has no development set"}
    trec = report["results"]["TREC"]
    assert trec["score"] == trec["dev"] and 0 < trec["test"] <= 100
    assert "interval" not in report["results"]["STSBenchmark"]


def test_the_pooler_changes_the_vectors_and_is_reported(data, tiny_bert, minilm, tmp_path):
    found = {}
    for pooler in ("cls", "avg_first_last"):
        report = sentences.main(
            Config(model=minilm, data=str(data), out=str(tmp_path / pooler), tasks=("STSBenchmark",), pooler=pooler)
        )
        found[report["model"]["pooling"]] = report["results"]["STSBenchmark"]["all"]["pearson"]
    assert set(found) == {"pooler", "mean_first_last"} and len(set(found.values())) == 2
    with pytest.raises(InputError, match="has no trained pooler"):
        sentences.main(Config(model=tiny_bert, data=str(data), out=str(tmp_path / "r"), tasks=("STSBenchmark",)))


def test_a_model_whose_vectors_are_nan_is_refused(data, minilm, tmp_path, monkeypatch):
    monkeypatch.setattr(TextEncoder, "encode", lambda self, texts: np.full((len(texts), 4), np.nan))
    with pytest.raises(InputError, match="is not finite"):
        sentences.main(Config(model=minilm, data=str(data), out=str(tmp_path / "r.json")))


def test_bad_options(data, tmp_path, minilm):
    for options, message in [
        ({}, "exactly one of --model, --baseline"),
        ({"model": "m", "baseline": "tf-idf"}, "exactly one of"),
        ({"model": "m", "task_set": "na"}, "--task-set na needs --tasks"),
        ({"model": "m", "task_set": "sts", "tasks": "MR"}, "--tasks goes with --task-set na"),
        ({"model": "m", "tasks": "STS17"}, "there is no 'STS17'; there are STS12"),
        ({"model": "m", "pooler": "max"}, "--pooler"),
    ]:
        with pytest.raises(UsageError, match=message):
            load(Config, None, {"data": str(data), "out": str(tmp_path / "r.json"), **options})
    with pytest.raises(InputError, match="is no directory"):
        sentences.main(Config(baseline="tf-idf", data=str(data / "missing"), out=str(tmp_path / "r.json")))
    with pytest.raises(UsageError, match="is a directory"):
        sentences.main(Config(baseline="tf-idf", data=str(data), out=str(tmp_path)))


def test_tfidf_on_the_shared_benchmarks(shared_data, tmp_path):
    expected = {"STS12": 56.5, "STS13": 70.0, "STSBenchmark": 69.7, "SICKRelatedness": 58.9, "BIOSSES": 79.0}
    report = sentences.main(
        Config(
            baseline="tf-idf",
            data=str(shared_data / "sentences"),
            out=str(tmp_path / "r.json"),
            tasks=(*expected, "negation", "antonym", "MR"),
            resamples=0,
        )
    )
    for task, score in expected.items():
        assert report["results"][task]["score"] == pytest.approx(score, abs=0.1)
    assert report["results"]["negation"]["fooled"] > 0.9
    assert report["results"]["MR"]["kind"] == "n/a"
