"""The job on Ray: equal bytes however files are grouped, resume, filters, lists of documents, and bad corpora."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from biomodels.artifacts import Artifact
from biomodels.errors import ArtifactError, InputError, RejectRateError, UsageError
from biomodels.relations.triples import TripleIndex
from ray_jobs.command import load, user_error
from ray_jobs.fan_out import fan_out
from ray_jobs.shard import relation_parts
from ray_jobs.shard.relations import Config, main

pytestmark = pytest.mark.ray


def sentence(identity: str, names: list[str], positive: set[int]) -> str:
    """A DDI sentence of these drugs, in which the pairs of these numbers interact."""
    text, entities, pairs = "", "", ""
    for i, name in enumerate(names):
        offset = f"{len(text)}-{len(text) + len(name) - 1}"
        entities += f'<entity id="{identity}.e{i}" charOffset="{offset}" type="drug" text="{name}"/>'
        text += name + " with "
    number = 0
    for i in range(len(names)):
        for j in range(i + 1, len(names)):
            answer = 'ddi="true" type="effect"' if number in positive else 'ddi="false"'
            pairs += f'<pair id="{identity}.p{number}" e1="{identity}.e{i}" e2="{identity}.e{j}" {answer}/>'
            number += 1
    return f'<sentence id="{identity}" text="{text}">{entities}{pairs}</sentence>'


def write_corpus(folder: Path, documents: int = 12, positive: bool = True) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(documents):
        name = f"DDI-Made.d{number}"
        sentences = [
            sentence(f"{name}.s0", ["aspirin", "Aspirin", "warfarin"], {number % 3} if positive else set()),
            sentence(f"{name}.s1", ["digoxin", f"drug{number}"], {0} if positive and number % 2 else set()),
        ]
        (folder / f"{number:02d}.xml").write_text(f'<document id="{name}">{"".join(sentences)}</document>')
    return folder


def shard(out, *paths, **options):
    given = {"out": str(out), "paths": [str(path) for path in paths]} | options
    return main(load(Config, None, {"format": "ddi2013"} | given))


def rows(artifact: Artifact, prefix="part-") -> list[dict]:
    return [row for entry in artifact.files(prefix) for row in artifact.read_table(entry).to_pylist()]


def bad_input(kind, match, out, *paths, **options):
    with pytest.raises(Exception) as caught:  # Ray wraps what a task raises
        shard(out, *paths, **options)
    error = user_error(caught.value)
    assert isinstance(error, kind), caught.value
    assert match in str(error)


class KilledError(Exception):
    """Stands for the end of the driver at a chosen moment."""


def test_a_dataset_its_report_and_resume(ray_session, tmp_path, monkeypatch, capsys):
    corpus = write_corpus(tmp_path / "corpus")
    monkeypatch.setattr(relation_parts, "GROUP_BYTES", 3000)
    whole = shard(tmp_path / "whole", corpus)
    assert "48   18 positive (18 effect)" in capsys.readouterr().out
    facts = whole.facts
    assert (facts["pairs"], facts["positives"], facts["documents"], facts["sentences"]) == (48, 18, 12, 24)
    assert facts["irregularities"] == {"blank_edges": 24} and facts["relation_types"] == {"effect": 18}
    assert facts["triples"]["rule_1"] == 12 and facts["triples"]["rule_3"] == 12
    found = rows(whole)
    assert [row["pair_id"] for row in found[:4]] == [
        "DDI-Made.d0.s0.p0",
        "DDI-Made.d0.s0.p1",
        "DDI-Made.d0.s0.p2",
        "DDI-Made.d0.s1.p0",
    ]
    assert found[0]["others"] == [{"type": "drug", "spans": [{"start": 26, "end": 34}]}]
    listed = Path(whole.file_uri("irregularities.tsv")).read_text().splitlines()
    assert listed[0].split("\t")[0] == "kind" and len(listed) == 25

    stopped = iter(range(2))

    def stopping(*args, **options):
        for result in fan_out(*args, **options):
            yield result
            if next(stopped, None) is None:
                raise KilledError

    out = tmp_path / "out"
    with monkeypatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(relation_parts, "fan_out", stopping)
        shard(out, corpus)
    kept = {path: path.stat().st_mtime_ns for path in out.glob("part-*")}
    assert len(kept) >= 3
    again = shard(out, corpus)
    assert again.manifest == whole.manifest
    assert kept.items() <= {path: path.stat().st_mtime_ns for path in out.glob("part-*")}.items()
    again.verify()
    bad_input(ArtifactError, "config.drop_same_name", out, corpus, drop_same_name=True)


def test_filters_count_what_they_remove_and_keep_it_apart(ray_session, tmp_path):
    corpus = write_corpus(tmp_path / "corpus")
    result = shard(tmp_path / "out", corpus, drop_same_name=True, drop_self_interactions=True)
    assert result.facts["filtered"] == {
        "self_interaction": {"pairs": 0, "positives": 0},
        "same_name": {"pairs": 12, "positives": 4},
    }
    assert (result.facts["pairs"], result.facts["positives"]) == (36, 14)
    left_out = rows(result, "filtered/")
    assert len(left_out) == 12 and sum(row["label"] for row in left_out) == 4
    assert {row["entity_1"].lower() for row in left_out} == {"aspirin"}


def test_lists_of_documents(ray_session, tmp_path):
    corpus = write_corpus(tmp_path / "corpus")
    listed = tmp_path / "ids.txt"
    listed.write_text("DDI-Made.d1\nDDI-Made.d4\n")
    inside = shard(tmp_path / "in", corpus, documents=str(listed))
    outside = shard(tmp_path / "out", corpus, without_documents=str(listed))
    assert {row["document_id"] for row in rows(inside)} == {"DDI-Made.d1", "DDI-Made.d4"}
    assert inside.facts["pairs"] == 8 and outside.facts["pairs"] == 40
    listed.write_text("DDI-Made.d1 DDI-Made.d99")
    bad_input(InputError, "1 of 2 documents", tmp_path / "a", corpus, documents=str(listed))
    listed.write_text("")
    bad_input(InputError, "holds no document id", tmp_path / "a", corpus, documents=str(listed))
    bad_input(UsageError, "give one of", tmp_path / "a", corpus, documents="x", without_documents="y")


def test_bad_corpora(ray_session, tmp_path):
    corpus = write_corpus(tmp_path / "corpus")
    negative = write_corpus(tmp_path / "negative" / "DrugBank", 30, positive=False)
    for path in negative.glob("*.xml"):
        path.write_text(path.read_text().replace("DDI-Made", "DDI-Other"))
    bad_input(InputError, "all 120 pairs of the corpus are negative", tmp_path / "out1", negative)
    bad_input(InputError, "DrugBank: all 120 pairs are negative", tmp_path / "out2", corpus, negative)
    assert shard(tmp_path / "out1", negative, allow_one_class=True).facts["positives"] == 0
    bad_input(
        InputError,
        "occurs 2 times: give every document once",
        tmp_path / "out3",
        corpus,
        write_corpus(tmp_path / "copy"),
    )
    bad_input(InputError, "has no .xml file", tmp_path / "out4", tmp_path / "out1")
    bad_input(InputError, "is not there", tmp_path / "out5", tmp_path / "none")
    bad_input(UsageError, "--format", tmp_path / "out6", corpus, format="brat")
    recognition = write_corpus(tmp_path / "Test for DrugNER task" / "MedLine", 2)
    bad_input(InputError, "it is no relation test set", tmp_path / "out7", recognition)
    (corpus / "00.xml").write_text((corpus / "00.xml").read_text().replace('ddi="false"', 'ddi="perhaps"'))
    bad_input(RejectRateError, "00.xml:1: pair DDI-Made.d0.s0.p", tmp_path / "out8", corpus)
    result = shard(tmp_path / "out8", corpus, max_reject_rate=0.1)
    assert result.facts["rejects"] == 3 and result.facts["pairs"] == 45
    assert len(rows(result, "rejects/")) == 3


def draw_share(item):
    table = pa.table(item["corpus"])
    triples = TripleIndex.of(table).draw(item["seed"], item["epoch"], rows=item["rows"])
    return {"share": item["share"], "triples": [triples.anchor.tolist(), triples.same.tolist(), triples.other.tolist()]}


def test_triples_are_the_same_for_any_number_of_workers(ray_session, tmp_path):
    found = rows(shard(tmp_path / "out", write_corpus(tmp_path / "corpus")))
    corpus = {key: [row[key] for row in found] for key in ("sentence_id", "pair_id", "label")}
    drawn = {}
    for workers in (1, 3, 4):
        items = [
            {
                "corpus": corpus,
                "seed": 1,
                "epoch": 2,
                "share": share,
                "rows": list(range(share, len(found), workers)),
            }
            for share in range(workers)
        ]
        results = list(fan_out(draw_share, items))
        drawn[workers] = sorted(row for result in results for row in zip(*result["triples"], strict=True))
    assert json.dumps(drawn[1]) == json.dumps(drawn[3]) == json.dumps(drawn[4]) and len(drawn[1]) == len(found)


def test_blurb_split(ray_session, shared_data, tmp_path):
    folder = shared_data / "relations" / "ddi2013"
    dev = shard(tmp_path / "dev", folder / "Train", documents=str(folder / "blurb_dev_doc_ids.txt"))
    assert (dev.facts["pairs"], dev.facts["documents"]) == (2_496, 79)
    whole = shard(tmp_path / "whole", folder / "Train")
    assert (whole.facts["pairs"], whole.facts["positives"]) == (27_792, 4_021)
    assert whole.facts["triples"] == {
        "rule_1": 3_269,
        "rule_2": 13_454,
        "rule_3": 1_592,
        "uncovered_positive": 0,
        "uncovered_negative": 9_477,
    }
