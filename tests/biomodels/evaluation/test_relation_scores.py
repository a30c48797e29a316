"""Scores of relations against scikit-learn's, and prediction files with all that can be wrong with them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import f1_score, precision_recall_fscore_support, roc_auc_score

from biomodels.errors import InputError
from biomodels.evaluation.relation_predictions import align, read_predictions
from biomodels.evaluation.relations import breakdown, detection, f1_interval, per_fold, typed

RNG = np.random.default_rng(0)
LABELS = RNG.random(300) < 0.3
SCORES = np.round(RNG.random(300) * 0.6 + LABELS * 0.3, 2)
ANSWERS = SCORES >= 0.5


def test_detection_equals_scikit_learn():
    found = detection(LABELS, ANSWERS, SCORES)
    expected = precision_recall_fscore_support(LABELS, ANSWERS, average="binary")[:3]
    assert [found[key] for key in ("precision", "recall", "f1")] == pytest.approx(expected)
    assert found["auc"] == pytest.approx(roc_auc_score(LABELS, SCORES))
    assert found["tp"] + found["fp"] + found["fn"] + found["tn"] == found["pairs"] == 300
    silent = detection(LABELS, np.zeros(300, dtype=bool))
    assert (silent["f1"], silent["precision"], silent["auc"]) == (0.0, 0.0, None)
    assert detection(np.ones(3, dtype=bool), np.ones(3, dtype=bool), np.ones(3))["auc"] is None


def test_folds():
    folds = np.arange(300) % 4 - 1  # a quarter is in none
    found = per_fold(LABELS, ANSWERS, SCORES, folds)
    values = [f1_score(LABELS[folds == fold], ANSWERS[folds == fold]) for fold in range(3)]
    assert [row["f1"] for row in found["folds"]] == pytest.approx(values)
    assert found["over_folds"]["f1"] == {
        "mean": pytest.approx(np.mean(values)),
        "sd": pytest.approx(np.std(values, ddof=1)),
    }
    assert per_fold(LABELS, ANSWERS, None, np.zeros(300, dtype=int))["over_folds"]["auc"] == {"mean": None, "sd": None}


def test_types_equal_scikit_learn():
    names = np.array(["effect", "int", "mechanism", None], dtype=object)
    gold = names[RNG.integers(0, 4, 300)].tolist()
    said = [kind if RNG.random() < 0.7 else names[RNG.integers(0, 4)] for kind in gold]
    found = typed(gold, said)
    given = [[kind or "" for kind in kinds] for kinds in (gold, said)]
    for average, value in (("micro", found["micro"]["f1"]), ("macro", found["macro_f1"])):
        assert value == pytest.approx(f1_score(*given, labels=["effect", "int", "mechanism"], average=average))
    assert typed([None], [None])["macro_f1"] is None


def test_breakdown_and_interval():
    traits = {"source": ["A" if number < 100 else "B" for number in range(300)]}
    (first, second) = breakdown(LABELS, ANSWERS, traits)["source"]
    assert (first["value"], first["pairs"], second["value"]) == ("B", 200, "A")
    assert second["f1"] == pytest.approx(f1_score(LABELS[:100], ANSWERS[:100]))
    documents = [str(number // 10) for number in range(300)]
    interval = f1_interval(LABELS, ANSWERS, documents, seed=1, resamples=200)
    assert interval["low"] < f1_score(LABELS, ANSWERS) < interval["high"]


def write(path, rows):
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        mark = "\t" if path.suffix == ".tsv" else ","
        path.write_text("\n".join(mark.join(map(str, row)) for row in [list(rows[0]), *[row.values() for row in rows]]))
    return str(path)


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "csv", "tsv"])
def test_every_format(tmp_path, suffix):
    one = write(tmp_path / f"1.{suffix}", [{"pair_id": "c", "score": 1, "fold": 1}])
    two = write(tmp_path / f"2.{suffix}", [{"pair_id": "a", "score": 0.25, "fold": 0}])
    found = align(read_predictions([one, two]), ["a", "b", "c"], missing="negative")
    assert found.answers.tolist() == [False, False, True] and found.missing == 1
    assert found.scores is not None and found.scores.argsort().tolist() == [1, 0, 2]
    assert found.folds is not None and found.folds.tolist() == [0, -1, 1] and found.types is None
    assert align(read_predictions([one, two]), ["a", "c"], threshold=0.2).answers.all()


def test_labels_types_and_pairs_left_out(tmp_path):
    rows = [
        {"pair_id": "a", "label": "true", "relation_type": "effect"},
        {"pair_id": "b", "label": "false", "relation_type": "int"},
    ]
    table = read_predictions([write(tmp_path / "p.csv", rows)])
    found = align(table, ["a", "b", "c"], left_out=np.array([False, False, True]))
    assert found.answers.tolist() == [True, False, False] and found.scores is None and found.missing == 0
    assert found.types == ["effect", None, None]
    assert not align(table, ["a", "b"], left_out=np.array([True, False])).answers.any()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"pair": "a", "score": 1}], "no column pair_id"),
        ([{"pair_id": "a", "confidence": 1}], "neither a column score nor a column label"),
        ([{"pair_id": "a", "score": "high"}], "column score"),
        ([{"pair_id": "a", "score": float("nan")}], "p.parquet:1: column score is NaN"),
        ([{"pair_id": "a", "score": 1}, {"pair_id": "a", "score": 0}], "a is predicted twice"),
        ([{"pair_id": "z", "score": 1}], "1 predicted pairs are not in the dataset, such as 'z'"),
        ([{"pair_id": "a", "score": 1}], "1 of 2 pairs have no prediction, such as b"),
        ([{"pair_id": "a", "score": 1}, {"pair_id": "b", "score": None}], "p.parquet:2: column score has no value"),
    ],
)
def test_bad_predictions(tmp_path, rows, message):
    with pytest.raises(InputError, match=message):
        align(read_predictions([write(tmp_path / "p.parquet", rows)]), ["a", "b"])


def test_bad_files(tmp_path):
    for name, message in (("p.pkl", "none of the suffixes"), ("none.csv", "cannot be read")):
        with pytest.raises(InputError, match=message):
            read_predictions([str(tmp_path / name)])
    (tmp_path / "p.parquet").write_text("no parquet")
    with pytest.raises(InputError, match="cannot be read as parquet"):
        read_predictions([str(tmp_path / "p.parquet")])
    one = write(tmp_path / "1.csv", [{"pair_id": "a", "score": 1}])
    two = write(tmp_path / "2.csv", [{"pair_id": "b", "label": "true"}])
    with pytest.raises(InputError, match="no column score"):
        read_predictions([one, two])
