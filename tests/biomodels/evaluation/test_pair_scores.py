"""Looking scores up, against a dictionary."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from biomodels.errors import InputError
from biomodels.evaluation.pair_scores import PairScores, ranked
from biomodels.schemas import SCORES


def batch(rows):
    table = [{"pmid": p, "text_digest": "", "g2p_ids": list(ids), "scores": list(values)} for p, ids, values in rows]
    return pa.RecordBatch.from_pylist(table, schema=SCORES)


def collect(*rows, wanted=None):
    return PairScores.collect("scores", [batch([row]) for row in rows], wanted)


def test_lookup_equals_a_dictionary():
    generator = np.random.default_rng(0)
    entries = [f"G2P{i:05d}" for i in range(30)]
    rows = []
    for pmid in generator.permutation(200)[:120].tolist():
        ids = generator.permutation(entries)[: generator.integers(0, 6)].tolist()
        rows.append((pmid, ids, generator.random(len(ids)).astype(np.float32).tolist()))
    scores = PairScores.collect("scores", [batch(rows[:50]), batch(rows[50:])])
    known = {(pmid, g2p): value for pmid, ids, values in rows for g2p, value in zip(ids, values, strict=True)}
    asked = [(pmid, g2p) for pmid in range(200) for g2p in [*entries, "G2P99999", "A"]]
    found = scores.lookup(*zip(*asked, strict=True))
    np.testing.assert_array_equal(found, np.array([known.get(pair, np.nan) for pair in asked], dtype=np.float32))
    best = scores.best(range(200))
    for pmid in range(200):
        mine = {g2p: value for (p, g2p), value in known.items() if p == pmid}
        ids, values = scores.of(pmid)
        assert dict(zip(ids.tolist(), values.tolist(), strict=True)) == mine
        assert ids.tolist() == sorted(mine)
        assert best[pmid] == max(mine.values()) if mine else np.isnan(best[pmid])
    assert scores.has(range(200)).tolist() == [pmid in {row[0] for row in rows} for pmid in range(200)]


def test_wanted_articles_alone_are_kept():
    scores = collect((1, ["a"], [0.5]), (2, ["b"], [0.5]), (3, [], []), wanted=[2, 3, 9])
    assert scores.pmids.tolist() == [2, 3]
    assert scores.entries.tolist() == ["b"]


def test_nothing_scored():
    for scores in (PairScores.collect("scores", []), collect((7, [], []))):
        assert np.isnan(scores.lookup([7, 8], ["a", "b"])).all()
        assert np.isnan(scores.best([7])).all()
        assert scores.of(7)[0].tolist() == []
        assert scores.lookup([], []).tolist() == []


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(5, ["a"], [0.1]), (5, ["b"], [0.1])], "PMID 5 has two rows"),
        ([(5, ["a", "a"], [0.1, 0.2])], "a twice for PMID 5"),
        ([(5, ["a"], [0.1, 0.2])], "PMID 5 has 1 entries but 2 scores"),
        ([(4, ["a"], [0.3]), (5, ["a"], [3.2])], "PMID 5 has the score 3.2.*sigmoid"),
        ([(5, ["a"], [float("nan")])], "PMID 5 has the score nan"),
    ],
)
def test_bad_rows(rows, message):
    with pytest.raises(InputError, match=message):
        collect(*rows)
    with pytest.raises(InputError, match="no column scores"):
        PairScores.collect("scores", [pa.RecordBatch.from_pylist([{"pmid": 1, "g2p_ids": ["a"]}])])


def test_ranking_breaks_ties_by_id():
    assert ranked(["c", "a", "b", "d"], np.array([0.5, 0.5, 0.9, 0.5], dtype=np.float32), 3) == ["b", "a", "c"]
    assert ranked([], np.array([], dtype=np.float32), 3) == []
