"""Rows, preferred names and filters of the names dataset, and the choice of held-out synonyms."""

import json
import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from biomodels.errors import InputError, UsageError
from biomodels.schemas import NAMES
from biomodels.terminology.filters import NameFilter
from biomodels.terminology.hold_out import candidates, choose
from biomodels.terminology.homonyms import Homonyms, bearers, report
from biomodels.terminology.names import build_names, check_collisions, fold, fold_ids
from biomodels.terminology.normalise import Normaliser, name_id
from biomodels.terminology.pairs import SPILLED, PairRecipe, pairs_of_names
from biomodels.terminology.records import RECORDS, TYPES

NORMALISER = Normaliser()


def records(*rows):
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(RECORDS)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, RECORDS, strict=True)], schema=RECORDS)


def types(*rows):
    columns = list(zip(*rows, strict=True)) if rows else [(), ()]
    return pa.table([pa.array(column, pa.string()) for column in columns], schema=TYPES)


def all_pairs(names, **options):
    found = pairs_of_names(names.table, names.strings, PairRecipe(**options))
    return pa.concat_tables([SPILLED.empty_table(), *found.tables])


ROWS = [
    ("C2", "Zebra", "de", "S", "PT", 1, 0),
    ("C2", "Apple", "es", "S", "PT", 1, 0),
    ("C1", "Head Ache", "en", "S", "PT", 0, 0),
    ("C1", "head  ache", "en", "T", "SY", 8, 0),
    ("C1", "Head Ache", "en", "S", "PT", 4, 0),
    ("C1", "Kopfweh", "de", "S", "PT", 1, 0),
]
TYPE_ROWS = [("C1", "T184"), ("C1", "T047"), ("C1", "T184"), ("C9", "T001")]


def test_names_rows_preferred_and_semantic_types():
    table, strings, removed = build_names(records(*ROWS), types(*TYPE_ROWS), NORMALISER)
    assert strings.to_pylist() == ["head ache", "kopfweh", "head ache", "apple", "zebra"]
    assert removed == 0 and table.schema.equals(NAMES)
    rows = table.to_pylist()
    assert [(row["concept_id"], row["name"], row["preferred"]) for row in rows] == [
        ("C1", "Head Ache", True),
        ("C1", "Kopfweh", False),
        ("C1", "head  ache", False),
        ("C2", "Apple", True),  # equal rank: the first in the order of the names
        ("C2", "Zebra", False),
    ]
    assert rows[0]["semantic_types"] == ["T047", "T184"] and rows[3]["semantic_types"] == []
    assert rows[0]["name_id"] == rows[2]["name_id"] == name_id("head ache")


@settings(max_examples=30, deadline=None)
@given(st.randoms(use_true_random=False))
def test_names_and_pairs_do_not_depend_on_the_order_of_rows(shuffler):
    rows = [(f"C{n % 3}", f"name {n}", "en", f"S{n % 2}", "PT", n % 4, 0) for n in range(60)] + ROWS
    expected = build_names(records(*rows), types(*TYPE_ROWS), NORMALISER)
    pairs = all_pairs(expected, max_pairs=25, seed=2).sort_by("hash")
    shuffler.shuffle(rows)
    found = build_names(records(*rows), types(*TYPE_ROWS[::-1]), NORMALISER)
    assert found.table.equals(expected.table)
    assert all_pairs(found, max_pairs=25, seed=2).sort_by("hash").equals(pairs)
    other = all_pairs(expected, max_pairs=25, seed=3)
    assert set(other["hash"].to_pylist()) != set(pairs["hash"].to_pylist())


def test_pairs_hold_normalised_strings_once_and_are_capped():
    names = build_names(records(*ROWS), types(), NORMALISER)
    pairs = all_pairs(names).to_pylist()
    assert {(row["concept_id"], frozenset((row["name_1"], row["name_2"]))) for row in pairs} == {
        ("C1", frozenset(("head ache", "kopfweh"))),
        ("C2", frozenset(("apple", "zebra"))),
    }
    for row in pairs:
        assert name_id(row["name_1"]) < name_id(row["name_2"])
        languages = {"head ache": "en", "kopfweh": "de", "apple": "es", "zebra": "de"}
        assert (row["language_1"], row["language_2"]) == (languages[row["name_1"]], languages[row["name_2"]])
        assert row["weight"] == 1.0
    assert len(all_pairs(build_names(records(*ROWS), types(), Normaliser(False)))) == 3 + 1
    many = records(*[("C", f"name {n}", "en", "S", "PT", 0, 0) for n in range(3000)])
    assert len(all_pairs(build_names(many, types(), NORMALISER))) == 50


def test_pairs_of_equal_names_and_counts():
    rows = [*ROWS, ("C3", "Alone", "en", "S", "PT", 0, 0), *[("C4", f"n {n}", "en", "S", "PT", 0, 0) for n in range(9)]]
    names = build_names(records(*rows), types(), NORMALISER)
    counts = {"concepts": 4, "strings": 2 + 2 + 1 + 9, "single": 1, "combinations": 1 + 1 + 36, "capped": 1, "equal": 0}
    made = {which: all_pairs(names, max_pairs=10, equal_names=which) for which in ("none", "single", "repeated")}
    assert pairs_of_names(names.table, names.strings, PairRecipe(10)).counts == counts
    unequal = made["none"].sort_by("hash")
    assert len(unequal) == 1 + 1 + 10
    for which, name in (("single", "alone"), ("repeated", "head ache")):
        rows = made[which].to_pylist()
        assert [(row["name_1"], row["name_2"]) for row in rows if row["name_1"] == row["name_2"]] == [(name, name)]
        assert made[which].filter(pc.not_equal(made[which]["name_1"], made[which]["name_2"])).sort_by("hash") == unequal
        assert pairs_of_names(names.table, names.strings, PairRecipe(10, 13, which)).counts == counts | {"equal": 1}
    assert pairs_of_names(names.table, names.strings, PairRecipe(0)).counts["capped"] == 0


