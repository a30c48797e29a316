"""The job: a baseline by folds, predictions against it, a fixed split, leakage always said, and the page."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from biomodels.artifacts import ArtifactBuilder
from biomodels.errors import InputError, UsageError
from biomodels.relations.records import Entity, Pair, Sentence, relations_table
from ray_jobs.command import load
from ray_jobs.evaluate.relations import Config, main

VERBS = {True: ("inhibits", "raises levels of"), False: ("was seen with", "and")}


def rows(corpus: str, documents: int):
    """Two pairs a sentence, one of them positive in every second document; a sentence that every document shares."""
    for number in range(documents):
        name = f"{corpus}.d{number}"
        for place, related in enumerate((number % 2 == 0, False)):
            verb = VERBS[related][number % 4 // 2]
            text = f"We <b>saw</b> that gene{number} {verb} drug{place} in {corpus} assay {number % 5}."
            if place and number % 6 == 0:
                text = "Shared: geneX and drugX."
            first, second = (word for word in text.replace(".", " ").split() if word.startswith(("gene", "drug")))
            entities = [
                Entity(word, ((text.index(word), text.index(word) + len(word)),), word, kind)
                for word, kind in ((first, "<gene>"), (second, ("drug", "brand")[number % 3 == 0]))
            ]
            kind = ("effect", "mechanism")[number % 4 // 2] if related else None
            sentence = Sentence(name, f"{name}.s{place}", text, entities)
            yield sentence, Pair(f"{name}.s{place}.p0", *entities, related, kind)


def dataset(out: Path, corpus: str = "Made", documents: int = 40, left_out: int = 0) -> str:
    builder = ArtifactBuilder.begin(str(out), "relations", config={}, inputs={})
    every = list(rows(corpus, documents))
    builder.publish_table("part-00000-000.parquet", relations_table(every[left_out:]))
    if left_out:
        builder.publish_table("filtered/part-00000-000.parquet", relations_table(every[:left_out]))
    builder.commit({})
    return str(out)


def predictions(path: Path, wrong: int, *, fold: bool = False, skip: int = 0) -> str:
    with path.open("w", newline="") as sink:
        table = csv.writer(sink)
        table.writerow(["pair_id", "score", "relation_type"] + ["fold"] * fold)
        for number, (_, pair) in enumerate(list(rows("Made", 40))[skip:]):
            said = pair.label != (number < wrong)
            table.writerow([pair.id, 0.9 if said else 0.1, "effect"] + [number % 4] * fold)
    return str(path)


def run(out, **options):
    return main(load(Config, None, {"out": str(out), "resamples": "50"} | options))


@pytest.mark.ray
def test_baseline_and_predictions(ray_session, tmp_path, capsys):
    gold = dataset(tmp_path / "gold")
    mine = predictions(tmp_path / "p.csv", wrong=6)
    options = {"relations": gold, "baseline": "bag-of-words", "predictions": mine, "k": "4"}
    report = run(tmp_path / "out", **options, folds="document")
    assert report["gold"] == {
        "pairs": 80,
        "positives": 20,
        "left_out_by_filter": 0,
        "left_out_positives": 0,
        "untyped_positives": 0,
    }
    statement = report["split"]["statement"]
    assert "4 folds by document" in statement and "no document is in two" in statement
    assert all(row["documents"] == 0 for row in report["split"]["leakage"])
    assert sum(row["pairs"] for row in report["split"]["leakage"]) == 7
    model, baseline = report["models"]["model"], report["models"]["bag-of-words"]
    assert model["without_leaked"]["pairs"] == 73
    assert len(model["folds"]) == len(baseline["folds"]) == 4
    assert model["pooled"]["fn"] + model["pooled"]["fp"] == 6
    assert baseline["pooled"]["f1"] > 0.9
    (test,) = report["mcnemar"]
    assert {test["first"], test["second"]} == {"model", "bag-of-words"} and 0 < test["p"] <= 1
    assert baseline["typing"]["micro"]["f1"] > model["typing"]["micro"]["f1"]
    assert set(model["breakdown"]) == {"entity types", "sentence has", "words between"}  # what differs between pairs

    shown = capsys.readouterr().out
    assert "split: 4 folds by document" in shown and "leakage: " in shown and "McNemar" in shown
    page = (tmp_path / "out" / "report.html").read_text()
    assert "&lt;gene&gt;" in page and "<gene>" not in page and page.count("<svg") == 1 and "<script" not in page
    assert "Confusion matrix" in page and "gold \\ answer" in page and str(tmp_path) not in page
    assert json.loads((tmp_path / "out" / "report.json").read_text()) == report
    again = run(tmp_path / "again", **options, folds="document")
    assert again == report and (tmp_path / "again" / "report.html").read_text() == page
    cut = run(tmp_path / "cut", **options, folds="instance")
    assert "share documents" in cut["split"]["statement"]

    train = dataset(tmp_path / "train", "Train", 30)
    fixed = run(tmp_path / "fixed", **options, train=train)
    assert fixed["split"]["statement"] == "fixed: a training set of 60 pairs"
    assert fixed["split"]["leakage"][0]["pairs"] == 7 and fixed["split"]["leakage"][0]["sentences"] == 1
    assert "folds" not in fixed["models"]["model"] and fixed["models"]["bag-of-words"]["pooled"]["f1"] > 0.8


def test_predictions_alone_say_what_is_not_known(tmp_path, capsys):
    gold = dataset(tmp_path / "gold")
    report = run(tmp_path / "out", relations=gold, predictions=predictions(tmp_path / "p.csv", wrong=0))
    assert report["models"]["model"]["pooled"]["f1"] == 1.0 and report["split"]["leakage"] is None
    assert "leakage: unknown" in capsys.readouterr().out
    other = predictions(tmp_path / "q.csv", wrong=10)
    folded = predictions(tmp_path / "r.csv", wrong=0, fold=True)
    report = run(tmp_path / "folds", relations=gold, predictions=folded, against=other)
    assert report["split"]["folds"] == 4 and "prediction files" in report["split"]["statement"]
    assert report["mcnemar"][0]["only_first"] == 10 and report["mcnemar"][0]["p"] < 0.01


def test_pairs_that_a_filter_took_out_are_missed(tmp_path, capsys):
    gold = dataset(tmp_path / "gold", left_out=2)
    report = run(tmp_path / "out", relations=gold, predictions=predictions(tmp_path / "p.csv", wrong=0, skip=2))
    assert report["gold"]["left_out_by_filter"] == 2 and report["models"]["model"]["pooled"]["fn"] == 1
    assert "1 are positive and missed" in capsys.readouterr().out


def test_bad_input(tmp_path):
    gold = dataset(tmp_path / "gold")
    good = predictions(tmp_path / "p.csv", wrong=0)
    partial = predictions(tmp_path / "q.csv", wrong=0, skip=3)
    with pytest.raises(InputError, match="3 of 80 pairs have no prediction"):
        run(tmp_path / "a", relations=gold, predictions=partial)
    report = run(tmp_path / "b", relations=gold, predictions=partial, missing="negative")
    assert report["models"]["model"]["missing"] == 3
    with pytest.raises(UsageError, match="give --predictions, --baseline"):
        run(tmp_path / "c", relations=gold)
    with pytest.raises(UsageError, match="--against goes with --predictions"):
        run(tmp_path / "c", relations=gold, against=good, baseline="bag-of-words")
    with pytest.raises(UsageError, match=r"--train \(a fixed split\) and --folds"):
        run(tmp_path / "c", relations=gold, predictions=good, train=gold, folds="document")
    with pytest.raises(UsageError, match="--folds: 'abstract'"):
        run(tmp_path / "c", relations=gold, predictions=good, folds="abstract")
    with pytest.raises(InputError, match="20 groups cannot be dealt to 21 folds"):
        run(
            tmp_path / "d",
            relations=dataset(tmp_path / "small", documents=20),
            predictions=good,
            folds="document",
            k="21",
        )
