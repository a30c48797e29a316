"""Top-k in universes, against a plain loop."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from biomodels.errors import InputError
from biomodels.evaluation.pair_scores import PairScores
from biomodels.evaluation.universes import top_k

PANEL = [f"G2P{i:05d}" for i in range(25)]


@pytest.fixture(scope="module")
def articles():
    """PMID → (scores of the whole panel, on a coarse grid so that many are equal; gate; true entries)."""
    generator = np.random.default_rng(6)
    made = {}
    for pmid in range(1, 61):
        gate = sorted(generator.permutation(PANEL)[: generator.integers(0, 7)].tolist())
        true = sorted(generator.permutation(PANEL)[: generator.integers(1, 3)].tolist())
        made[pmid] = (dict(zip(PANEL, (generator.integers(0, 5, 25) / 4).tolist(), strict=True)), gate, true)
    return made


@pytest.fixture(scope="module")
def scores(articles):
    rows = [{"pmid": p, "g2p_ids": list(s), "scores": list(s.values())} for p, (s, _, _) in articles.items()]
    types = pa.schema([("pmid", pa.int64()), ("g2p_ids", pa.list_(pa.string())), ("scores", pa.list_(pa.float32()))])
    return PairScores.collect("scores", [pa.RecordBatch.from_pylist(rows, schema=types)])


@pytest.mark.parametrize("universe", ["panel", "pool", "gate"])
def test_top_k_equals_a_loop(articles, scores, universe):
    gold = {pmid: true for pmid, (_, _, true) in articles.items()}
    members = {"panel": lambda pmid: PANEL, "pool": lambda pmid: PANEL[5:15], "gate": lambda pmid: articles[pmid][1]}
    found = top_k(universe, scores, gold, members[universe], (1, 3))
    hits, shares = {1: 0, 3: 0}, {1: 0.0, 3: 0.0}
    for pmid, (values, _, true) in articles.items():
        order = sorted(members[universe](pmid), key=lambda g2p: (-values[g2p], g2p))
        for k in hits:
            hits[k] += any(g2p in true for g2p in order[:k])
            shares[k] += sum(g2p in order[:k] for g2p in true) / len(true)
    assert found.acc == pytest.approx({k: n / 60 for k, n in hits.items()})
    assert found.recall == pytest.approx({k: n / 60 for k, n in shares.items()})
    assert found.articles == 60
    assert found.empty == sum(not members[universe](pmid) for pmid in articles)
    assert found.missed == sum(not set(true) & set(members[universe](p)) for p, (_, _, true) in articles.items())
    assert found.acc[3] <= 1 - found.missed / 60


def test_an_article_nobody_scored_has_an_empty_universe_or_is_an_error(scores):
    found = top_k("gate", scores, {999: ["G2P00001"]}, lambda pmid: [], (1, 5))
    assert (found.empty, found.missed, found.acc) == (1, 1, {1: 0.0, 5: 0.0})
    with pytest.raises(InputError, match="universe gate: G2P00001 has no score for PMID 999"):
        top_k("gate", scores, {999: ["G2P00001"]}, lambda pmid: ["G2P00001"], (1,))
