"""Groups, splits, and the checks that catch leaks."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from biomodels.errors import InputError
from biomodels.literature.splits import (
    Group,
    Shared,
    assign_folds,
    assign_splits,
    check_apart,
    check_disjoint,
    check_labels,
    components,
)

ROWS = [
    Shared("t1", 1),
    Shared("t1", 2),  # the same text under another PMID
    Shared("t2", 2),
    Shared("t3", 3, "gene A"),
    Shared("t4", 4, "gene A"),
    Shared("t5", 4, "gene B"),
    Shared("t6", 6, "gene B"),
    Shared("t7", 7),
]


def test_components_join_what_is_shared():
    found = components(ROWS)
    together = [[i for i, number in enumerate(found) if number == value] for value in dict.fromkeys(found.tolist())]
    assert together == [[0, 1, 2], [3, 4, 5, 6], [7]]
    assert components([]).tolist() == []


def test_a_text_named_like_a_pmid_is_no_pmid():
    assert len(set(components([Shared("1", 2), Shared("3", 1)]).tolist())) == 2


def test_splits_have_their_shares_in_both_strata_and_depend_on_seed_and_name_alone():
    groups = {f"g{i}": Group(1 + i % 3, i % 4 == 0) for i in range(1200)}
    found = assign_splits(groups, 0.1, 0.2, seed=5)
    for positive in (True, False):
        sizes = Counter()
        for name, group in groups.items():
            if group.positive == positive:
                sizes[found[name]] += group.rows
        total = sum(sizes.values())
        assert sizes["test"] / total == pytest.approx(0.2, abs=0.01)
        assert sizes["dev"] / total == pytest.approx(0.1, abs=0.01)
    backwards = assign_splits(dict(reversed(groups.items())), 0.1, 0.2, seed=5)
    assert backwards == found
    assert assign_splits(groups, 0.1, 0.2, seed=6) != found
    more = assign_splits(groups | {"another": Group(1, False)}, 0.1, 0.2, seed=5)
    assert sum(more[name] != found[name] for name in groups) <= 3  # one more group moves but the borders


def test_fixed_splits_are_kept():
    groups = {"a": Group(1, True, "test"), "b": Group(1, True), "c": Group(1, True)}
    assert assign_splits(groups, 0.0, 0.0, seed=1) == {"a": "test", "b": "train", "c": "train"}


def test_folds_are_balanced():
    groups = {f"g{i}": Group(2, i % 5 == 0) for i in range(500)}
    folds = assign_folds(groups, 5, seed=3)
    for positive in (True, False):
        sizes = Counter(folds[name] for name, group in groups.items() if group.positive == positive)
        assert set(sizes) == set(range(5))
        assert max(sizes.values()) - min(sizes.values()) <= 1
    assert assign_folds({"alone": Group(9, True)}, 3, seed=1) == {"alone": 1}


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (Shared("t1", 9), "text t1 is in train .PMID 1. and in test .PMID 9."),
        (Shared("t9", 1), "PMID 1 is in train"),
        (Shared("t9", 9, "HGNC:5"), "entry HGNC:5 is in train"),
    ],
)
def test_leaks_between_splits_are_caught(other, what):
    rows = [(Shared("t1", 1, "HGNC:5"), "train"), (Shared("t2", 2), "test"), (other, "test")]
    check_disjoint(rows[:2])
    for order in itertools.permutations(rows):
        with pytest.raises(InputError, match="leak"):
            check_disjoint(order)
    with pytest.raises(InputError, match=what):
        check_disjoint(rows)


def test_a_pair_that_comes_twice_or_with_two_labels_is_caught():
    check_labels([(("a", "b"), 1.0), (("a", "c"), 0.0)])
    with pytest.raises(InputError, match="comes twice"):
        check_labels([(("a", "b"), 1.0), (("a", "b"), 1.0)])
    with pytest.raises(InputError, match="labels 1 and 0"):
        check_labels([(("a", "b"), 1.0), (("a", "b"), 0.0)])


def test_frozen_benchmarks_stay_apart_by_pmid_and_by_text():
    rows = [Shared("t1", 1), Shared("t2", 2)]
    check_apart(rows, [3], ["t3"], "the benchmark")
    with pytest.raises(InputError, match="PMID 2: its PMID is in the benchmark"):
        check_apart(rows, [2], [], "the benchmark")
    with pytest.raises(InputError, match="PMID 1: its text, under another PMID, is in the benchmark"):
        check_apart(rows, [9], ["t1"], "the benchmark")
