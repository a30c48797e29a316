"""The order, the sample and the distinct rows of examples; triples of NLI rows."""

from __future__ import annotations

import random

import pyarrow as pa

from biomodels.sentences.examples import keyed_table, nli_table, ordered, smallest, triples
from biomodels.sentences.readers import Example, Nli

EXAMPLES = [Example(f"sentence {i}", f"pair {i}", (f"negative {i}",)) for i in range(50)]


def test_the_order_is_one_of_content_and_seed():
    shuffled = random.Random(1).sample(EXAMPLES, 50)
    one, other = (ordered(keyed_table(rows, 13), distinct=True) for rows in (EXAMPLES, shuffled))
    assert one.equals(other)
    assert one["sentence_1"].to_pylist() != [example.sentence_1 for example in EXAMPLES]
    assert not one.select([0]).equals(ordered(keyed_table(EXAMPLES, 14), distinct=True).select([0]))


def test_equal_rows_count_once_unless_kept():
    table = keyed_table(EXAMPLES + EXAMPLES[:20] + EXAMPLES[:5], 13)
    assert ordered(table, distinct=True).equals(ordered(keyed_table(EXAMPLES, 13), distinct=True))
    assert ordered(table, distinct=False).num_rows == 75


def test_rows_whose_keys_clash_are_told_apart_by_content():
    table = keyed_table([Example("b"), Example("a"), Example("b")], 13)
    table = table.set_column(3, table.schema.field("key"), pa.array([7, 7, 7], pa.uint64()))
    assert ordered(table, distinct=True)["sentence_1"].to_pylist() == ["a", "b"]
    assert ordered(table, distinct=False)["sentence_1"].to_pylist() == ["a", "b", "b"]


def test_a_sample_of_pieces_is_the_sample_of_the_whole():
    pieces = [smallest(keyed_table(EXAMPLES[i : i + 10], 3), 7, distinct=True) for i in range(0, 50, 10)]
    whole = smallest(keyed_table(EXAMPLES, 3), 7, distinct=True)
    assert smallest(pa.concat_tables(pieces), 7, distinct=True).equals(whole)


def test_triples_pair_each_entailment_with_a_contradiction_in_turn():
    rows = [Nli("p", f"e{i}", "entailment") for i in range(5)] + [Nli("p", f"c{i}", "contradiction") for i in range(2)]
    rows += [Nli("p", "n", "neutral"), Nli("p", "e0", "entailment"), Nli("p", "x", None)]
    rows += [Nli("p", "both", "entailment"), Nli("p", "both", "contradiction")]
    rows += [Nli("alone", "e", "entailment"), Nli("q", "c", "contradiction"), Nli("r", "n", "neutral")]
    examples, lacking = triples(nli_table(rows), seed=1)
    assert lacking == 3
    assert sorted(example.sentence_2 for example in examples) == ["e0", "e1", "e2", "e3", "e4"]
    assert {example.sentence_1 for example in examples} == {"p"}
    met = [example.hard_negatives for example in examples]
    assert sorted(met.count((f"c{i}",)) for i in range(2)) == [2, 3]
    random.Random(2).shuffle(rows)
    assert triples(nli_table(rows), seed=1) == (examples, lacking)
