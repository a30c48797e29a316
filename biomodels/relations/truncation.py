"""Marked texts to tokens of bounded number in which both entities are always there.

Cutting the end of a text, as tokenizers do, loses entities of long sentences. Here the tokens that are farthest from
both entities go first, from the middle of the text as well, so that each keeps its context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from biomodels.errors import UsageError
from biomodels.relations.markers import Marked
from biomodels.relations.records import Spans

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Tokens:
    """One text for a model, special tokens included.

    Attributes:
        input_ids: (L,) token ids.
        entity_1, entity_2: (L,) which tokens are of each entity; at least one is.
        cut: how many tokens were left out.
    """

    input_ids: list[int]
    entity_1: Bools
    entity_2: Bools
    cut: int


def tokenize(tokenizer: Any, texts: Sequence[Marked], max_length: int, *, with_markers: bool = False) -> list[Tokens]:
    """Tokenize marked texts.

    Args:
        tokenizer: a Hugging Face fast tokenizer. Typed markers should be among its tokens.
        texts: as `markers.prepare` makes them.
        max_length: most tokens of one, special tokens included.
        with_markers: whether an entity's tokens include its markers, as in R-BERT; else the mention alone.

    Raises:
        UsageError: `max_length` has no room for one token of each entity and the markers, or the tokenizer does not put
            its special tokens round a text.
    """
    prefix, suffix = _special(tokenizer)
    room = max_length - len(prefix) - len(suffix)
    encoded = tokenizer(
        [text.text for text in texts],
        add_special_tokens=False,
        truncation=False,
        return_offsets_mapping=True,
        return_attention_mask=False,
        verbose=False,
    )
    return [
        _tokens(text, ids, offsets, (prefix, suffix), room=room, with_markers=with_markers)
        for text, ids, offsets in zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True)
    ]


def keep(mention_1: Bools, mention_2: Bools, marked: Bools, room: int) -> Ints:
    """Choose the tokens to keep, in order.

    First come one token of each mention and the markers, then the rest of the mentions from their starts, then the
    tokens next to either entity, then those farther away. Of equally far ones the earlier stays.

    Args:
        mention_1, mention_2: (N,) which tokens are of each mention.
        marked: (N,) which tokens are of a mention or a marker.
        room: how many may be kept.

    Raises:
        UsageError: `room` is too small for the first of these.
    """
    count = len(marked)
    if count <= room:
        return np.arange(count)
    mentions = mention_1 | mention_2
    rank = np.where(marked & ~mentions, 0, np.iinfo(np.int64).max // 2)
    for mention in (mention_1, mention_2):
        places = np.flatnonzero(mention)
        rank[places] = np.minimum(rank[places], np.arange(len(places)))
    needed = int((rank == 0).sum())
    if needed > room:
        raise UsageError(f"max_length has room for {room} tokens, but two entities with their markers need {needed}")
    inside = np.flatnonzero(marked)
    places = np.arange(count)
    after = np.searchsorted(inside, places)
    right = inside[np.minimum(after, len(inside) - 1)]
    left = inside[np.maximum(after - 1, 0)]
    distance = np.minimum(np.abs(right - places), np.abs(places - left))
    chosen: Ints = np.sort(np.lexsort((places, distance, rank))[:room])
    return chosen


def _tokens(
    text: Marked,
    ids: list[int],
    offsets: list[tuple[int, int]],
    special: tuple[list[int], list[int]],
    *,
    room: int,
    with_markers: bool,
) -> Tokens:
    prefix, suffix = special
    place = np.asarray(offsets, dtype=np.int64).reshape(-1, 2)
    mentions = [_inside(place, spans) for spans in (text.spans_1, text.spans_2)]
    marked = [_inside(place, spans) for spans in (text.marked_1, text.marked_2)]
    # A mention of characters that the tokenizer drops still has its markers, or the token that follows it.
    mentions = [
        mention if mention.any() else whole if whole.any() else _next(place, spans)
        for mention, whole, spans in zip(mentions, marked, (text.spans_1, text.spans_2), strict=True)
    ]
    kept = keep(mentions[0], mentions[1], marked[0] | marked[1] | mentions[0] | mentions[1], room)
    entities = [(whole if with_markers else mention)[kept] for mention, whole in zip(mentions, marked, strict=True)]
    chosen = [ids[row] for row in kept.tolist()]
    first, second = (np.pad(entity, (len(prefix), len(suffix))) for entity in entities)
    return Tokens([*prefix, *chosen, *suffix], first, second, len(ids) - len(chosen))


def _inside(place: Ints, spans: Spans) -> Bools:
    """Say which tokens share a character with a fragment."""
    found = np.zeros(len(place), dtype=bool)
    for start, end in spans:
        found |= (place[:, 0] < end) & (place[:, 1] > start)
    return found


def _next(place: Ints, spans: Spans) -> Bools:
    """Say which token stands where a mention without tokens would: the first after it, else the last of all."""
    found = np.zeros(len(place), dtype=bool)
    if len(place):
        found[min(int(np.searchsorted(place[:, 0], spans[0][0])), len(place) - 1)] = True
    return found


def _special(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the special tokens before and after a text."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    whole = tokenizer("a")["input_ids"]
    for start in range(len(whole) - len(bare) + 1):
        if whole[start : start + len(bare)] == bare:
            return whole[:start], whole[start + len(bare) :]
    raise UsageError("the tokenizer does not put its special tokens round a text")
