"""Trade names for the pairs: relations of MRREL.RRF are joined with the names dataset, through two shuffles.

Relations are spilled by the concept whose names are borrowed, the tail. Each part of the names gives its tails' names
to their heads, spilled by head; so the task that makes a part's pairs finds all that its concepts borrow.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from biomodels import storage
from biomodels.artifacts import Artifact, ArtifactBuilder, canonical_json
from biomodels.shuffle import bucket_of, gather, spill
from biomodels.terminology.filters import NameFilter
from biomodels.terminology.hashing import hash_column, mix
from biomodels.terminology.names import MOST_BITS
from biomodels.terminology.records import RELATIONS
from biomodels.terminology.tradenames import BORROWED, NAME_COLUMNS, MrrelFormat, Tradenames, borrow, chosen
from ray_jobs.fan_out import Item, fan_out
from ray_jobs.progress import bar
from ray_jobs.shard.source_blocks import Plan, Source, check_rejects, parse_sources, publish_rejects


@dataclass(frozen=True)
class TradenameSource:
    """MRREL.RRF, its SHA-256, and how names are borrowed."""

    uri: str
    digest: str
    mode: Tradenames
    block_bytes: int
    max_reject_rate: float


@dataclass(frozen=True)
class BorrowedNames:
    """Where the names lie that concepts may borrow."""

    spills: tuple[str, ...]
    mode: Tradenames
    facts: dict[str, int]

    def of_part(self, part: int) -> pa.Table:
        """Return what the concepts of a part borrow, in `NAME_COLUMNS`."""
        width = (1 << MOST_BITS) // len(self.spills)
        found = gather(self.spills, part * width, (part + 1) * width, BORROWED)
        return chosen(found, self.mode).select(NAME_COLUMNS)


def borrow_names(names: Artifact, builder: ArtifactBuilder, source: TradenameSource) -> BorrowedNames:
    """Read the relations and spill the names that heads may borrow; what an earlier run spilled is kept.

    Args:
        names: the names dataset, whose parts are 2^k ranges of the concepts' hash.
        builder: the pairs artifact in the making; it gets the rejected rows.
        source: the relations.
    """
    work = builder.work("tradenames")
    plan = Plan((Source("mrrel", source.uri, MrrelFormat()),), work, source.block_bytes, NameFilter())
    summaries = parse_sources(plan)
    check_rejects(plan, summaries, source.max_reject_rate)
    publish_rejects(builder, [plan.path(summary.rejects) for summary in summaries if summary.rejects])
    relations = [plan.path(summary.relations) for summary in summaries if summary.relations]
    parts = range(len(names.files("part-")))
    spills = tuple(storage.join(work, f"borrowed-{part:05d}.arrow") for part in parts)
    total: Counter[str] = Counter()
    with bar("trade names", len(parts), "parts") as progress:
        for counts in fan_out(partial(_borrow, names, relations, spills), [{"part": part} for part in parts]):
            total.update(counts)
            progress.update()
    return BorrowedNames(spills, source.mode, dict(total))


def _borrow(names: Artifact, relations: list[str], spills: tuple[str, ...], item: Item) -> Item:
    uri = spills[item["part"]]
    counted = uri + ".json"
    if storage.exists(counted):
        kept: Item = storage.read_json(counted)
        return kept
    width = (1 << MOST_BITS) // len(spills)
    found = gather(relations, item["part"] * width, (item["part"] + 1) * width, RELATIONS)
    table = names.read_table(names.files("part-")[item["part"]], list(NAME_COLUMNS))
    borrowed = borrow(table, found)
    spill(borrowed, bucket_of(mix(hash_column(borrowed["concept_id"])), MOST_BITS), MOST_BITS, uri)
    counts = {"relations": found.num_rows, "followed": len(np.unique(borrowed["line"].to_numpy()))}
    storage.publish_bytes(canonical_json(counts), counted)
    return counts
