"""The baseline learns from words before, between and after, never from names; degenerate training data are refused."""

from __future__ import annotations

import numpy as np
import pytest

from biomodels.errors import InputError
from biomodels.relations.bag_of_words import BagOfWords, stretches
from biomodels.relations.markers import Example


def pair(first: str, verb: str, second: str, before: str = "we saw") -> Example:
    text = f"{before} {first} {verb} {second} today"
    start = len(before) + 1
    other = text.index(second)
    return Example(text, ((start, start + len(first)),), ((other, other + len(second)),))


def test_stretches():
    text = "in cells A1 binds B2 and C3 now"
    example = Example(text, ((18, 20),), ((9, 11),), others=(((25, 27),),))
    assert stretches(example) == ("in cells ", " binds ", " and entityother now")
    nested = Example(text, ((9, 20),), ((9, 11),))
    assert stretches(nested) == ("in cells ", "", " and C3 now")


def test_it_learns_words_and_types_but_no_names():
    examples, labels, types = [], [], []
    for number in range(40):
        related = number % 4 == 0
        verb = ("inhibits" if number % 8 else "raises levels of") if related else "was seen with"
        examples.append(pair(f"gene{number % 4}", verb, f"other{number}"))
        labels.append(related)
        types.append(("effect" if number % 8 else "mechanism") if related else None)
    model = BagOfWords().fit(examples, np.array(labels), types)
    scores, kinds = model.predict([pair("x", "inhibits", "y"), pair("gene0", "was seen with", "y")])
    assert scores[0] > 0.5 > scores[1] and kinds[0] == "effect"
    assert model.predict([])[1] == []


def test_one_type_and_no_types():
    examples = [pair("a", "inhibits" if number % 2 else "meets", "b") for number in range(8)]
    labels = np.arange(8) % 2 == 1
    assert (
        BagOfWords().fit(examples, labels, ["PPI" if label else None for label in labels]).predict(examples)[1]
        == ["PPI"] * 8
    )
    assert BagOfWords().fit(examples, labels, [None] * 8).predict(examples)[1] == [None] * 8


def test_degenerate_training_data():
    example = pair("a", "inhibits", "b")
    with pytest.raises(InputError, match="2 pairs, all positive"):
        BagOfWords().fit([example, example], np.array([True, True]), [None, None])
    bare = Example("a b", ((0, 1),), ((2, 3),))
    with pytest.raises(InputError, match="no word in common"):
        BagOfWords().fit([bare, bare], np.array([True, False]), [None, None])


def test_a_text_of_100_000_words():
    long = pair("a", "inhibits", "b", before="word " * 100_000)
    model = BagOfWords().fit(
        [pair("a", "inhibits", "b"), pair("a", "meets", "b"), long], np.array([1, 0, 1], bool), [None] * 3
    )
    assert 0 <= model.predict([long])[0][0] <= 1
