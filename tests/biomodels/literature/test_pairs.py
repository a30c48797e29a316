"""Conflicts, siblings and hard negatives."""

from __future__ import annotations

import pytest

from biomodels.literature.entries import Entry, siblings
from biomodels.literature.pairs import (
    MiningRule,
    Pair,
    barred,
    corpus_negatives,
    hard_negatives,
    resolve,
    sibling_negatives,
)

ENTRIES = {
    entry.g2p_id: entry
    for entry in [
        Entry("A1", "A", "one", "biallelic_autosomal"),
        Entry("A2", "A", "two", "biallelic_autosomal"),
        Entry("A3", "A", "three", "biallelic_autosomal"),
        Entry("X1", "X", "same", "monoallelic_X_hemizygous"),
        Entry("X2", "X", "Same", "monoallelic_X_heterozygous"),
        Entry("X3", "X", "other", "monoallelic_X_hemizygous"),
        Entry("Z1", "Z", "only", "biallelic_autosomal"),
    ]
}
SIBLINGS = siblings(ENTRIES.values())


def pair(pmid, g2p_id, label=1.0, provenance="annotated", line=0):
    return Pair(pmid, g2p_id, label, provenance, None, "pairs.csv", line)


def test_labels_that_contradict_each_other_go_on_both_sides_even_under_two_pmids():
    rows = [
        pair(1, "A1", 1, line=1),
        pair(2, "A1", 0, line=2),  # the same text as PMID 1
        pair(1, "A2", 1, line=3),
        pair(3, "A1", 0, line=4),
    ]
    found = resolve(rows, {1: "same", 2: "same", 3: "other"})
    assert [row.line for row in found.conflicts] == [1, 2]
    assert [row.line for row in found.kept] == [3, 4]
    assert found.duplicates == []


def test_of_equal_rows_the_best_provenance_stays():
    rows = [pair(2, "A1", 1, "silver", 1), pair(1, "A1", 1, "silver", 2), pair(2, "A1", 1, "curated", 3)]
    found = resolve(rows, {1: "same", 2: "same"})
    assert [row.line for row in found.kept] == [3]
    assert sorted(row.line for row in found.duplicates) == [1, 2]
    assert resolve(rows[:2], {1: "same", 2: "same"}).kept[0].pmid == 1
    assert resolve(list(reversed(rows)), {1: "same", 2: "same"}).kept == found.kept


def test_siblings_leave_out_what_is_labelled_or_interchangeable():
    known = {1: {"A1", "A2"}, 2: {"X1"}, 3: {"Z1"}}
    positives = [pair(1, "A1"), pair(2, "X1"), pair(3, "Z1")]
    found = sibling_negatives(positives, known, ENTRIES, SIBLINGS, 0.1)
    assert found == [Pair(1, "A3", 0.1, "sibling"), Pair(2, "X3", 0.1, "sibling")]


def test_barred_entries():
    assert barred({"X1"}, ENTRIES, SIBLINGS) == {"X1", "X2"}
    assert barred({"A1", "Z1"}, ENTRIES, SIBLINGS) == {"A1", "Z1"}
    assert barred({"retired"}, ENTRIES, SIBLINGS) == {"retired"}


def test_corpus_negatives_are_gate_passing_only():
    assert corpus_negatives({7: ["B", "A"], 5: [], 6: ["C"]}) == [
        Pair(6, "C", 0.0, "corpus"),
        Pair(7, "A", 0.0, "corpus"),
        Pair(7, "B", 0.0, "corpus"),
    ]


def test_hard_negatives_count_ranks_among_survivors():
    """The positive has .80; the margin drops what is above .792, then five are passed over, as sentence-transformers
    does it."""
    ranked = [f"n{i}" for i in range(20)]
    scores = [0.99 - 0.02 * i for i in range(20)]
    ranked.insert(10, "positive")
    scores.insert(10, 0.80)
    found = hard_negatives(ranked, scores, {"positive"}, set(), MiningRule())
    survivors = [name for name, score in zip(ranked, scores, strict=True) if score <= 0.8 * 0.99 and name != "positive"]
    assert found == survivors[5:10]
    assert [round(scores[ranked.index(name)], 2) for name in found] == [0.69, 0.67, 0.65, 0.63, 0.61]


def test_hard_negatives_take_the_lowest_positive_and_the_score_cap():
    ranked, scores = ["p1", "a", "b", "p2", "c", "d"], [0.9, 0.88, 0.7, 0.6, 0.59, 0.5]
    rule = MiningRule(number=9, skip=0, relative_margin=0.0)
    assert hard_negatives(ranked, scores, {"p1", "p2"}, set(), rule) == ["c", "d"]
    assert hard_negatives(ranked, scores, {"p1"}, {"d"}, rule) == ["a", "b", "p2", "c"]
    assert hard_negatives(ranked, scores, {"absent"}, set(), rule._replace(max_score=0.6)) == ["p2", "c", "d"]
    assert hard_negatives(ranked, scores, {"absent"}, set(), rule._replace(depth=2)) == ["p1", "a"]
    negative = hard_negatives(["p", "a", "b"], [-0.5, -0.5, -0.52], {"p"}, set(), rule._replace(relative_margin=0.02))
    assert negative == ["b"]


def test_hard_negatives_by_rank_alone():
    assert hard_negatives(["p", "a", "b", "c"], None, {"p"}, {"b"}, MiningRule(2, 0)) == ["a", "c"]
    assert hard_negatives([], None, {"p"}, set(), MiningRule()) == []


@pytest.mark.parametrize("missing", [[], [0.5]])
def test_each_ranked_entry_has_its_score(missing):
    with pytest.raises(ValueError, match="argument"):
        hard_negatives(["a", "b"], missing, set(), set(), MiningRule())
