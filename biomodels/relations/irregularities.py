"""What is odd about a sentence though it can be used: listed, so that nobody finds out by a wrong count."""

from __future__ import annotations

from collections.abc import Iterator

from biomodels.relations.records import Irregularity, Pair, Sentence, contains, overlap

KINDS = {
    "blank_edges": "the sentence starts or ends with white space, which the offsets count",
    "control_characters": "the sentence holds a line feed, carriage return or tab",
    "discontinuous": "a mention in several fragments",
    "double_escape": "a level of XML escapes was left in the text; it was undone and the offsets moved",
    "empty_sentence": "the sentence has no text",
    "identical_spans": "the two mentions of a pair are the same stretch of text",
    "marker_in_mention": "an entity marker was left in the mention's text; it was removed",
    "mention_differs": "the mention is not the text at its offsets; the offsets are believed",
    "mention_differs_in_blanks": "the mention is the text at its offsets but for white space",
    "missing_pairs": "the sentence does not list every two of its entities",
    "nested": "one mention of a pair lies inside the other",
    "overlapping": "the two mentions of a pair overlap, neither inside the other",
    "repeated_pair": "a pair was listed twice; the second was left out",
    "self_pair": "a pair of an entity with itself",
    "untyped_positive": "a positive pair without a type, though the corpus types its positives",
}
"""Every kind, with what it means."""


def inspect(sentence: Sentence, file: str, line: int) -> Iterator[Irregularity]:
    """Yield what is odd about a sentence, its mentions and its pairs."""

    def note(kind: str, item: str, detail: str = "") -> Irregularity:
        return Irregularity(kind, file, line, sentence.id, item, detail)

    text = sentence.text
    if not text.strip():
        yield note("empty_sentence", sentence.id)
    else:
        if text != text.strip():
            yield note("blank_edges", sentence.id)
        if any(character in text for character in "\n\r\t"):
            yield note("control_characters", sentence.id)
    for entity in sentence.entities:
        if len(entity.spans) > 1:
            yield note("discontinuous", entity.id, f"{entity.text!r} at {entity.spans}")
    for pair in sentence.pairs:
        kind = relation_of_spans(pair)
        if kind is not None:
            yield note(kind, pair.id, f"{pair.entity_1.text!r} and {pair.entity_2.text!r}")


def relation_of_spans(pair: Pair) -> str | None:
    """Say how the two mentions of a pair lie to each other, or None if they share no character."""
    first, second = pair.entity_1, pair.entity_2
    if first.id == second.id:
        return "self_pair"
    if first.spans == second.spans:
        return "identical_spans"
    if not overlap(first.spans, second.spans):
        return None
    nested = contains(first.spans, second.spans) or contains(second.spans, first.spans)
    return "nested" if nested else "overlapping"
