"""What every corpus reader yields: sentences with their entities and candidate pairs, and what was odd about them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from biomodels.schemas import RELATIONS
from biomodels.terminology.rejects import Reject

Span = tuple[int, int]
"""Start and end of a stretch of text, in code points, end exclusive."""

Spans = tuple[Span, ...]
"""The fragments of one mention, in the order of the text. A continuous mention has one."""


@dataclass(frozen=True)
class Entity:
    """A mention in a sentence. `text` is the mention as the corpus writes it."""

    id: str
    spans: Spans
    text: str
    type: str | None = None


@dataclass(frozen=True)
class Pair:
    """A candidate pair. `relation_type` is None for negatives, and where the corpus does not type its positives."""

    id: str
    entity_1: Entity
    entity_2: Entity
    label: bool
    relation_type: str | None = None


@dataclass(frozen=True)
class Irregularity:
    """One thing that a reader had to put up with: where it is (`item` is an entity's or pair's id), and what it is."""

    kind: str
    file: str
    line: int
    sentence_id: str
    item: str
    detail: str


@dataclass
class Sentence:
    """One sentence of a document. Its `document_id` is empty if it stands for input that could not be read."""

    document_id: str
    id: str
    text: str
    entities: list[Entity] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    irregularities: list[Irregularity] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)


def overlap(first: Spans, second: Spans) -> bool:
    """Say whether two mentions share a character."""
    return any(start < other_end and other_start < end for start, end in first for other_start, other_end in second)


def contains(outer: Spans, inner: Spans) -> bool:
    """Say whether every fragment of `inner` lies inside a fragment of `outer`."""
    return all(any(start <= s and e <= end for start, end in outer) for s, e in inner)


def mention_at(text: str, spans: Spans) -> str:
    """Return the text at a mention's fragments, joined by a blank."""
    return " ".join(text[start:end] for start, end in spans)


def relations_table(rows: Iterable[tuple[Sentence, Pair]]) -> pa.Table:
    """Return candidate pairs as a table (schema RELATIONS); `others` are the sentence's entities outside the pair."""
    return pa.Table.from_pylist([_row(sentence, pair) for sentence, pair in rows], schema=RELATIONS)


def _row(sentence: Sentence, pair: Pair) -> dict[str, object]:
    first, second = pair.entity_1, pair.entity_2
    others = [entity for entity in sentence.entities if entity.id not in (first.id, second.id)]
    return {
        "document_id": sentence.document_id,
        "sentence_id": sentence.id,
        "pair_id": pair.id,
        "text": sentence.text,
        "spans_1": _structs(first.spans),
        "spans_2": _structs(second.spans),
        "entity_1": first.text,
        "entity_2": second.text,
        "type_1": first.type,
        "type_2": second.type,
        "label": pair.label,
        "relation_type": pair.relation_type,
        "others": [{"type": entity.type, "spans": _structs(entity.spans)} for entity in others],
    }


def _structs(spans: Spans) -> list[dict[str, int]]:
    return [{"start": start, "end": end} for start, end in spans]
