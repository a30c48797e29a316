"""Job `evaluate cross-encoder` on made scores, against plain loops and scikit-learn."""

from __future__ import annotations

import base64
import csv
import json
import re
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn import metrics
from statsmodels.stats.proportion import proportion_confint

from biomodels import schemas, storage
from biomodels.artifacts import ArtifactBuilder
from biomodels.errors import ArtifactError, InputError, UsageError
from biomodels.evaluation.significance import mcnemar_exact
from biomodels.terminology.normalise import keyed_hash
from ray_jobs.evaluate.cross_encoder import Config, main

IDS = [f"G2P{gene:02d}{i}" for gene in range(12) for i in range(2)]
TEST, DEV, TRAIN, CORPUS, TRUTH = (
    range(start, start + n) for start, n in ((1, 80), (101, 60), (201, 90), (1000, 400), (2000, 50))
)


def publish(uri, kind, schema, tables):
    builder = ArtifactBuilder.begin(str(uri), kind, config={}, inputs={})
    for path, rows in tables.items():
        builder.publish_table(path, pa.Table.from_pylist(rows, schema=schema))
    builder.commit({})
    return builder.uri


def number(*key):
    """A reproducible number between 0 and 1."""
    return keyed_hash(7, *key) / 2**63


def candidates_of(pmid):
    """Most articles pass the gate; in some the true entry is missing."""
    gene = pmid % 12
    mine = [f"G2P{gene:02d}0", f"G2P{gene:02d}1", f"G2P{(gene + 1) % 12:02d}0"]
    return [] if pmid % 9 == 0 else mine[1:] if pmid % 10 == 0 else mine


def label(pmid, i):
    return int((pmid + i) % 3 == 0)


def labelled_rows(split, pmids):
    return [
        {
            "text_a": f"text {pmid}",
            "text_b": f"G2P{pmid % 12:02d}{i}",
            "label": float(label(pmid, i)),
            "group": str(pmid),
            "list_id": str(pmid),
            "split": split,
            "fold": pmid % 4 if split == "train" else None,
            "provenance": "silver" if pmid % 5 == 0 else "annotated",
            "pmid": pmid,
            "g2p_id": f"G2P{pmid % 12:02d}{i}",
        }
        for pmid in pmids
        for i in range(2)
    ]


@cache
def score(model, pmid, g2p_id):
    """Scores on a grid of 20, so that there are ties; better for the first model."""
    gene, i = int(g2p_id[3:5]), int(g2p_id[5])
    true = gene == pmid % 12 and label(pmid, i)
    skill = {"new": 0.75, "old": 0.55, "poor": 0.3}[model.split("-")[0]]
    value = number(model, pmid, gene, i)
    high = number("skill", model, pmid, gene, i) < skill if true else number("noise", model, pmid, gene) < 0.08
    return round((0.5 * high + value / 2) * 20) / 20


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    at = tmp_path_factory.mktemp("inputs")
    made = [
        row | {"provenance": "mined", "label": 0.0, "g2p_id": "G2P111"} for row in labelled_rows("train", TRAIN)[:4]
    ]
    publish(
        at / "labelled",
        "labelled_pairs",
        schemas.LABELLED_PAIRS,
        {
            "train/part-00000.parquet": labelled_rows("train", TRAIN) + made,
            "dev/part-00000.parquet": labelled_rows("dev", DEV),
            "test/part-00000.parquet": labelled_rows("test", TEST),
        },
    )
    entries = [
        {
            "g2p_id": g2p_id,
            "hgnc_id": f"HGNC:{g2p_id[3:5]}",
            "gene_symbol": g2p_id,
            "disease_name": f"disease {g2p_id[3:5]}",
            "allelic_requirement": ("monoallelic_X_hemizygous", "monoallelic_X_heterozygous")[int(g2p_id[5])]
            if g2p_id.startswith("G2P03")
            else "biallelic_autosomal",
            "text": g2p_id,
        }
        for g2p_id in IDS
    ]
    publish(at / "threads", "threads", schemas.THREADS, {"part-00000.parquet": entries})
    pmids = [*TEST, *DEV, *TRAIN, *CORPUS, *TRUTH]
    gate = [{"pmid": pmid, "g2p_ids": candidates_of(pmid), "text_digest": ""} for pmid in pmids]
    publish(at / "candidates", "candidates", schemas.CANDIDATES, {"part-00000.parquet": gate})
    sample = [{"pmid": pmid, "year": 1985 + pmid % 40 if pmid % 50 else None} for pmid in CORPUS]
    publish(at / "sample", "articles", schemas.ARTICLES, {"part-00000.parquet": sample})
    lines = [
        f"{pmid},G2P{pmid % 12:02d}0,{'in_scope' if pmid % 2 else 'other'},{('HPOA', 'ClinGen')[pmid % 2]}"
        for pmid in TRUTH
    ]
    (at / "truth.csv").write_text("pmid,g2p_id,scope_category,label_source\n" + "\n".join(lines) + "\n")
    judged = [
        f"{pmid},G2P{pmid % 12:02d}0,{label(pmid, 0)},{1980 + pmid % 3 * 10}s,{'yes' if pmid % 2 else ''}"
        for pmid in TEST
    ]
    (at / "answers.csv").write_text("pmid,g2p_id,right,stratum,second\n" + "\n".join(judged) + "\n")
    for model in ("new-42", "new-43", "old-42", "poor-42"):
        rows = [
            {"pmid": pmid, "text_digest": "", "g2p_ids": IDS, "scores": [score(model, pmid, g2p_id) for g2p_id in IDS]}
            for pmid in pmids
        ]
        publish(at / model, "scores", schemas.SCORES, {"part-00000.parquet": rows})
    return at


