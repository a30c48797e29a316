"""Choice, orientation and order of synonym pairs, and their text form."""

import io
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from biomodels.artifacts import Artifact
from biomodels.errors import InputError, RejectRateError
from biomodels.terminology import pairs
from biomodels.terminology.blocks import Block
from biomodels.terminology.normalise import Normaliser
from biomodels.terminology.pairs import choose_pairs, pair_indices
from biomodels.terminology.pairs_import import draw, import_pairs_text, oriented
from biomodels.terminology.pairs_text import PairsTextFormat, TitlesFormat, write_pairs_text


@settings(max_examples=60, deadline=None)
@given(names=st.integers(0, 40), cap=st.integers(0, 60), key=st.integers(0, 2**64 - 1))
def test_chosen_pairs_are_distinct_combinations_up_to_the_cap(names, cap, key):
    first, second = choose_pairs(names, cap, key)
    total = names * (names - 1) // 2
    assert len(first) == (total if cap == 0 else min(cap, total))
    assert (first < second).all() and (first >= 0).all() and (second < max(names, 1)).all()
    assert len(set(zip(first.tolist(), second.tolist(), strict=True))) == len(first)


def test_a_huge_concept_is_sampled_without_listing_its_combinations():
    first, second = choose_pairs(3_000_000, 50, key=5)  # 4.5e12 combinations
    assert len(first) == 50 and (first < second).all() and second.max() < 3_000_000


def test_the_choice_is_uniform_over_combinations():
    counts = np.zeros((6, 6))
    for key in range(4000):
        np.add.at(counts, choose_pairs(6, 5, key), 1)
    cells = counts[np.triu_indices(6, 1)]
    assert cells.sum() == 20_000
    assert np.abs(cells - 20_000 / 15).max() < 5 * np.sqrt(20_000 / 15)


def indices(concepts, max_pairs, seed=1):
    return [
        pair
        for first, second in pair_indices(np.array(concepts, dtype=np.int64), max_pairs, seed)
        for pair in zip(first.tolist(), second.tolist(), strict=True)
    ]


def test_pairs_of_many_concepts_equal_those_of_each_alone():
    concepts = [7] + [9] * 3 + [11] * 12 + [13] * 3
    found = indices(concepts, max_pairs=10)
    assert len(set(found)) == len(found) == 3 + 10 + 3
    assert all(concepts[i] == concepts[j] and i < j for i, j in found)
    assert {(i + 4, j + 4) for i, j in indices([11] * 12, max_pairs=10)} <= set(found)
    assert indices([], 10) == []


@pytest.mark.parametrize("max_pairs", [0, 10, 50])
def test_pairs_do_not_depend_on_how_many_are_held_at_once(monkeypatch, max_pairs):
    concepts = [concept for concept in range(30) for _ in range(concept)]
    expected = indices(concepts, max_pairs)
    assert len(set(expected)) == len(expected)
    monkeypatch.setattr(pairs, "PAIRS_AT_ONCE", 64)
    assert sorted(indices(concepts, max_pairs)) == sorted(expected)
    assert max(len(first) for first, _ in pair_indices(np.array(concepts), max_pairs, 1)) <= 64


def check_rejects(rejects, lines, reasons):
    assert [(item.file, item.line) for item in rejects] == [("pairs.txt", line) for line in lines]
    assert all(reason in item.reason for reason, item in zip(reasons, rejects, strict=True))


def test_text_rows_and_rejects():
    data = b"C1||A||b\r\n\nC2||a||b||c\nC3||a|| \n||a||b\nC4||a\nC5||\xff||b\nC6||x || y"
    found = PairsTextFormat(Normaliser()).parse(Block(0, 11, data), "dir/pairs.txt")
    assert found.rows == [("C1", "a", "b"), ("C6", "x", "y")]
    reasons = ["4 fields", "empty second name", "empty concept id", "2 fields", "not UTF-8"]
    check_rejects(found.rejects, (13, 14, 15, 16, 17), reasons)


