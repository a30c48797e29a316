"""Synonym pairs of a concept: which are chosen, how they are oriented, and the order in which they are stored.

A pair is known by its concept and the ids of its two normalised names, and everything random about it is a hash of
those under the seed. So the pairs do not depend on the order of the input's rows, nor on how the work was cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from biomodels.schemas import PAIRS
from biomodels.shuffle import bucket_of, gather, spill
from biomodels.terminology.hashing import UInts, hash_column, mix
from biomodels.terminology.names import run_starts

ROWS_PER_PART = 65_536
"""About how many pairs a part holds: small enough to be shuffled in memory, large enough to be read fast."""

MOST_BITS = 8
"""There are at most 2^8 parts; beyond 16.7 million pairs the parts grow instead."""

PAIRS_AT_ONCE = 1 << 20
"""About how many pairs of the names of a part are held in memory, however many a concept has."""

SPILLED = PAIRS.append(pa.field("hash", pa.uint64()))

EqualNames = Literal["none", "single", "repeated"]

_Ints = npt.NDArray[np.int64]
_DRAW, _ORDER = 1, 2


def choose_pairs(names: int, max_pairs: int, key: int) -> tuple[_Ints, _Ints]:
    """Choose pairs (i, j), i < j, among the combinations of `names` things.

    All of them if they are at most `max_pairs` or `max_pairs` is 0, else `max_pairs` of them, uniformly.

    Args:
        names: how many things there are, in an order that does not come from the input's rows.
        max_pairs: the cap; 0 for none.
        key: 64-bit key of the choice.

    Returns:
        Two int64 arrays of equal length.
    """
    total = names * (names - 1) // 2
    if max_pairs == 0 or total <= max_pairs:
        return _unrank(np.arange(total, dtype=np.int64))
    return _unrank(_sample(np.array([total]), max_pairs, mix(key))[0])


def _sample(totals: _Ints, count: int, keys: UInts) -> _Ints:
    """Draw `count` distinct numbers below each total by Floyd's algorithm, so that nothing as long as a total is made.

    Args:
        totals: int64[n], each above `count`.
        count: how many numbers to draw for each.
        keys: uint64[n], of the draws.

    Returns:
        int64[n, count].
    """
    tops = totals[:, None] - count + np.arange(count)
    draws = mix(keys[:, None], tops) % (tops + 1).astype(np.uint64)
    rows = []
    for first, row in zip(tops[:, 0].tolist(), draws.tolist(), strict=True):
        chosen: set[int] = set()
        for top, draw in enumerate(row, start=first):
            chosen.add(top if draw in chosen else draw)
        rows.append(list(chosen))
    return np.array(rows, dtype=np.int64).reshape(len(totals), count)


def _unrank(ranks: _Ints) -> tuple[_Ints, _Ints]:
    """Turn combination numbers r = j(j-1)/2 + i into (i, j)."""
    j = ((1 + np.sqrt(1 + 8 * ranks.astype(np.float64))) / 2).astype(np.int64)
    j -= j * (j - 1) // 2 > ranks
    j += (j + 1) * j // 2 <= ranks
    return ranks - j * (j - 1) // 2, j


def pair_indices(concepts: _Ints, max_pairs: int, seed: int) -> Iterator[tuple[_Ints, _Ints]]:
    """Choose the pairs of many concepts at once.

    Args:
        concepts: int64[n], the concept hash of each name; equal ones stand together, and inside a concept the names
            stand in an order of their own (by `name_id`).
        max_pairs: cap for each concept; 0 for none.
        seed: of the choice.

    Yields:
        Row numbers (first, second) of the pairs, first < second, at most about `PAIRS_AT_ONCE` at a time.
    """
    if not len(concepts):
        return
    starts = run_starts(concepts)
    sizes = np.diff(np.r_[starts, len(concepts)])
    totals = sizes * (sizes - 1) // 2
    whole = (totals <= max_pairs) | (max_pairs == 0)
    for total in np.unique(totals[whole & (totals > 0)]).tolist():  # concepts of one size have the same combinations
        alike = starts[whole & (totals == total)]
        for rank in range(0, total, PAIRS_AT_ONCE):
            i, j = _unrank(np.arange(rank, min(total, rank + PAIRS_AT_ONCE), dtype=np.int64))
            for some in _split(alike, len(i)):
                yield (some[:, None] + i).ravel(), (some[:, None] + j).ravel()
    for some in _split(np.flatnonzero(~whole), max_pairs):
        i, j = _unrank(_sample(totals[some], max_pairs, mix(seed, _DRAW, concepts[starts[some]])))
        yield (starts[some, None] + i).ravel(), (starts[some, None] + j).ravel()


def _split(items: _Ints, pairs: int) -> Iterator[_Ints]:
    """Cut items that have `pairs` pairs each into runs of at most about `PAIRS_AT_ONCE` pairs."""
    step = max(1, PAIRS_AT_ONCE // max(1, pairs))
    for start in range(0, len(items), step):
        yield items[start : start + step]


def _merged(pieces: Iterable[tuple[_Ints, _Ints]]) -> Iterator[tuple[_Ints, _Ints]]:
    """Join small pieces to pieces of about `PAIRS_AT_ONCE`."""
    waiting: list[tuple[_Ints, _Ints]] = []
    count = 0
    for piece in pieces:
        waiting.append(piece)
        count += len(piece[0])
        if count >= PAIRS_AT_ONCE:
            yield np.concatenate([first for first, _ in waiting]), np.concatenate([second for _, second in waiting])
            waiting, count = [], 0
    if waiting:
        yield np.concatenate([first for first, _ in waiting]), np.concatenate([second for _, second in waiting])


def pair_hash(seed: int, concepts: _Ints, name_ids_1: _Ints, name_ids_2: _Ints) -> UInts:
    """Return the 64-bit key that orders the pairs of a dataset and so shuffles them."""
    return mix(seed, _ORDER, concepts, name_ids_1, name_ids_2)


@dataclass(frozen=True)
class PairRecipe:
    """What decides which pairs are made of names.

    Attributes:
        max_pairs: the most pairs of one concept; 0 for no cap.
        seed: of the choice under the cap, and of the pairs' order.
        equal_names: "none" makes pairs of different strings only; "single" also pairs the string of a concept that has
            no other with itself, so that training sees the concept; "repeated" also pairs with itself each string that
            several rows of the concept bear. Such pairs do not count under the cap.
    """

    max_pairs: int = 50
    seed: int = 13
    equal_names: EqualNames = "none"


@dataclass(frozen=True)
class PairsOfNames:
    """The pairs of whole concepts, in the making.

    Attributes:
        counts: `concepts`, `strings` (distinct ones, summed over concepts), `single` (concepts of one string),
            `combinations` (of different strings, without a cap), `capped` (concepts with more than the cap) and
            `equal` (pairs of a string with itself).
        tables: the pairs (schema `SPILLED`), in no particular order, about `PAIRS_AT_ONCE` at a time.
    """

    counts: dict[str, int]
    tables: Iterator[pa.Table]


def pairs_of_names(names: pa.Table, strings: pa.Array, recipe: PairRecipe) -> PairsOfNames:
    """Make the pairs of whole concepts.

    A concept's names are its distinct normalised strings; the first of the rows that bear a string gives its language
    and source. Of two names the one with the smaller id is `name_1`. A pair's source is that of `name_1`.

    Args:
        names: rows of the names dataset, with all rows of each of their concepts.
        strings: each row's normalised name.
        recipe: which pairs.
    """
    concepts = hash_column(names["concept_id"])
    ids = names["name_id"].to_numpy()
    order = np.lexsort((ids, concepts))
    starts = run_starts(concepts[order], ids[order])
    borne = np.diff(np.r_[starts, len(order)])
    rows = order[starts]
    names, strings = names.take(pa.array(rows)).combine_chunks(), strings.take(pa.array(rows))
    concepts, ids = concepts[rows], ids[rows]
    sizes = np.diff(np.r_[run_starts(concepts), len(concepts)])
    equal = _equal_names(sizes, borne, recipe.equal_names)
    totals = sizes * (sizes - 1) // 2
    counts = {
        "concepts": len(sizes),
        "strings": len(rows),
        "single": int((sizes == 1).sum()),
        "combinations": int(totals.sum()),
        "capped": int((totals > recipe.max_pairs).sum()) if recipe.max_pairs else 0,
        "equal": len(equal),
    }
    chosen = chain(pair_indices(concepts, recipe.max_pairs, recipe.seed), [(equal, equal)] if len(equal) else [])
    languages, sources = (names[column].combine_chunks().dictionary_encode() for column in ("language", "source"))

    def tables() -> Iterator[pa.Table]:
        for first, second in _merged(chosen):
            one, two = pa.array(first), pa.array(second)
            columns = [
                names["concept_id"].take(one),
                strings.take(one),
                strings.take(two),
                languages.take(one).dictionary_decode(),
                languages.take(two).dictionary_decode(),
                sources.take(one).dictionary_decode(),
                pa.repeat(pa.scalar(1.0, pa.float32()), len(first)),
                pair_hash(recipe.seed, concepts[first], ids[first], ids[second]),
            ]
            yield pa.table(columns, schema=SPILLED)

    return PairsOfNames(counts, tables())


def _equal_names(sizes: _Ints, borne: _Ints, which: EqualNames) -> _Ints:
    """Return the numbers of the strings that pair with themselves.

    Args:
        sizes: number of strings of each concept.
        borne: by how many rows each string is borne.
        which: see `PairRecipe`.
    """
    if which == "single":
        alone: _Ints = (np.cumsum(sizes) - 1)[sizes == 1]
        return alone
    return np.flatnonzero(borne > 1) if which == "repeated" else np.empty(0, dtype=np.int64)


def spill_pairs(table: pa.Table, uri: str) -> None:
    """Spill pairs (schema `SPILLED`) by the top bits of their hash."""
    spill(table, bucket_of(table["hash"].to_numpy(), MOST_BITS), MOST_BITS, uri)


def gather_part(spills: list[str], part: int, bits: int) -> tuple[pa.Table, int]:
    """Collect part `part` of 2^`bits`: sorted by hash, equal pairs once.

    Returns:
        The rows (schema PAIRS) and how many duplicates were dropped.
    """
    width = 1 << (MOST_BITS - bits)
    table = gather(spills, part * width, (part + 1) * width, SPILLED)
    hashes = table["hash"].to_numpy()
    order = np.argsort(hashes, kind="stable")
    if (np.diff(hashes[order]) == 0).any():  # equal pairs, or (rarely) two pairs with one hash
        table = table.sort_by([(name, "ascending") for name in ("hash", *PAIRS.names)]).combine_chunks()
        same = np.diff(table["hash"].to_numpy()) == 0
        for name in ("concept_id", "name_1", "name_2"):
            values = table[name].combine_chunks()
            same &= pc.equal(values.slice(1), values.slice(0, len(values) - 1)).to_numpy(zero_copy_only=False)
        return table.filter(pa.array(np.r_[True, ~same])).select(PAIRS.names).combine_chunks(), int(same.sum())
    return table.take(pa.array(order)).select(PAIRS.names).combine_chunks(), 0


def part_name(part: int) -> str:
    """Return the file name of a part of a dataset."""
    return f"part-{part:05d}.parquet"