def config(inputs, out, *runs, **other):
    given = {
        "scores": ",".join(f"{run.split('-')[0]}={inputs / run}" for run in runs),
        "labelled": str(inputs / "labelled"),
    }
    given |= {role: str(inputs / role) for role in ("threads", "candidates", "sample")}
    given |= {"truth": str(inputs / "truth.csv"), "answers": str(inputs / "answers.csv")}
    return Config.model_validate(given | {"out": str(out), "resamples": 100, "sweep_step": 0.05} | other)


@pytest.fixture(scope="module")
def report(inputs, tmp_path_factory):
    return main(
        config(inputs, tmp_path_factory.mktemp("report") / "r", "new-42", "new-43", "old-42", "poor-42", folds=True)
    )


@pytest.fixture(scope="module")
def tables(report):
    return storage.read_json(report.file_uri("report.json"))["tables"]


PAIRS = [(pmid, f"G2P{pmid % 12:02d}{i}", label(pmid, i)) for pmid in TEST for i in range(2)]


def decisions(model, threshold):
    return np.array([score(model, pmid, g2p_id) >= threshold - 1e-9 for pmid, g2p_id, _ in PAIRS])


LABELS = np.array([truth for *_, truth in PAIRS], dtype=bool)


def rows(table, **given):
    return [row for row in table if all(row[key] == value for key, value in given.items())]


def test_metrics_equal_scikit_learn(tables):
    assert len(tables["metrics"]) == 4 * 5
    for model, seed, name in (("new", 1, "new-42"), ("new", 2, "new-43"), ("poor", 1, "poor-42")):
        for row in rows(tables["metrics"], model=model, seed=seed):
            predicted = decisions(name, row["threshold"])
            assert row["precision"] == pytest.approx(metrics.precision_score(LABELS, predicted, zero_division=0))
            assert row["recall"] == pytest.approx(metrics.recall_score(LABELS, predicted))
            assert row["f05"] == pytest.approx(metrics.fbeta_score(LABELS, predicted, beta=0.5, zero_division=0))
            values = [score(name, pmid, g2p_id) for pmid, g2p_id, _ in PAIRS]
            assert row["ap"] == pytest.approx(metrics.average_precision_score(LABELS, values))
    silver = np.array([pmid % 5 == 0 for pmid, *_ in PAIRS])
    (row,) = rows(tables["metrics_by_provenance"], model="new", seed=1, provenance="silver")
    assert row["f1"] == pytest.approx(metrics.f1_score(LABELS[silver], decisions("new-42", 0.5)[silver]))
    for row in tables["intervals"]:
        assert row["low"] <= row["estimate"] <= row["high"]


