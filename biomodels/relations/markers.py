"""What a model reads of a pair: the sentence with its two entities marked, or hidden behind placeholders, or both.

Blinding comes first and leaves each entity one place; markers then go round the places. Positions are carried along,
so a `$` or `#` that the text already holds is never taken for a marker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from biomodels.relations.records import Span, Spans, overlap

Markers = Literal["none", "plain", "typed"]
"""none; `$ e1 $` and `# e2 #` (R-BERT, TL-BERT); `<S:TYPE> e1 </S:TYPE>` and `<O:TYPE> e2 </O:TYPE>` (PURE)."""

Scope = Literal["none", "target", "all"]
"""Which entities of the sentence blinding hides."""


@dataclass(frozen=True)
class Example:
    """A pair in its sentence, as a row of the dataset `relations` has it."""

    text: str
    spans_1: Spans
    spans_2: Spans
    type_1: str | None = None
    type_2: str | None = None
    others: tuple[Spans, ...] = ()

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Example:
        """Take it from a row of the dataset."""
        return cls(
            row["text"],
            _spans(row["spans_1"]),
            _spans(row["spans_2"]),
            row["type_1"],
            row["type_2"],
            tuple(_spans(entity["spans"]) for entity in row.get("others") or ()),
        )


@dataclass(frozen=True)
class Placeholders:
    """What stands for hidden entities: the two of the pair, both where they overlap, and the sentence's others."""

    first: str = "@ENTITY1$"
    second: str = "@ENTITY2$"
    both: str = "@ENTITY1-ENTITY2$"
    other: str = "@ENTITY$"

    @classmethod
    def alike(cls, name: str) -> Placeholders:
        """The two look the same, as in BLUE and BLURB: `@DRUG$`, and `@DRUG-DRUG$` where they overlap."""
        return cls(f"@{name}$", f"@{name}$", f"@{name}-{name}$", f"@{name}$")

    @classmethod
    def numbered(cls, name: str) -> Placeholders:
        """The two can be told apart, and from others: `PROTEIN1`, `PROTEIN2`, `PROTEIN`."""
        return cls(f"{name}1", f"{name}2", f"{name}1-{name}2", name)


class Marked(NamedTuple):
    """A text for a model, with the places of the two entities in it.

    Attributes:
        text: with markers and placeholders.
        spans_1, spans_2: each mention, or its placeholder, without markers.
        marked_1, marked_2: the same with the markers.
    """

    text: str
    spans_1: Spans
    spans_2: Spans
    marked_1: Spans
    marked_2: Spans


def prepare(
    example: Example, markers: Markers = "plain", blinding: Scope = "none", placeholders: Placeholders | None = None
) -> Marked:
    """Blind and mark a pair.

    Args:
        example: the pair.
        markers: what is put round the two entities.
        blinding: which entities are hidden.
        placeholders: what hides them.

    Raises:
        ValueError: an entity has no span, or one outside of the text.
    """
    for spans in (example.spans_1, example.spans_2):
        if not spans or spans[0][0] < 0 or spans[-1][1] > len(example.text):
            raise ValueError(f"spans {spans} do not lie in a text of {len(example.text)} characters")
    return mark(blind(example, blinding, placeholders or Placeholders()), markers)


def blind(example: Example, scope: Scope, placeholders: Placeholders) -> Example:
    """Replace entities by placeholders.

    Entities of the pair that overlap are hidden together; a discontinuous one is hidden at its first own fragment, and
    its other fragments are taken out, so that each entity has one place. Another entity that overlaps one of the pair
    is taken out where it reaches beyond it.
    """
    if scope == "none":
        return example
    edits: list[tuple[Span, str]] = []
    places: dict[int, int] = {}
    regions = _regions({1: example.spans_1, 2: example.spans_2})
    for region, members in regions:
        new = members - places.keys()
        label = {frozenset({1}): placeholders.first, frozenset({2}): placeholders.second}.get(
            frozenset(new), placeholders.both if new else ""
        )
        places |= dict.fromkeys(new, len(edits))
        edits.append((region, label))
    if scope == "all":
        edits += _hide_others(example, [region for region, _ in regions], placeholders.other)
    text, moved = _replace(example.text, edits)
    return Example(text, (moved[places[1]],), (moved[places[2]],), example.type_1, example.type_2)


