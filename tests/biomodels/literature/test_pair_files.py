"""Files of pairs, truth, answers, ranked entries and PMIDs."""

from __future__ import annotations

import pyarrow as pa
import pytest

from biomodels.artifacts import ArtifactBuilder
from biomodels.errors import InputError
from biomodels.literature.pair_files import Answer, GivenPair, TruthPair, read_all, read_pmids, read_ranked
from biomodels.row_files import read_rows
from biomodels.schemas import SCORES
from biomodels.terminology.rejects import Reject


def write(path, text):
    path.write_text(text)
    return str(path)


def test_annotated_csv_takes_the_id_out_of_the_thread(tmp_path):
    path = write(tmp_path / "p", 'pmid,g2p_lgmde,label\n38092275,"G2P01760 - ATAD3A - 612316.0, and more",0\n')
    ((line, pair),) = read_rows(path, GivenPair)
    assert (line, pair.pmid, pair.g2p_id, pair.label, pair.provenance) == (2, 38092275, "G2P01760", 0.0, "annotated")


@pytest.mark.parametrize(
    ("source", "provenance"),
    [
        ("litdd-map(silver,LLM)", "silver"),
        ("litdd-annotated(clinician)", "annotated"),
        ("g2p-publications(curated)", "curated"),
        ("Mined", "mined"),
    ],
)
def test_provenance_is_read_out_of_a_description(source, provenance):
    assert (
        GivenPair.model_validate({"pmid": 1, "g2p_id": "G", "label": 1, "label_source": source}).provenance
        == provenance
    )


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('{"pmid": "12a", "g2p_id": "G", "label": 1}', "pmid: '12a' is no PMID"),
        ('{"pmid": 0, "g2p_id": "G", "label": 1}', "pmid: 0 is no PMID"),
        ('{"pmid": true, "g2p_id": "G", "label": 1}', "pmid: True is no PMID"),
        ('{"pmid": 1, "g2p_id": " ", "label": 1}', "g2p_id"),
        ('{"pmid": 1, "g2p_id": "G", "label": 2}', "label: Input should be less than"),
        ('{"pmid": 1, "g2p_id": "G", "label": 1, "label_source": "?"}', "'?' names none of annotated"),
        ('{"pmid": 1, "g2p_id": "G", "label": 1, "split": "validation"}', "split: "),
        ('{"pmid": 1, "g2p_id": "G"}', "label: Field required"),
    ],
)
def test_malformed_pairs(tmp_path, row, reason):
    (found,) = read_rows(write(tmp_path / "p", row), GivenPair)
    assert isinstance(found, Reject)
    assert reason in found.reason
    with pytest.raises(InputError, match=r"p:1: .*mend or delete"):
        read_all(write(tmp_path / "p", row), GivenPair)


def test_truth_says_its_scope_in_two_ways(tmp_path):
    path = write(
        tmp_path / "t",
        "pmid,g2p_id,scope_category,in_scope,label_source\n1,A,in_scope,,DDG2P\n2,B,out_of_scope,,HPOA\n3,C,,yes,\n4,D,,,\n",
    )
    rows = [row for _, row in read_all(path, TruthPair)]
    assert [row.scope for row in rows] == [True, False, True, None]
    assert [row.source for row in rows] == ["DDG2P", "HPOA", "truth", "truth"]


def test_answers(tmp_path):
    path = write(tmp_path / "a", "pmid,g2p_id,verdict,second,stratum\n1,A,right,no,1990s\n2,B,0,,\n")
    rows = [row for _, row in read_all(path, Answer)]
    assert [(row.right, row.second, row.stratum) for row in rows] == [(True, False, "1990s"), (False, None, "unnamed")]
    with pytest.raises(InputError, match="'maybe' is neither yes nor no"):
        read_all(write(tmp_path / "a", "pmid,g2p_id,right\n1,A,maybe\n"), Answer)


def test_ranked_entries_from_lines_and_from_scores(tmp_path):
    path = write(
        tmp_path / "r", '{"pmid": "7", "g2p_ids": ["B", "A"]}\n{"pmid": 8, "g2p_ids": ["C"], "scores": [-0.5]}\n'
    )
    assert [(row.pmid, row.g2p_ids, row.scores) for row in read_ranked(path)] == [
        (7, ["B", "A"], None),
        (8, ["C"], [-0.5]),
    ]
    with pytest.raises(InputError, match="2 g2p_ids but 1 scores"):
        list(read_ranked(write(tmp_path / "r", '{"pmid": 7, "g2p_ids": ["B", "A"], "scores": [1]}\n')))
    builder = ArtifactBuilder.begin(str(tmp_path / "scores"), "scores", config={}, inputs={})
    row = {"pmid": 7, "text_digest": "", "g2p_ids": ["B", "A", "C"], "scores": [0.5, 0.5, 0.75]}
    builder.publish_table("part-00000.parquet", pa.Table.from_pylist([row], schema=SCORES))
    builder.commit({})
    (found,) = read_ranked(str(tmp_path / "scores"))
    assert (found.g2p_ids, found.scores) == (["C", "A", "B"], [0.75, 0.5, 0.5])
    assert read_pmids(str(tmp_path / "scores")) == {7}


def test_pmids(tmp_path):
    assert read_pmids(write(tmp_path / "p", "12\n\n 34 \r\n12\n")) == {12, 34}
    with pytest.raises(InputError, match="p:2: 'x' is no PMID"):
        read_pmids(write(tmp_path / "p", "12\nx\n"))