def test_sweep_csv_has_the_columns_of_the_published_one(report, tables):
    with open(report.file_uri("sweep.csv"), newline="") as handle:
        found = list(csv.DictReader(handle))
    assert list(found[0])[1:] == [
        *("threshold", "n_seeds", "precision_mean", "precision_sd", "recall_mean", "recall_sd"),
        *("f1_mean", "f1_sd", "n_passing_mean"),
    ]
    new = [row for row in found if row["model"] == "new"]
    assert [row["threshold"] for row in new][::9] == ["0.05", "0.5", "0.95"]
    f1 = [metrics.f1_score(LABELS, decisions(name, 0.5)) for name in ("new-42", "new-43")]
    assert float(new[9]["f1_mean"]) == pytest.approx(np.mean(f1))
    assert float(new[9]["f1_sd"]) == pytest.approx(np.std(f1, ddof=1))
    assert next(row for row in found if row["model"] == "old")["f1_sd"] == ""
    assert len(found) == len(tables["sweep"]) == 3 * 19


def test_top_k_equals_a_loop(tables):
    gold = {}
    for pmid, g2p_id, truth in PAIRS:
        if truth:
            gold.setdefault(pmid, set()).add(g2p_id)
    universes = {
        "panel": lambda pmid: IDS,
        "pool": lambda pmid: sorted({g2p_id for _, g2p_id, _ in PAIRS}),
        "gate": candidates_of,
        "siblings": lambda pmid: [f"G2P{pmid % 12:02d}{i}" for i in range(2)],
    }
    for name, universe in universes.items():
        members = [pmid for pmid in gold if name != "siblings" or len(gold[pmid]) < 2]
        ranked = {
            p: sorted(universe(p), key=lambda g2p_id, p=p: (-score("old-42", p, g2p_id), g2p_id)) for p in members
        }
        (row,) = rows(tables["topk"], model="old", universe=name)
        assert row["articles"] == len(members)
        for k in (1, 3, 5):
            assert row[f"acc@{k}"] == pytest.approx(np.mean([bool(set(ranked[p][:k]) & gold[p]) for p in members]))
        assert row["empty"] == sum(not universe(pmid) for pmid in members)
    (strict,) = rows(tables["topk"], model="old", universe="gate")
    (alike,) = rows(tables["topk"], model="old", universe="gate, interchangeable entries right")
    assert strict["missed"] > strict["empty"] > 0
    assert alike["acc@1"] >= strict["acc@1"]


def best(model, pmid):
    return max((score(model, pmid, g2p_id) for g2p_id in candidates_of(pmid)), default=-1)


def test_fire_rate_counts_all_abstracts(tables):
    fired = sum(best("new-43", pmid) >= 0.8 - 1e-9 for pmid in CORPUS)
    (row,) = rows(tables["fire_rate"], model="new", seed=2, stratum="all", threshold=0.8)
    assert (row["n"], row["passing"]) == (400, fired)
    assert (row["low"], row["high"]) == pytest.approx(proportion_confint(fired, 400, method="wilson"))
    strata = {row["stratum"] for row in tables["fire_rate"]}
    assert strata == {"all", "gated", "1980s", "1990s", "2000s", "2010s", "2020s", "unknown"}
    decades = rows(tables["fire_rate"], model="new", seed=2, threshold=0.8)
    assert sum(row["passing"] for row in decades if row["stratum"] not in ("all", "gated")) == fired


