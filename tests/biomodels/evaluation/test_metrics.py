from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from biomodels.evaluation.metrics import (
    Part,
    distinct,
    id_set,
    reference_accuracy,
    score_rankings,
    split_composite,
)

A, B, C, AB = id_set("A"), id_set("B"), id_set("C"), id_set("A|B")


def test_id_set_reads_alternatives_and_ignores_their_order():
    assert id_set("D001943|114480") == id_set("114480|D001943") == {"114480", "D001943"}
    assert id_set("") == id_set("|") == frozenset()


def test_acc_and_recall_by_hand():
    scores = score_rankings([[C, A, B], [B, C], [C]], [A, AB, A], ks=(1, 2, 3))
    assert scores.acc == {1: 1 / 3, 2: 2 / 3, 3: 2 / 3}
    assert scores.recall == {1: pytest.approx(0.5 / 3), 2: pytest.approx(1.5 / 3), 3: pytest.approx(1.5 / 3)}


@given(st.lists(st.tuples(st.lists(st.sampled_from("ABCDE"), max_size=6), st.sampled_from("ABCDE")), min_size=1))
def test_recall_equals_acc_where_every_query_has_one_gold_id(cases):
    scores = score_rankings([[id_set(i) for i in ids] for ids, _ in cases], [id_set(g) for _, g in cases], (1, 3, 6))
    assert scores.acc == pytest.approx(scores.recall)
    assert scores.acc[1] <= scores.acc[3] <= scores.acc[6]


@pytest.mark.parametrize(("rankings", "golds"), [([], []), ([[A]], [frozenset()]), ([[A]], [A, B])])
def test_scoring_nothing_or_unequal_lists_is_an_error(rankings, golds):
    with pytest.raises(ValueError):
        score_rankings(rankings, golds, (1,))


def test_distinct_keeps_the_best_place_of_every_concept():
    assert distinct([A, A, B, A, AB, C]) == [A, B, AB, C]
    assert distinct([A, A, B, A, C], limit=2) == [A, B]


def test_composite_mentions_are_cut_at_plus_and_bar():
    assert split_composite("breast and+ovarian|cancer", "D1+D2") == (["breast and", "ovarian", "cancer"], "D1|D2")
    assert split_composite("mg2+", "D1") == (["mg2", ""], "D1")


def test_reference_accuracy_needs_every_part_and_ignores_which_gold_id_it_hits():
    both_hit_the_same_id = [Part("D1+D2", ["D1"]), Part("D1+D2", ["D9", "D1|D7"])]
    composite_name_cannot_match = [Part("D1+D2", ["D1+D2"])]
    assert reference_accuracy([both_hit_the_same_id], (1, 2)) == {1: 0.0, 2: 1.0}
    assert reference_accuracy([composite_name_cannot_match], (1,)) == {1: 0.0}
    with pytest.raises(ValueError):
        reference_accuracy([], (1,))


def test_golden_predictions_of_biosyn(shared_data):
    """The stored predictions of BioSyn on NCBI disease, with the accuracies that its own code printed."""
    stored = json.loads((shared_data / "entity_linking/biosyn_preds/ncbi-disease.json").read_text())
    queries = [
        [Part(part["golden_cui"], [candidate["cui"] for candidate in part["candidates"]]) for part in query["mentions"]]
        for query in stored["queries"]
    ]
    accuracy = reference_accuracy(queries, range(1, 21))
    assert accuracy == {k: pytest.approx(stored[f"acc{k}"], abs=1e-12) for k in range(1, 21)}
    assert [accuracy[k] for k in (1, 5, 10, 20)] == pytest.approx([0.9114583333, 0.9385416667, 0.95, 0.9677083333])

    by_concept = [
        [Part(part.gold, ["|".join(sorted(key)) for key in distinct(map(id_set, part.ranking))]) for part in query]
        for query in queries
    ]
    assert reference_accuracy(by_concept, (5,))[5] == pytest.approx(0.9458333333)
