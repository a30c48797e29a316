from __future__ import annotations

import json

import pytest

from biomodels.errors import UsageError
from ray_jobs.command import load
from ray_jobs.evaluate import similarity

PAIRS = (
    "renal failure\tKidney failure\t4\nheart\tmyocardium\t3.3\nstroke\tinfarct\t3\ndelusion\tschizophrenia\t3\n"
    "varicose vein\tentire knee meniscus\t1\nxerostomia\tliver cirrhosis\t1.2\nacne\tsyringe\t1.1\n"
)


def test_a_trained_encoder_follows_the_ratings(tmp_path, minilm, capsys):
    (tmp_path / "sets").mkdir()
    (tmp_path / "sets/srs.txt").write_text(PAIRS)
    options = {"model": f"m={minilm}", "data": str(tmp_path / "sets"), "out": str(tmp_path / "r.json"), "resamples": 50}
    report = similarity.main(similarity.Config(**options))
    first = (tmp_path / "r.json").read_bytes()
    assert json.loads(first) == report
    by_system = {entry["system"]: entry for entry in report["entries"]}
    assert list(by_system) == ["TF-IDF", "m"]
    assert by_system["m"]["spearman"] > 0.8 > by_system["TF-IDF"]["spearman"]
    assert by_system["m"]["n"] == 7
    assert by_system["m"]["model"] == report["models"]["m"]["digest"]
    assert "srs" in capsys.readouterr().out
    similarity.main(similarity.Config(**options))
    assert (tmp_path / "r.json").read_bytes() == first


def test_bad_options():
    with pytest.raises(UsageError, match="--model"):
        load(similarity.Config, None, {"data": "d", "out": "o", "model": ""})
