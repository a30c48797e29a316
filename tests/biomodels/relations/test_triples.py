"""Triples: the three rules, what they do not cover, and independence of workers, epochs and the rows' order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from biomodels.errors import InputError
from biomodels.relations.triples import NO_PARTNER, TripleIndex


def table(*sentences: str) -> pa.Table:
    """Each sentence is a string of + and - for its pairs."""
    rows = [
        {"sentence_id": f"s{i}", "pair_id": f"s{i}.p{j}", "label": sign == "+"}
        for i, signs in enumerate(sentences)
        for j, sign in enumerate(signs)
    ]
    schema = pa.schema([("sentence_id", pa.string()), ("pair_id", pa.string()), ("label", pa.bool_())])
    return pa.Table.from_pylist(rows, schema=schema)


CORPUS = table("+-", "++--", "+", "-", "--", "+++", "+--", "-")


def named(corpus, triples) -> list[tuple[str | None, ...]]:
    names = [*corpus["pair_id"].to_pylist(), None]
    return [tuple(names[row] for row in rows) for rows in zip(triples.anchor, triples.same, triples.other, strict=True)]


@pytest.mark.parametrize("uncovered", ["drop", "rule3", "ce_only"])
def test_rules(uncovered):
    index = TripleIndex.of(CORPUS)
    assert index.coverage() == {
        "rule_1": 4,
        "rule_2": 5,
        "rule_3": 3,
        "uncovered_positive": 3,
        "uncovered_negative": 2,
    }
    labels, sentences = index.labels, np.array(CORPUS["sentence_id"].to_pylist())
    for epoch in range(20):
        triples = index.draw(5, epoch, uncovered)
        assert len(triples.anchor) == (12 if uncovered == "drop" else 17)
        for anchor, same, other, rule in zip(triples.anchor, triples.same, triples.other, triples.rule, strict=True):
            if uncovered == "ce_only" and rule == 0:
                assert same == other == NO_PARTNER
                continue
            assert labels[same] == labels[anchor] != labels[other]
            assert sentences[same] != sentences[anchor]
            assert (sentences[other] == sentences[anchor]) == (rule in (1, 2))
            assert rule not in (1, 2) or rule == (1 if labels[anchor] else 2)


def test_every_partner_is_drawn_and_no_sentence_is_preferred():
    corpus = table("+-", "+-", "++++++++-")
    index = TripleIndex.of(corpus)
    anchors = np.zeros(1, dtype=np.int64)
    same = [int(index.draw(1, epoch, rows=anchors).same[0]) for epoch in range(3000)]
    assert set(same) == {2, *range(4, 12)}
    assert abs(sum(row == 2 for row in same) / 3000 - 0.5) < 0.04  # a random sentence, not a random pair


def test_triples_depend_on_seed_epoch_and_anchor_alone():
    index = TripleIndex.of(CORPUS)
    whole = named(CORPUS, index.draw(7, 3, "rule3"))
    for workers in (1, 2, 3, 5):
        shares = np.array_split(np.arange(len(CORPUS)), workers)
        parts = [named(CORPUS, index.draw(7, 3, "rule3", rows=share)) for share in shares]
        assert [row for part in parts for row in part] == whole
    shuffled = CORPUS.take(np.random.default_rng(0).permutation(len(CORPUS)))
    assert sorted(named(shuffled, TripleIndex.of(shuffled).draw(7, 3, "rule3"))) == sorted(whole)
    assert named(CORPUS, index.draw(7, 4, "rule3")) != whole != named(CORPUS, index.draw(8, 3, "rule3"))


def test_partners_from_the_anchors_own_sentence_if_there_is_no_other():
    corpus = table("+++-", "-")
    triples = TripleIndex.of(corpus).draw(0, 0)
    rows = {anchor: (same, rule) for anchor, same, rule in zip(triples.anchor, triples.same, triples.rule, strict=True)}
    assert all(same != anchor for anchor, (same, _) in rows.items())
    assert {same for anchor, (same, _) in rows.items() if anchor < 3} <= {0, 1, 2}
    assert (rows[3], rows[4]) == ((4, 2), (3, 3))


def test_a_class_with_one_member_is_no_anchor():
    triples = TripleIndex.of(table("+-", "-", "--")).draw(0, 0)
    assert triples.anchor.tolist() == [1, 2] and triples.same.min() >= 0


@pytest.mark.parametrize(
    ("sentences", "uncovered", "message"),
    [
        ((), "drop", "no pairs"),
        (("---", "-"), "rule3", "4 pairs, all negative"),
        (("+", "+"), "drop", "all positive"),
        (("+", "-"), "drop", "no triple can be drawn from 1 positive and 1 negative"),
        (("++", "--"), "drop", "use uncovered=rule3"),
    ],
)
def test_degenerate_corpora(sentences, uncovered, message):
    with pytest.raises(InputError, match=message):
        TripleIndex.of(table(*sentences)).draw(0, 0, uncovered)
    if sentences == ("++", "--"):
        assert len(TripleIndex.of(table(*sentences)).draw(0, 0, "rule3").anchor) == 4


def test_a_sentence_with_55_entities():
    corpus = table("+" + "-" * 1484, "+-")
    triples = TripleIndex.of(corpus).draw(0, 0)
    assert len(triples.anchor) == len(corpus)
    assert set(triples.other[1:1485].tolist()) == {0}
