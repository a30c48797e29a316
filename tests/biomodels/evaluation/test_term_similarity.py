from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from biomodels.errors import InputError, RejectRateError
from biomodels.evaluation.entity_linking.text_files import Lines
from biomodels.evaluation.term_similarity import cosine, read_sets, spearman, tfidf_similarity

MAYO = (
    '"Physicians","Coders","CUI1","CUI2","TERM1","TERM2"\n'
    '4,3.5,"C1","C2","Renal failure","Kidney, failing"\n1,2,"C3","C4","a","b"\n'
)


@pytest.fixture
def read(tmp_path):
    def make(files, **options):
        folder = tmp_path / "sets"
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_text(content)
        return read_sets(str(folder), Lines(**options))

    return make


def test_reads_both_forms(read):
    sets = {
        pairs.name: pairs
        for pairs in read(
            {
                "MiniMayoSRS.csv": MAYO,
                "UMNSRS_similarity.csv": "Mean,Stdev,Term1,Term2,CUI1,CUI2\n1600,10,x,y,C1,C2\n3,1,x,z,C1,C3\n",
                "umnsrs.txt": "glaucoma\tfibrillation\t279\r\nflu\tinfluenza\t1500\r\n",
                "readme.md": "no set",
            }
        )
    }
    assert list(sets) == ["MiniMayoSRS Physicians", "MiniMayoSRS Coders", "UMNSRS_similarity", "umnsrs"]
    assert sets["MiniMayoSRS Coders"].ratings.tolist() == [3.5, 2]
    assert sets["MiniMayoSRS Coders"].terms[0] == ("Renal failure", "Kidney, failing")
    assert sets["UMNSRS_similarity"].ratings.tolist() == [1600, 3]
    assert sets["umnsrs"].terms == [("glaucoma", "fibrillation"), ("flu", "influenza")]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"readme.md": "x"}, r"has no \.txt"),
        ({"a.txt": "x\ty\t1\nx y 2\n"}, r"a\.txt:2: has 1 fields between tabs"),
        ({"a.txt": "x\ty\t1\nx\ty\thigh\n"}, r"a\.txt:2: has the rating 'high'"),
        ({"a.txt": "x\t\t1\n"}, "has an empty term"),
        ({"a.txt": "x\ty\t1\nx\tz\t1\n"}, "fewer than two different ratings"),
        ({"a.csv": "Mean,A,B\n1,x,y\n"}, r"a\.csv:1: has neither tabs nor the columns TERM1"),
        ({"a.csv": "CUI1,TERM1,TERM2\nC,x,y\n"}, r"a\.csv:1: has no column of ratings"),
        ({"a.csv": "Mean,TERM1,TERM2\n1,x\n"}, r"a\.csv:2: has 2 columns"),
    ],
)
def test_bad_sets_say_what_is_wrong(read, files, message):
    with pytest.raises((InputError, RejectRateError), match=message):
        read(files)


def test_spearman_is_scipys_with_an_interval_around_it():
    random = np.random.default_rng(3)
    ratings = random.integers(0, 5, 200).astype(float)  # with ties
    scores = ratings + random.normal(0, 2, 200)
    found = spearman(scores, ratings, seed=1, resamples=300)
    assert found.estimate == pytest.approx(spearmanr(scores, ratings).statistic)
    assert found.low < found.estimate < found.high
    assert found.high - found.low < 0.3
    assert np.isnan(spearman(np.zeros(3), np.arange(3), seed=1, resamples=5).estimate)


def test_scores_by_hand():
    assert cosine(np.array([[3, 4], [1, 0]], np.float32), np.array([[3, 4], [0, 2]], np.float32)).tolist() == [1, 0]
    scores = tfidf_similarity([("heart attack", "attack heart"), ("heart attack", "heart failure"), ("flu", "rash")])
    assert scores[0] == pytest.approx(1)
    assert scores[0] > scores[1] > scores[2] == 0


def test_real_sets(shared_data):
    sets = {s.name: len(s.terms) for s in read_sets(str(shared_data / "entity_linking/similarity"), Lines())}
    assert sets == {
        "MayoSRS": 101,
        "MiniMayoSRS Physicians": 29,
        "MiniMayoSRS Coders": 29,
        "umnsrs-rel": 587,
        "umnsrs-sim": 566,
        "umnsrs-sim_noRepeat": 550,
    }
