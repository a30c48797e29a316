"""Second phase of `shard terminology`: spilled records become the parts of the names dataset."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from biomodels import storage
from biomodels.artifacts import ArtifactBuilder, canonical_json
from biomodels.shuffle import gather, part_bits
from biomodels.terminology.names import MOST_BITS, ROWS_PER_PART, BuiltNames, build_names, fold_ids
from biomodels.terminology.normalise import Normaliser
from biomodels.terminology.pairs import part_name
from biomodels.terminology.records import RECORDS, TYPES
from ray_jobs.fan_out import Item, fan_out
from ray_jobs.progress import bar
from ray_jobs.shard.homonym_parts import find_homonyms, spill_bearers
from ray_jobs.shard.pair_parts import PairSpills
from ray_jobs.shard.source_blocks import BlockSummary


@dataclass(frozen=True)
class SpilledNames:
    """Where the filtered records lie, and into how many parts they go."""

    records: tuple[str, ...]
    types: tuple[str, ...]
    rows: int
    bits: int

    @classmethod
    def of(cls, summaries: list[BlockSummary], work: str) -> SpilledNames:
        """Collect the spill files of all blocks; the number of parts is a function of the number of rows alone."""
        rows = sum(summary.kept for summary in summaries)
        return cls(
            tuple(storage.join(work, summary.records) for summary in summaries if summary.records),
            tuple(storage.join(work, summary.types) for summary in summaries if summary.types),
            rows,
            part_bits(rows, ROWS_PER_PART, MOST_BITS),
        )

    @property
    def parts(self) -> range:
        """The numbers of the parts."""
        return range(1 << self.bits)

    def build(
        self, part: int, normaliser: Normaliser, held_out: npt.NDArray[np.int64] | None
    ) -> tuple[BuiltNames, Any]:
        """Make one part and its counts."""
        width = 1 << (MOST_BITS - self.bits)
        buckets = part * width, (part + 1) * width
        records = gather(self.records, *buckets, RECORDS)
        built = build_names(records, gather(self.types, *buckets, TYPES), normaliser, held_out)
        table, removed = built.table, built.held_out
        counts = {
            "names": table.num_rows,
            "concepts": int(np.sum(table["preferred"].to_numpy(zero_copy_only=False))),
            "removed": {"duplicate": records.num_rows - table.num_rows - removed, "held_out": removed},
            "languages": _counts(table["language"]),
            "sources": _counts(table["source"]),
        }
        return built, counts


def make_parts(
    builder: ArtifactBuilder, spilled: SpilledNames, pairs: PairSpills, held_out: list[str]
) -> dict[str, Any]:
    """Publish all parts of the names dataset and return their counts together; finished parts are kept.

    Args:
        builder: the names artifact in the making.
        spilled: the filtered records.
        pairs: where the tasks spill the parts' pairs; its normaliser is that of the names' ids.
        held_out: strings that must not occur in any case.
    """
    folds = builder.work("held_out.int64")
    storage.publish_bytes(np.sort(fold_ids(held_out)).tobytes(), folds)
    total: dict[str, Counter[str]] = {"plain": Counter()}
    items = [{"part": part} for part in spilled.parts]
    with bar("names", spilled.rows, "rows") as progress:
        for counts in fan_out(partial(_make_part, builder, spilled, pairs, folds), items):
            progress.update(counts["names"] + sum(counts["removed"].values()))
            for key, value in counts.items():
                if isinstance(value, dict):
                    total.setdefault(key, Counter()).update(value)
                else:
                    total["plain"][key] += value
    plain = total.pop("plain")
    homonyms = find_homonyms(builder, spilled.bits)
    return {**plain, **{key: dict(value) for key, value in total.items()}, "homonyms": homonyms}


def _make_part(builder: ArtifactBuilder, spilled: SpilledNames, pairs: PairSpills, folds: str, item: Item) -> Item:
    path, stats = part_name(item["part"]), builder.work("counts", f"{item['part']:05d}.json")
    if builder.kept(path) is not None:
        kept: Item = storage.read_json(stats)
        return kept
    held_out = np.frombuffer(storage.read_bytes(folds), dtype=np.int64)
    built, counts = spilled.build(item["part"], pairs.normaliser, held_out)
    counts["entries"] = spill_bearers(builder, item["part"], built)
    storage.publish_bytes(canonical_json(counts), stats)  # before the ledger's entry, so that a kept part has counts
    entry = builder.publish_table(path, built.table)
    if pairs.tradenames is None:
        pairs.spill(item["part"], entry.sha256, built.table, built.strings)
    return counts  # type: ignore[no-any-return]  # counts come from JSON


def _counts(column: pa.ChunkedArray) -> dict[str, int]:
    found = column.value_counts()
    return dict(zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True))