def test_homonyms_are_counted_over_concepts():
    rows = [*ROWS, ("C3", "HEAD ache", "en", "S", "PT", 0, 0), ("C4", "zebra", "en", "S", "PT", 0, 0)]
    rows += [(f"C{n}", "Zebra", "en", "S", "PT", 0, 0) for n in range(5, 10)]
    whole, hashes = bearers(build_names(records(*rows), types(), NORMALISER))
    assert len(whole) == len(set(whole["name_id"].to_pylist())) + 1 + 6  # a concept bears a name once
    found = Homonyms()
    for half in (0, 1):  # all bearers of a name have one hash
        found.add(whole.filter(pa.array(hashes % 2 == half)))
    assert sorted(json.loads(line)["name"] for line in found.lines) == ["head ache", "zebra"]
    assert {len(json.loads(line)["concepts"]) for line in found.lines} == {2, 7}
    assert report(found.by_concepts, found.most) == {
        "strings": 2,
        "bearers": 9,
        "by_concepts": {"2": 1, "3": 0, "4": 0, "5+": 1},
        "most": [{"name": "zebra", "concepts": 7}, {"name": "head ache", "concepts": 2}],
    }


def test_empty_tables():
    names = build_names(records(), types(), NORMALISER)
    assert len(names.table) == names.held_out == 0
    assert len(all_pairs(names, equal_names="single")) == 0
    assert len(choose(candidates(names.table, 1), 3)) == 0
    assert len(bearers(names)[0]) == 0


def test_one_id_for_two_strings_stops():
    check_collisions(np.array([5, 5, 6]), pa.array(["a", "a", "b"]))
    with pytest.raises(InputError, match="'a' and 'b' have the same name_id 5"):
        check_collisions(np.array([5, 6, 5]), pa.array(["a", "c", "b"]))


def test_filters_report_what_they_remove():
    table = records(
        ("C", "a", "en", "S", "PT", 0, 0),
        ("C", "b", "en", "S", "PT", 0, 1),
        ("C", "c", "en", "S", "PT", 0, 2),
        ("C", "d", "de", "S", "PT", 0, 0),
        ("C", "e", "de", "U", "XX", 0, 2),
        ("C", "f", "en", "U", "PT", 0, 0),
        ("C", "g", "en", "S", "XX", 0, 0),
    )
    kept, removed = NameFilter.of(["ENG"], ["S"], ["PT"]).apply(table)
    assert kept["name"].to_pylist() == ["a"]
    assert removed == {"suppressed": 1, "obsolete": 2, "language": 1, "source": 1, "term_type": 1}
    kept, removed = NameFilter.of(keep_suppressed=True, keep_obsolete=True).apply(table)
    assert len(kept) == 7 and removed == {}
    kept, _ = NameFilter.of(["GER"], keep_obsolete=True).apply(table)
    assert kept["name"].to_pylist() == ["d", "e"]
    table = records(*[("C", "é" * length, "en", "S", "PT", 0, 0) for length in (1, 2, 3, 3, 4)])
    kept, removed = NameFilter.of(min_length=2, max_length=3).apply(table)
    assert kept["name"].to_pylist() == ["éé", "ééé", "ééé"]
    assert (removed["too_short"], removed["too_long"]) == (1, 1)
    with pytest.raises(UsageError, match="--max-length 2: is below --min-length 3"):
        NameFilter.of(min_length=3, max_length=2)
    with pytest.raises(UsageError, match="--languages"):
        NameFilter.of(["english"])


def test_held_out_strings_have_one_concept_and_are_not_preferred():
    rows = [
        ("C1", "Preferred one", "en", "S", "PT", 0, 0),
        ("C1", "Straße", "de", "S", "PT", 1, 0),
        ("C1", "STRASSE", "de", "T", "PT", 1, 0),
        ("C1", "shared", "en", "S", "SY", 8, 0),
        ("C2", "Shared", "en", "S", "SY", 8, 0),
        ("C2", "Preferred two", "en", "S", "PT", 0, 0),
        ("C2", "preferred TWO", "en", "T", "SY", 8, 0),
        ("C2", "a||b", "en", "S", "SY", 8, 0),
        ("C2", "alone", "en", "S", "SY", 8, 0),
    ]
    names = build_names(records(*rows), types(), NORMALISER).table
    chosen = choose(candidates(names, seed=1), 10)
    assert {fold(text) for text in chosen["mention"].to_pylist()} == {"strasse", "alone"}
    held_out = np.sort(fold_ids(["Alone", "Strasse"]))
    rest, _, removed = build_names(records(*rows), types(), NORMALISER, held_out)
    assert removed == 3
    assert not {"strasse", "alone"} & {fold(text) for text in rest["name"].to_pylist()}
    assert rest["preferred"].to_pylist().count(True) == 2


def test_choosing_from_parts_equals_choosing_from_all():
    rows = [(f"C{n // 5}", f"name {n}", "en", "S", "PT", n % 5, 0) for n in range(500)]
    random.Random(0).shuffle(rows)
    whole = candidates(build_names(records(*rows), types(), NORMALISER)[0], seed=4)
    best = choose(whole, 20)
    assert len(best) == 20
    ids = whole["fold_id"].to_numpy()
    parts = [choose(whole.filter(pa.array(ids % 3 == part)), 20) for part in range(3)]
    assert choose(pa.concat_tables(parts), 20).equals(best)
