"""What is known of real benchmarks without training: figures measured apart from this code, by SapBERT's own rule."""

from __future__ import annotations

import pytest

from ray_jobs.evaluate import linking


def accuracies(tmp_path, **options):
    report = linking.main(linking.Config(out=str(tmp_path / "r.json"), resamples=50, mode="reference", **options))
    return {e["system"]: (100 * e["acc@1"], 100 * e["acc@5"]) for e in report["entries"]}


def test_baselines_on_ncbi_disease(shared_data, tmp_path):
    folder = shared_data / "entity_linking/ncbi_disease"
    found = accuracies(tmp_path, benchmark="ncbi-disease", data=str(folder))
    assert found["exact match"][0] == pytest.approx(76.9, abs=0.05)
    assert found["TF-IDF"] == pytest.approx((87.7, 92.7), abs=0.35)
    medic = str(folder / "train_dictionary.txt")
    found = accuracies(tmp_path, benchmark="ncbi-disease", data=str(folder), dictionary=medic)
    assert found["exact match"][0] == pytest.approx(60.0, abs=0.05)
    assert found["TF-IDF"] == pytest.approx((76.3, 84.5), abs=0.1)


@pytest.mark.slow
def test_baselines_on_bc5cdr_chemical(shared_data, tmp_path):
    folder = str(shared_data / "entity_linking/bc5cdr_chemical")
    found = accuracies(tmp_path, benchmark="bc5cdr-chemical", data=folder)
    assert found["exact match"][0] == pytest.approx(84.1, abs=0.1)
    assert found["TF-IDF"] == pytest.approx((89.1, 90.9), abs=0.1)


@pytest.mark.slow
def test_minilm_on_ncbi_disease(shared_data, minilm, tmp_path):
    folder = shared_data / "entity_linking/ncbi_disease"
    options = {
        "benchmark": "ncbi-disease",
        "data": str(folder),
        "model": f"m={minilm}",
        "pooling": "cls,mean",
        "work": str(tmp_path / "work"),
    }
    found = accuracies(tmp_path, **options)
    assert found["m cls, cosine"] == pytest.approx((91.7, 94.2), abs=0.1)
    assert found["m mean, cosine"] == pytest.approx((90.2, 93.7), abs=0.1)
    assert found["m cls"] == pytest.approx((72.9, 90.9), abs=0.1)
    assert found["m mean"] == pytest.approx((75.2, 91.5), abs=0.1)
    found = accuracies(tmp_path, dictionary=str(folder / "train_dictionary.txt"), **options)
    assert found["m cls, cosine"] == pytest.approx((79.9, 85.9), abs=0.1)
    assert found["m mean, cosine"] == pytest.approx((79.8, 84.6), abs=0.1)
    assert found["m cls"] == pytest.approx((62.5, 80.0), abs=0.1)
    assert found["m mean"] == pytest.approx((69.1, 82.7), abs=0.1)
