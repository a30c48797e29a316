"""Synonym pairs of a concept: which are chosen, how they are oriented, and the order in which they are stored.

A pair is known by its concept and the ids of its two normalised names, and everything random about it is a hash of
those under the seed. So the pairs do not depend on the order of the input's rows, nor on how the work was cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from biomodels import storage
from biomodels.artifacts import Artifact, ArtifactBuilder
from biomodels.errors import InputError
from biomodels.schemas import PAIRS, SCHEMA_VERSION
from biomodels.shuffle import bucket_of, gather, part_bits, spill
from biomodels.terminology.hashing import UInts, hash_column, hash_strings, mix
from biomodels.terminology.languages import UNKNOWN_LANGUAGE
from biomodels.terminology.normalise import Normaliser
from biomodels.terminology.pairs_text import read_pairs_text
from biomodels.terminology.rejects import Reject, check_reject_rate, rejects_table

ROWS_PER_PART = 65_536
"""About how many pairs a part holds: small enough to be shuffled in memory, large enough to be read fast."""

MOST_BITS = 8
"""There are at most 2^8 parts; beyond 16.7 million pairs the parts grow instead."""

PAIRS_AT_ONCE = 1 << 20
"""About how many pairs of the names of a part are held in memory, however many a concept has."""

SPILLED = PAIRS.append(pa.field("hash", pa.uint64()))

_TEXT_ROWS = 200_000
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
    starts = np.flatnonzero(np.r_[True, concepts[1:] != concepts[:-1]])
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


def pairs_of_names(names: pa.Table, normaliser: Normaliser, max_pairs: int, seed: int) -> Iterator[pa.Table]:
    """Make the pairs of whole concepts.

    A concept's names are its distinct normalised strings; the first of the rows that bear a string gives its language
    and source. Of two names the one with the smaller id is `name_1`. A pair's source is that of `name_1`.

    Args:
        names: a part of the names dataset, with all rows of each of its concepts.
        normaliser: the one the part was made with.
        max_pairs: the most pairs of one concept; 0 for no cap.
        seed: of the choice and of the order.

    Yields:
        The pairs (schema `SPILLED`), in no particular order, about `PAIRS_AT_ONCE` at a time.
    """
    concepts = hash_column(names["concept_id"])
    ids = names["name_id"].to_numpy()
    order = np.lexsort((ids, concepts))
    fresh = np.r_[True, (np.diff(ids[order]) != 0) | (np.diff(concepts[order]) != 0)] if len(order) else order
    rows = order[np.flatnonzero(fresh)]
    names, concepts, ids = names.take(pa.array(rows)).combine_chunks(), concepts[rows], ids[rows]
    texts = normaliser.column(names["name"])
    for first, second in _merged(pair_indices(concepts, max_pairs, seed)):
        one, two = pa.array(first), pa.array(second)
        yield pa.table(
            [
                names["concept_id"].take(one),
                texts.take(one),
                texts.take(two),
                names["language"].take(one),
                names["language"].take(two),
                names["source"].take(one),
                pa.repeat(pa.scalar(1.0, pa.float32()), len(first)),
                pair_hash(seed, concepts[first], ids[first], ids[second]),
            ],
            schema=SPILLED,
        )


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
    if (np.diff(hashes[order]) == 0).any():  # rare: equal pairs, or two pairs with one hash
        keys = [(name, "ascending") for name in ("hash", *PAIRS.names)]
        table = table.sort_by(keys)
        columns = [table[name].to_pylist() for name in ("concept_id", "name_1", "name_2")]
        rows = list(zip(*columns, strict=True))
        fresh = [number for number in range(len(rows)) if number == 0 or rows[number] != rows[number - 1]]
        return table.take(fresh).select(PAIRS.names), len(rows) - len(fresh)
    return table.take(pa.array(order)).select(PAIRS.names).combine_chunks(), 0


def part_name(part: int) -> str:
    """Return the file name of a part of a dataset."""
    return f"part-{part:05d}.parquet"


def import_pairs_text(
    uri: str, out: str, *, seed: int = 13, lowercase: bool = True, max_reject_rate: float = 0.01
) -> Artifact:
    """Make a pairs artifact of a text file of `id||name_1||name_2` lines, in the same shuffled order as the shard job.

    Names are normalised. Pairs of equal names and repeated pairs (in either direction) are dropped and counted in the
    facts. The text form names no language and no source: they become "und" and "". Running it again on a finished
    artifact only opens it.

    Raises:
        InputError: the file holds no pair.
        RejectRateError: more lines were malformed than `max_reject_rate` allows.
        ArtifactError: `out` holds something else.
    """
    normalise = Normaliser(lowercase)
    config = {"normaliser": normalise.name, "seed": seed}
    builder = ArtifactBuilder.begin(
        out, "pairs", config=config, inputs={"text": storage.sha256(uri)}, schema_version=SCHEMA_VERSION
    )
    if builder.finished is None:
        _import(builder, uri, normalise, seed, max_reject_rate)
    return Artifact.open(out, "pairs")


def _import(builder: ArtifactBuilder, uri: str, normalise: Normaliser, seed: int, max_reject_rate: float) -> None:
    rejects: list[Reject] = []
    spills: list[str] = []
    lines = identical = kept = 0
    rows = read_pairs_text(uri)
    while chunk := list(islice(rows, _TEXT_ROWS)):
        lines += len(chunk)
        rejects += [row for row in chunk if isinstance(row, Reject)]
        named = [(row[0], normalise(row[1]), normalise(row[2])) for row in chunk if not isinstance(row, Reject)]
        pairs = [row for row in named if row[1] != row[2]]
        identical += len(named) - len(pairs)
        kept += len(pairs)
        spills.append(builder.work("spill", f"{len(spills):05d}.arrow"))
        spill_pairs(_oriented(pairs, seed), spills[-1])
    check_reject_rate(len(rejects), lines, max_reject_rate, rejects)
    if not kept:
        raise InputError.at(uri, None, "holds no pair of different names", "each line must be id||name_1||name_2")
    bits = part_bits(kept, ROWS_PER_PART, MOST_BITS)
    total = 0
    for part in range(1 << bits):
        entry = builder.kept(part_name(part))
        if entry is None:
            table, _ = gather_part(spills, part, bits)
            entry = builder.publish_table(part_name(part), table)
        total += entry.rows or 0
    if rejects:
        builder.publish_table("rejects/rejects.parquet", rejects_table(rejects))
    builder.commit(
        {
            "pairs": total,
            "normaliser": normalise.name,
            "rejects": len(rejects),
            "dropped": {"identical": identical, "duplicate": kept - total},
        }
    )


def _oriented(pairs: list[tuple[str, str, str]], seed: int) -> pa.Table:
    """Return imported pairs as `SPILLED` rows, the name with the smaller id first."""
    ids_1, ids_2 = hash_strings(row[1] for row in pairs), hash_strings(row[2] for row in pairs)
    concepts = hash_strings(row[0] for row in pairs)
    swap = (ids_1 > ids_2).tolist()
    names = [(b, a) if swapped else (a, b) for (_, a, b), swapped in zip(pairs, swap, strict=True)]
    count = len(pairs)
    return pa.table(
        {
            "concept_id": pa.array([row[0] for row in pairs], pa.string()),
            "name_1": pa.array([first for first, _ in names], pa.string()),
            "name_2": pa.array([second for _, second in names], pa.string()),
            "language_1": pa.repeat(UNKNOWN_LANGUAGE, count),
            "language_2": pa.repeat(UNKNOWN_LANGUAGE, count),
            "source": pa.repeat("", count),
            "weight": pa.repeat(pa.scalar(1.0, pa.float32()), count),
            "hash": pair_hash(seed, concepts, np.minimum(ids_1, ids_2), np.maximum(ids_1, ids_2)),
        },
        schema=SPILLED,
    )