def test_recall_at_three_denominators(tables):
    def found(pmid):
        g2p_id = f"G2P{pmid % 12:02d}0"
        return g2p_id in candidates_of(pmid) and score("old-42", pmid, g2p_id) >= 0.5 - 1e-9

    for stratum, mine in {
        "all": list(TRUTH),
        "gated": [pmid for pmid in TRUTH if candidates_of(pmid)],
        "in scope": [pmid for pmid in TRUTH if pmid % 2],
        "source HPOA": [pmid for pmid in TRUTH if not pmid % 2],
    }.items():
        (row,) = rows(tables["recall"], model="old", stratum=stratum, threshold=0.5)
        assert (row["n"], row["passing"]) == (len(mine), sum(map(found, mine)))


def test_threshold_table(report, tables):
    chosen = [row for row in tables["threshold"] if row["chosen"]]
    assert [row["model"] for row in chosen] == ["new", "old", "poor"]
    assert report.facts["facts"]["threshold of new"] == chosen[0]["threshold"]
    row = next(row for row in tables["threshold"] if row["model"] == "old" and row["threshold"] == 0.8)
    fired = sum(best("old-42", pmid) >= 0.8 - 1e-9 for pmid in CORPUS)
    assert row["fired_corpus_abstracts"] == fired
    assert row["fire_pct"] == pytest.approx(fired / 4)


def test_comparison(report, tables):
    votes = {"new": decisions("new-42", 0.5) & decisions("new-43", 0.5)}  # half of two votes is no majority
    votes |= {name: decisions(f"{name}-42", 0.5) for name in ("old", "poor")}
    for row in tables["comparison"]:
        first, second = votes[row["first"]], votes[row["second"]]
        expected = mcnemar_exact(first == LABELS, second == LABELS)
        assert (row["only_first"], row["only_second"], row["p"]) == pytest.approx(expected)
        difference = metrics.f1_score(LABELS, first) - metrics.f1_score(LABELS, second)
        assert row["f1_difference"] == pytest.approx(difference)
        assert row["f1_difference_low"] < difference < row["f1_difference_high"]
        assert row["p_holm"] is None or row["p_holm"] >= row["p"]
    assert len(tables["comparison"]) == 3
    assert report.facts["facts"]["cochran_q_p"] < 0.05
    assert len(tables["folds"]) == 3 * 4
    assert 0 <= report.facts["facts"]["friedman_p"] <= 1


def test_calibration_and_audit(tables):
    for model in ("new", "old", "poor"):
        by_map = {row["map"]: row for row in rows(tables["calibration"], model=model)}
        assert set(by_map) == {"none", "temperature", "isotonic"}
        values = np.array([score(f"{model}-42", pmid, g2p_id) for pmid, g2p_id, _ in PAIRS])
        assert by_map["none"]["brier"] == pytest.approx(metrics.brier_score_loss(LABELS, values))
    (row,) = rows(tables["audit"], model="poor", stratum="all")
    passing = [pmid for pmid in TEST if score("poor-42", pmid, f"G2P{pmid % 12:02d}0") >= 0.9 - 1e-9]
    assert (row["answers"], row["passing"]) == (80, len(passing))
    assert row["right"] == sum(label(pmid, 0) for pmid in passing)
    assert {row["stratum"] for row in tables["audit"]} == {"all", "1980s", "1990s", "2000s"}


def test_page_needs_nothing_else(report):
    page = storage.read_bytes(report.file_uri("report.html")).decode()
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    pictures = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    names = [entry.path for entry in report.files() if entry.path.endswith(".png")]
    assert len(pictures) == len(names) == 6
    assert all(base64.b64decode(picture)[:8] == b"\x89PNG\r\n\x1a\n" for picture in pictures)
    assert "Choice of a threshold" in page
    json.loads(storage.read_bytes(report.file_uri("report.json")), parse_constant=pytest.fail)


def test_same_bytes_again_and_from_other_forms_of_scores(inputs, tmp_path):
    one = main(config(inputs, tmp_path / "a", "old-42"))
    again = main(config(inputs, tmp_path / "b", "old-42"))
    assert one.digest == again.digest
    table = pq.read_table(inputs / "old-42" / "part-00000.parquet")
    pq.write_table(table, tmp_path / "s.parquet")
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in reversed(table.to_pylist())))
    for name in ("s.parquet", "s.jsonl"):
        other = main(config(inputs, tmp_path / f"r-{name}", "old-42", scores=f"old={tmp_path / name}"))
        assert other.manifest.files == one.manifest.files