def mark(example: Example, markers: Markers) -> Marked:
    """Put markers round each fragment of the two entities.

    Where both begin or end at one place, the markers nest: the longer entity's are outside, and the first's if they
    are the same stretch. Where they overlap and neither holds the other, the markers cross, as the entities do.
    """
    if markers == "none":
        return Marked(example.text, example.spans_1, example.spans_2, example.spans_1, example.spans_2)
    inserts: list[tuple[int, int, int, int, int, str]] = []
    for entity, spans in ((1, example.spans_1), (2, example.spans_2)):
        opening, closing = marker_strings(entity, example.type_1 if entity == 1 else example.type_2, markers)
        for fragment, (start, end) in enumerate(spans):
            length = end - start
            # At one place: what ends there comes before what starts there; outer openings first, outer closings last.
            inserts.append((start, 1, -length, entity, fragment, f"{opening} "))
            inserts.append((end, 0, length, -entity, fragment, f" {closing}"))
    pieces: list[str] = []
    bounds: dict[tuple[int, int, int], tuple[int, int]] = {}
    length = last = 0
    for place, opens, _, entity, fragment, marker in sorted(inserts):
        pieces += [example.text[last:place], marker]
        length += place - last
        bounds[abs(entity), fragment, opens] = (length, length + len(marker))
        length += len(marker)
        last = place
    pieces.append(example.text[last:])

    def spans_of(entity: int, count: int, inner: bool) -> Spans:
        return tuple(
            (bounds[entity, fragment, 1][1 if inner else 0], bounds[entity, fragment, 0][0 if inner else 1])
            for fragment in range(count)
        )

    counts = (len(example.spans_1), len(example.spans_2))
    inner = [spans_of(entity, count, True) for entity, count in zip((1, 2), counts, strict=True)]
    outer = [spans_of(entity, count, False) for entity, count in zip((1, 2), counts, strict=True)]
    return Marked("".join(pieces), inner[0], inner[1], outer[0], outer[1])


def marker_strings(entity: int, kind: str | None, markers: Markers) -> tuple[str, str]:
    """Return the opening and closing marker of the first or second entity."""
    if markers == "plain":
        return ("$", "$") if entity == 1 else ("#", "#")
    role, name = "S" if entity == 1 else "O", (kind or "ENTITY").upper()
    return f"<{role}:{name}>", f"</{role}:{name}>"


def special_tokens(types: Sequence[str | None]) -> list[str]:
    """Return the typed markers of a corpus with these entity types: tokens to add to a tokenizer."""
    return sorted({marker for kind in types for entity in (1, 2) for marker in marker_strings(entity, kind, "typed")})


def _spans(structs: Sequence[Mapping[str, int]]) -> Spans:
    return tuple((span["start"], span["end"]) for span in structs)


def _regions(entities: Mapping[int, Spans]) -> list[tuple[Span, set[int]]]:
    """Join overlapping fragments; return the regions in order with the entities that lie in each."""
    regions: list[tuple[Span, set[int]]] = []
    for (start, end), entity in sorted((span, entity) for entity, spans in entities.items() for span in spans):
        if regions and start < regions[-1][0][1]:
            (first, last), members = regions[-1]
            regions[-1] = ((first, max(last, end)), members | {entity})
        else:
            regions.append(((start, end), {entity}))
    return regions


def _hide_others(example: Example, taken: list[Span], label: str) -> list[tuple[Span, str]]:
    """Return the edits that hide the entities outside of the pair, as far as those of the pair do not cover them."""
    named: set[int] = set()
    edits: list[tuple[Span, str]] = []
    near = {number for number, spans in enumerate(example.others) if overlap(spans, tuple(taken))}
    for region, members in _regions(dict(enumerate(example.others))):
        shown = label if members - named - near else ""
        named |= members
        for piece in _outside(region, taken):
            edits.append((piece, shown))
            shown = ""
    return edits


def _outside(region: Span, taken: list[Span]) -> list[Span]:
    """Return the parts of a region that no other covers."""
    pieces = [region]
    for start, end in taken:
        pieces = [
            piece
            for first, last in pieces
            for piece in ((first, min(last, start)), (max(first, end), last))
            if piece[0] < piece[1]
        ]
    return pieces


def _replace(text: str, edits: list[tuple[Span, str]]) -> tuple[str, list[Span]]:
    """Replace stretches that do not overlap; return the text and where each replacement lies, in the order given."""
    pieces: list[str] = []
    places: list[Span] = [(0, 0)] * len(edits)
    length = last = 0
    for number in sorted(range(len(edits)), key=lambda number: edits[number][0]):
        (start, end), label = edits[number]
        pieces += [text[last:start], label]
        length += start - last
        places[number] = (length, length + len(label))
        length += len(label)
        last = end
    return "".join([*pieces, text[last:]]), places
