"""Truncation loses neither entity, wherever they are and however long the text is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from biomodels.errors import UsageError
from biomodels.relations.markers import Example, prepare
from biomodels.relations.truncation import keep, tokenize


@pytest.fixture(scope="module")
def tokenizer(minilm):
    return AutoTokenizer.from_pretrained(minilm)


def example(before: int, between: int, after: int) -> Example:
    text = "left " * before + "aspirin " + "middle " * between + "warfarin" + " right" * after
    start, other = 5 * before, 5 * before + 8 + 7 * between
    return Example(text, ((start, start + 7),), ((other, other + 8),))


def shown(tokenizer, tokens, mask) -> str:
    return tokenizer.decode([i for i, inside in zip(tokens.input_ids, mask, strict=True) if inside])


def test_a_short_text_is_whole(tokenizer):
    marked = prepare(example(2, 1, 2), "plain")
    (tokens,) = tokenize(tokenizer, [marked], 64)
    assert tokens.input_ids == tokenizer(marked.text)["input_ids"] and tokens.cut == 0
    assert shown(tokenizer, tokens, tokens.entity_1) == "aspirin"
    assert shown(tokenizer, tokens, tokens.entity_2) == "warfarin"
    (parity,) = tokenize(tokenizer, [marked], 64, with_markers=True)
    assert shown(tokenizer, parity, parity.entity_1) == "$ aspirin $"


@pytest.mark.parametrize(("before", "between", "after"), [(100, 0, 0), (0, 100, 0), (0, 0, 100), (60, 60, 60)])
def test_entities_and_their_context_stay(tokenizer, before, between, after):
    (tokens,) = tokenize(tokenizer, [prepare(example(before, between, after), "plain")], 32)
    assert len(tokens.input_ids) == 32 and tokens.cut > 0
    assert shown(tokenizer, tokens, tokens.entity_1) == "aspirin"
    assert shown(tokenizer, tokens, tokens.entity_2) == "warfarin"
    text = tokenizer.decode(tokens.input_ids, skip_special_tokens=True)
    assert text.count("$") == text.count("#") == 2
    words = [word for word, count in (("left", before), ("middle", between), ("right", after)) if count]
    assert all(word in text for word in words)


def test_a_text_of_100_000_words(tokenizer):
    (tokens,) = tokenize(tokenizer, [prepare(example(50_000, 50_000, 0), "plain")], 128)
    assert len(tokens.input_ids) == 128 and tokens.entity_1.any() and tokens.entity_2.any()


def test_mentions_longer_than_the_room_keep_their_starts(tokenizer):
    text = "alpha " * 50 + "and " + "beta " * 50
    marked = prepare(Example(text, ((0, 299),), ((304, 553),)), "plain")
    (tokens,) = tokenize(tokenizer, [marked], 20)
    assert len(tokens.input_ids) == 20
    assert tokens.entity_1.sum() == tokens.entity_2.sum() == 7
    with pytest.raises(UsageError, match="has room for 5 tokens"):
        tokenize(tokenizer, [marked], 7)


def test_a_mention_without_tokens_still_has_a_place(tokenizer):
    text = "a \u200b b"
    assert not tokenizer("\u200b", add_special_tokens=False)["input_ids"]
    for markers in ("plain", "none"):
        (tokens,) = tokenize(tokenizer, [prepare(Example(text, ((2, 3),), ((4, 5),)), markers)], 16)
        assert tokens.entity_1.any() and tokens.entity_2.any()


@settings(deadline=None)
@given(st.data())
def test_what_is_kept(data):
    count = data.draw(st.integers(2, 60))
    first, second = (np.zeros(count, dtype=bool) for _ in range(2))
    for mention in (first, second):
        start = data.draw(st.integers(0, count - 1))
        mention[start : data.draw(st.integers(start + 1, count))] = True
    room = data.draw(st.integers(2, count))
    kept = keep(first, second, first | second, room)
    assert len(kept) == min(room, count) and (np.diff(kept) > 0).all()
    assert first[kept].any() and second[kept].any()