def test_scores_of_the_candidates_alone(inputs, tmp_path, capsys):
    """What a deployed scorer writes: no panel to rank, and labelled pairs outside the gate."""
    rows = [
        {
            "pmid": pmid,
            "g2p_ids": candidates_of(pmid),
            "scores": [score("new-42", pmid, g2p) for g2p in candidates_of(pmid)],
        }
        for pmid in [*TEST, *DEV, *CORPUS, *TRUTH]
    ]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    plain = {"scores": str(tmp_path / "s.jsonl"), "candidates": None, "answers": None}
    with pytest.raises(InputError, match=r"labelled pairs have no score, first PMID .* --unscored negative"):
        main(config(inputs, tmp_path / "a", "new-42", **plain))
    capsys.readouterr()
    report = main(config(inputs, tmp_path / "b", "new-42", unscored="negative", **plain))
    assert "skipped: top-k in the panel for model, seed 1: " in " ".join(capsys.readouterr().out.split())
    found = storage.read_json(report.file_uri("report.json"))["tables"]
    (row,) = [row for row in found["fire_rate"] if (row["stratum"], row["threshold"]) == ("all", 0.8)]
    assert row["passing"] == sum(best("new-42", pmid) >= 0.8 - 1e-9 for pmid in CORPUS)
    (row,) = [row for row in found["recall"] if (row["stratum"], row["threshold"]) == ("gated", 0.5)]
    assert row["n"] == sum(bool(candidates_of(pmid)) for pmid in TRUTH)
    assert "topk" not in found
    assert "comparison" not in found


def test_scores_alone_are_enough(inputs, tmp_path):
    none = dict.fromkeys(("threads", "candidates", "sample", "truth", "answers"))
    report = main(config(inputs, tmp_path / "r", "old-42", **none))
    tables = storage.read_json(report.file_uri("report.json"))["tables"]
    assert set(tables) == {
        *("metrics", "metrics_by_provenance", "intervals", "sweep", "topk", "calibration", "reliability"),
    }


def test_bad_inputs(inputs, tmp_path):
    twice = f"a={inputs / 'old-42'},b={inputs / 'old-42'}"
    with pytest.raises(UsageError, match="old-42 is given twice"):
        main(config(inputs, tmp_path / "a", scores=twice))
    (tmp_path / "s.jsonl").write_text('{"pmid": 1000, "g2p_ids": ["G2P000"], "scores": [0.5]}\n')
    one = str(tmp_path / "s.jsonl")
    with pytest.raises(InputError, match=r"candidate G2P.* of PMID 1000 has no score"):
        main(config(inputs, tmp_path / "b", scores=one, unscored="negative", sample=str(inputs / "sample")))
    with pytest.raises(InputError, match="PMID 1001 has no row among the scores"):
        main(config(inputs, tmp_path / "c", scores=one, unscored="negative", candidates=None, truth=None))
    (tmp_path / "s.jsonl").write_text('{"pmid": 1, "g2p_ids": ["G2P000"]}\n')
    with pytest.raises(InputError, match="PMID 1 has no scores"):
        main(config(inputs, tmp_path / "d", scores=one))
    (tmp_path / "s.parquet").write_bytes(b"PAR1 no PAR1")
    with pytest.raises(InputError, match=r"s.parquet: cannot be read as Parquet"):
        main(config(inputs, tmp_path / "e", scores=str(tmp_path / "s.parquet")))
    with pytest.raises(ArtifactError, match="is no artifact"):
        main(config(inputs, tmp_path / "f", scores=str(tmp_path / "absent")))
    with pytest.raises(ArtifactError, match="'scores' artifact where 'labelled_pairs' is needed"):
        main(config(inputs, tmp_path / "g", "old-42", labelled=str(inputs / "new-42")))