def test_titles_around_tabs_or_spaces():
    data = b"the die\nThe\tder\r\nHeart  Attack\tInfarkt\n\nutc UTC\na b c\nalone\nx\t\nx\ty\tz\n" + b"x \xff"
    block = Block(0, 5, data)
    found = TitlesFormat(Normaliser(), ("en", "de")).parse(block, "dir/pairs.txt")
    assert found.rows == [
        *(("en-de:the", "the", "die"), ("en-de:the", "the", "der")),
        *(("en-de:heart attack", "heart attack", "infarkt"), ("en-de:utc", "utc", "utc")),
    ]
    reasons = ["3 words and no tab", "one word and no tab", "2 columns, 1 of them empty", "3 columns", "not UTF-8"]
    check_rejects(found.rejects, range(10, 15), reasons)
    cased = TitlesFormat(Normaliser(False), ("en", "de"), "line").parse(block, "x").rows
    assert [row[0] for row in cased] == ["en-de:5", "en-de:6", "en-de:7", "en-de:9"] and cased[1][1] == "The"


def test_weights_are_numbers_of_copies_on_average():
    rows = [(f"C{n // 3}", f"a{n}", f"b{n}") for n in range(6000)]
    table = oriented(rows, ("en", "de"), seed=1)
    assert all((row["language_1"] == "en") == (row["name_1"][0] == "a") for row in table.to_pylist())
    copies = {}
    for weight in (0.25, 1.0, 2.3):
        drawn = draw(table, weight, seed=5)
        assert len(set(drawn["hash"].to_pylist())) == len(drawn)
        assert abs(len(drawn) - weight * 6000) < 5 * np.sqrt(6000 / 4)
        assert set(drawn["weight"].to_pylist()) == {1.0}
        copies[weight] = set(drawn["hash"].to_pylist())
    assert copies[0.25] < copies[1.0] == set(table["hash"].to_pylist()) < copies[2.3]
    assert set(draw(table, 0.25, seed=6)["hash"].to_pylist()) != copies[0.25]
    heavy = table.set_column(6, "weight", pa.array([2.0, *[0.0] * 5999], pa.float32()))
    assert draw(heavy, 1.5, seed=1)["name_1"].to_pylist() == [table["name_1"][0].as_py()] * 3


def test_import_is_shuffled_without_duplicates_and_independent_of_line_order(tmp_path):
    lines = [f"C{number % 50:03d}||Name {number}||other  {number}" for number in range(1000)]
    lines += ["C001||other 1||name 1", "C002||Same||same"]
    outs = []
    for turn in range(2):
        path = tmp_path / f"{turn}.txt"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        outs.append(import_pairs_text(str(path), str(tmp_path / f"out{turn}"), seed=3))
        random.Random(turn).shuffle(lines)
    assert outs[0].manifest.files == outs[1].manifest.files
    assert outs[0].facts["pairs"] == 1000
    assert outs[0].facts["dropped"] == {"identical": 1, "duplicate": 1}
    sink = io.BytesIO()
    assert write_pairs_text(outs[0], sink) == (1000, 0)
    written = sink.getvalue().decode().splitlines()
    assert written != sorted(written)
    assert {frozenset(line.split("||")) for line in written} == {
        frozenset((f"C{number % 50:03d}", f"name {number}", f"other {number}")) for number in range(1000)
    }
    again = import_pairs_text(str(tmp_path / "1.txt"), str(tmp_path / "out1"), seed=3)
    assert again.digest == Artifact.open(str(tmp_path / "out1"), "pairs").digest


def test_import_of_bad_files(tmp_path):
    path = tmp_path / "bad.txt"
    path.write_text("C1||a||b\nC2||stray||x||y\n", encoding="utf-8")
    with pytest.raises(RejectRateError, match=r"1 of 2 rows .*bad\.txt:2: has 4 fields"):
        import_pairs_text(str(path), str(tmp_path / "out"))
    tolerant = import_pairs_text(str(path), str(tmp_path / "tolerant"), max_reject_rate=0.5)
    assert tolerant.facts["rejects"] == 1
    table = tolerant.read_table(tolerant.files("rejects/")[0])
    assert table.to_pylist()[0]["content"] == "C2||stray||x||y"
    path.write_text("C1||same||SAME\n", encoding="utf-8")
    with pytest.raises(InputError, match="holds no pair"):
        import_pairs_text(str(path), str(tmp_path / "none"))
