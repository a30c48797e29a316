"""Rows, preferred names and filters of the names dataset, and the choice of held-out synonyms."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from biomodels.errors import InputError, UsageError
from biomodels.schemas import NAMES
from biomodels.terminology.filters import NameFilter
from biomodels.terminology.hold_out import candidates, choose
from biomodels.terminology.names import build_names, check_collisions, fold, fold_ids
from biomodels.terminology.normalise import Normaliser, name_id
from biomodels.terminology.pairs import SPILLED, pairs_of_names
from biomodels.terminology.records import RECORDS, TYPES

NORMALISER = Normaliser()


def records(*rows):
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(RECORDS)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, RECORDS, strict=True)], schema=RECORDS)


def types(*rows):
    columns = list(zip(*rows, strict=True)) if rows else [(), ()]
    return pa.table([pa.array(column, pa.string()) for column in columns], schema=TYPES)


def all_pairs(*args, **options):
    found = list(pairs_of_names(*args, **options))
    return pa.concat_tables([SPILLED.empty_table(), *found])


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
    table, removed = build_names(records(*ROWS), types(*TYPE_ROWS), NORMALISER)
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
    expected, _ = build_names(records(*rows), types(*TYPE_ROWS), NORMALISER)
    pairs = all_pairs(expected, NORMALISER, 25, seed=2).sort_by("hash")
    shuffler.shuffle(rows)
    table, _ = build_names(records(*rows), types(*TYPE_ROWS[::-1]), NORMALISER)
    assert table.equals(expected)
    assert all_pairs(table, NORMALISER, 25, seed=2).sort_by("hash").equals(pairs)
    other = all_pairs(expected, NORMALISER, 25, seed=3)
    assert set(other["hash"].to_pylist()) != set(pairs["hash"].to_pylist())


def test_pairs_hold_normalised_strings_once_and_are_capped():
    table, _ = build_names(records(*ROWS), types(), NORMALISER)
    pairs = all_pairs(table, NORMALISER, 50, seed=1).to_pylist()
    assert {(row["concept_id"], frozenset((row["name_1"], row["name_2"]))) for row in pairs} == {
        ("C1", frozenset(("head ache", "kopfweh"))),
        ("C2", frozenset(("apple", "zebra"))),
    }
    for row in pairs:
        assert name_id(row["name_1"]) < name_id(row["name_2"])
        languages = {"head ache": "en", "kopfweh": "de", "apple": "es", "zebra": "de"}
        assert (row["language_1"], row["language_2"]) == (languages[row["name_1"]], languages[row["name_2"]])
        assert row["weight"] == 1.0
    cased, _ = build_names(records(*ROWS), types(), Normaliser(False))
    assert len(all_pairs(cased, Normaliser(False), 50, seed=1)) == 3 + 1
    many = records(*[("C", f"name {n}", "en", "S", "PT", 0, 0) for n in range(3000)])
    assert len(all_pairs(build_names(many, types(), NORMALISER)[0], NORMALISER, 50, seed=1)) == 50


def test_empty_tables():
    table, removed = build_names(records(), types(), NORMALISER)
    assert len(table) == removed == 0
    assert len(all_pairs(table, NORMALISER, 50, seed=1)) == 0
    assert len(choose(candidates(table, 1), 3)) == 0


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
    names, _ = build_names(records(*rows), types(), NORMALISER)
    chosen = choose(candidates(names, seed=1), 10)
    assert {fold(text) for text in chosen["mention"].to_pylist()} == {"strasse", "alone"}
    held_out = np.sort(fold_ids(["Alone", "Strasse"]))
    rest, removed = build_names(records(*rows), types(), NORMALISER, held_out)
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
