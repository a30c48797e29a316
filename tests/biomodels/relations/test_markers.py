"""Markers and blinding of every arrangement of two entities."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from biomodels.relations.markers import Example, Placeholders, prepare, special_tokens

TEXT = "loop and thiazide diuretics raise lithium"
LOOP, THIAZIDE, LITHIUM = ((0, 4), (18, 27)), ((9, 27),), ((34, 41),)


def shown(marked) -> tuple[list[str], list[str]]:
    return tuple([marked.text[a:b] for a, b in spans] for spans in (marked.spans_1, marked.spans_2))


@pytest.mark.parametrize(
    ("spans_1", "spans_2", "text"),
    [
        (THIAZIDE, LITHIUM, "loop and $ thiazide diuretics $ raise # lithium #"),
        (LITHIUM, THIAZIDE, "loop and # thiazide diuretics # raise $ lithium $"),
        (LOOP, LITHIUM, "$ loop $ and thiazide $ diuretics $ raise # lithium #"),
        (((9, 27),), ((9, 17),), "loop and $ # thiazide # diuretics $ raise lithium"),
        (((18, 27),), ((9, 27),), "loop and # thiazide $ diuretics $ # raise lithium"),
        (((9, 27),), ((9, 27),), "loop and $ # thiazide diuretics # $ raise lithium"),
        (((0, 17),), ((9, 27),), "$ loop and # thiazide $ diuretics # raise lithium"),
    ],
)
def test_plain_markers(spans_1, spans_2, text):
    marked = prepare(Example(TEXT, spans_1, spans_2), "plain")
    assert marked.text == text
    first, second = shown(marked)
    if spans_1 == LOOP:
        assert (first, second) == (["loop", "diuretics"], ["lithium"])
    for outer, inner, sign in ((marked.marked_1, marked.spans_1, "$"), (marked.marked_2, marked.spans_2, "#")):
        for (a, b), (c, d) in zip(outer, inner, strict=True):
            assert marked.text[a:c] == f"{sign} " and marked.text[d:b] == f" {sign}"


def test_typed_markers_and_their_tokens():
    example = Example(TEXT, THIAZIDE, LITHIUM, "group", None)
    marked = prepare(example, "typed")
    assert marked.text == "loop and <S:GROUP> thiazide diuretics </S:GROUP> raise <O:ENTITY> lithium </O:ENTITY>"
    assert special_tokens(["group", "group"]) == ["</O:GROUP>", "</S:GROUP>", "<O:GROUP>", "<S:GROUP>"]


@pytest.mark.parametrize(
    ("spans_1", "spans_2", "others", "scope", "text"),
    [
        (THIAZIDE, LITHIUM, (LOOP,), "none", TEXT),
        (THIAZIDE, LITHIUM, (), "target", "loop and @DRUG1$ raise @DRUG2$"),
        (LOOP, LITHIUM, (), "target", "@DRUG1$ and thiazide  raise @DRUG2$"),
        (LOOP, THIAZIDE, (), "target", "@DRUG1$ and @DRUG2$ raise lithium"),
        (((9, 27),), ((9, 17),), (), "target", "loop and @DRUG1-DRUG2$ raise lithium"),
        (((9, 27),), ((9, 27),), (LITHIUM,), "all", "loop and @DRUG1-DRUG2$ raise @DRUG$"),
        (((0, 4),), LITHIUM, (((9, 17),), ((9, 27),)), "all", "@DRUG1$ and @DRUG$ raise @DRUG2$"),
        (((9, 17),), LITHIUM, (((9, 27),), ((0, 4),)), "all", "@DRUG$ and @DRUG1$ raise @DRUG2$"),
    ],
)
def test_blinding(spans_1, spans_2, others, scope, text):
    placeholders = Placeholders("@DRUG1$", "@DRUG2$", "@DRUG1-DRUG2$", "@DRUG$")
    marked = prepare(Example(TEXT, spans_1, spans_2, others=others), "none", scope, placeholders)
    assert marked.text == text
    if scope != "none":
        assert all("@DRUG" in place and place in text for places in shown(marked) for place in places)


def test_styles_of_placeholders():
    example = Example(TEXT, THIAZIDE, LITHIUM)
    assert prepare(example, "none", "target", Placeholders.alike("DRUG")).text == "loop and @DRUG$ raise @DRUG$"
    assert prepare(example, "none", "target", Placeholders.numbered("DRUG")).text == "loop and DRUG1 raise DRUG2"
    assert prepare(example, "plain", "target", Placeholders.alike("X")).text == "loop and $ @X$ $ raise # @X$ #"


def test_spans_outside_of_the_text():
    for spans in ((), ((0, 99),)):
        with pytest.raises(ValueError, match="do not lie in a text"):
            prepare(Example(TEXT, spans, LITHIUM))


spans = st.lists(st.integers(0, 20), min_size=2, max_size=6, unique=True).map(
    lambda ends: tuple(zip(sorted(ends)[0::2], sorted(ends)[1::2], strict=False))
)


@settings(deadline=None)
@given(first=spans, second=spans, others=st.lists(spans, max_size=3), text=st.text("ab$# ", min_size=20, max_size=24))
def test_entities_are_found_in_what_was_made(first, second, others, text):
    example = Example(text, first, second, others=tuple(others))
    marked = prepare(example, "plain")
    bare = [marked.text[a:b] for a, b in marked.spans_1]
    for piece, (a, b) in zip(bare, first, strict=True):
        inside = any(a <= c <= b for span in second for c in span)
        assert piece == text[a:b] or inside  # the other's markers may lie in it
    assert len(marked.text) == len(text) + 4 * (len(first) + len(second))
    blinded = prepare(example, "none", "all")
    assert len(blinded.spans_1) == len(blinded.spans_2) == 1
    for a, b in (*blinded.spans_1, *blinded.spans_2):
        assert blinded.text[a:b].startswith("@ENTITY")
