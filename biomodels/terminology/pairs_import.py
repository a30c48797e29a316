"""Pairs that are given rather than made of names: of text files or of other datasets, drawn by weight."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from biomodels import storage
from biomodels.artifacts import Artifact, ArtifactBuilder
from biomodels.errors import InputError
from biomodels.schemas import SCHEMA_VERSION
from biomodels.shuffle import part_bits
from biomodels.terminology.blocks import read_blocks
from biomodels.terminology.hashing import hash_column, hash_strings, mix
from biomodels.terminology.normalise import Normaliser
from biomodels.terminology.pairs import (
    MOST_BITS,
    ROWS_PER_PART,
    SPILLED,
    gather_part,
    pair_hash,
    part_name,
    spill_pairs,
)
from biomodels.terminology.pairs_text import PairsTextFormat
from biomodels.terminology.rejects import Reject, check_reject_rate, rejects_table

_DRAW, _COPY = 4, 5


def oriented(rows: list[tuple[str, str, str]], languages: tuple[str, str], seed: int) -> pa.Table:
    """Return given pairs as rows to spill (schema `SPILLED`), the name with the smaller id first.

    Args:
        rows: `(concept_id, name_1, name_2)`, names normalised.
        languages: of the first and of the second name.
        seed: of the order.
    """
    ids_1, ids_2 = hash_strings(row[1] for row in rows), hash_strings(row[2] for row in rows)
    concepts = hash_strings(row[0] for row in rows)
    swapped = pa.array(ids_1 > ids_2)
    concept_ids, names_1, names_2 = (pa.array([row[field] for row in rows], pa.string()) for field in range(3))
    count = len(rows)
    columns = [
        concept_ids,
        pc.if_else(swapped, names_2, names_1),
        pc.if_else(swapped, names_1, names_2),
        pc.if_else(swapped, *reversed(languages)),
        pc.if_else(swapped, *languages),
        pa.repeat("", count),
        pa.repeat(pa.scalar(1.0, pa.float32()), count),
        pair_hash(seed, concepts, np.minimum(ids_1, ids_2), np.maximum(ids_1, ids_2)),
    ]
    return pa.table(columns, schema=SPILLED)


def hashed(pairs: pa.Table, seed: int) -> pa.Table:
    """Return rows of a pairs dataset with the hash that orders them (schema `SPILLED`)."""
    concepts, ids_1, ids_2 = (hash_column(pairs[name]) for name in ("concept_id", "name_1", "name_2"))
    return pairs.append_column(SPILLED.field("hash"), pa.array(pair_hash(seed, concepts, ids_1, ids_2)))


def draw(pairs: pa.Table, weight: float, seed: int) -> pa.Table:
    """Draw pairs by weight: of a pair with weight 2.3 two copies, and a third one with probability 0.3.

    Whether there is a last copy is decided by a hash of the pair, so of one pair in two sources the copies of the
    source with the smaller weight are among those of the other, and the larger weight counts.

    Args:
        pairs: rows (schema `SPILLED`); their column `weight` counts too.
        weight: of the source.
        seed: of the choice.

    Returns:
        The copies, each of weight 1 and with a hash of its own, so that they lie apart.
    """
    hashes = pairs["hash"].to_numpy()
    weights = pairs["weight"].to_numpy().astype(np.float64) * weight
    uniform = (mix(seed, _DRAW, hashes) >> np.uint64(11)) * 2.0**-53
    copies = (np.floor(weights) + (uniform < weights - np.floor(weights))).astype(np.int64)
    rows = np.repeat(np.arange(len(hashes)), copies)
    number = np.arange(len(rows)) - np.repeat(np.cumsum(copies) - copies, copies)
    drawn = pairs.take(pa.array(rows))
    apart = np.where(number == 0, hashes[rows], mix(_COPY, hashes[rows], number))
    columns = {"weight": pa.repeat(pa.scalar(1.0, pa.float32()), len(rows)), "hash": pa.array(apart)}
    return pa.table([columns.get(name, drawn[name]) for name in SPILLED.names], schema=SPILLED)


def unequal(rows: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Return the pairs of two different names."""
    return [row for row in rows if row[1] != row[2]]


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
    normaliser = Normaliser(lowercase)
    config = {"normaliser": normaliser.name, "seed": seed}
    builder = ArtifactBuilder.begin(
        out, "pairs", config=config, inputs={"text": storage.sha256(uri)}, schema_version=SCHEMA_VERSION
    )
    if builder.finished is None:
        _import(builder, uri, normaliser, seed, max_reject_rate)
    return Artifact.open(out, "pairs")


def _import(builder: ArtifactBuilder, uri: str, normaliser: Normaliser, seed: int, max_reject_rate: float) -> None:
    rejects: list[Reject] = []
    spills: list[str] = []
    sound = kept = 0
    form = PairsTextFormat(normaliser)
    for block in read_blocks(uri):
        found = form.parse(block, uri)
        rejects += found.rejects
        pairs = unequal(found.rows)
        sound, kept = sound + len(found.rows), kept + len(pairs)
        spills.append(builder.work("spill", f"{len(spills):05d}.arrow"))
        spill_pairs(oriented(pairs, form.languages, seed), spills[-1])
    check_reject_rate(len(rejects), sound + len(rejects), max_reject_rate, rejects)
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
            "normaliser": normaliser.name,
            "rejects": len(rejects),
            "dropped": {"identical": sound - kept, "duplicate": kept - total},
        }
    )
