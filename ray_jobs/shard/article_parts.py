"""Second phase of `shard pubmed`: spilled events become parts, one row per PMID, after those of an older dataset."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from biomodels import storage
from biomodels.artifacts import Artifact, ArtifactBuilder, canonical_json
from biomodels.literature.articles import EVENTS
from biomodels.literature.merge import KEYS, MOST_BITS, ROWS_PER_PART, latest, merge, pmid_hash
from biomodels.schemas import DELETED
from biomodels.shuffle import bucket_of, gather, part_bits
from biomodels.terminology.pairs import part_name
from ray_jobs.fan_out import Item, fan_out
from ray_jobs.progress import bar

DELETED_FILE = "deleted.parquet"
COUNT_BITS = 4
"""Tasks that count what is left, as a power of two: a sixteenth of PubMed's keys fits any worker."""


@dataclass(frozen=True)
class Spilled:
    """The events of all files in their order: those of an older dataset first."""

    events: tuple[str, ...]
    keys: tuple[str, ...]
    older: Artifact | None

    def gather(self, kind: str, part: int, bits: int) -> pa.Table:
        """Return the events of a part, of 2^bits, in their order.

        Args:
            kind: "events" for all columns, "keys" for those that decide.
            part: number of the part.
            bits: how many parts there are.
        """
        schema = EVENTS if kind == "events" else KEYS
        width = 1 << (MOST_BITS - bits)
        new = gather(getattr(self, kind), part * width, (part + 1) * width, schema)
        return pa.concat_tables([*self._of_older(schema, part, bits), new])

    def _of_older(self, schema: pa.Schema, part: int, bits: int) -> list[pa.Table]:
        if self.older is None:
            return []
        parts = self.older.files("part-")
        older_bits = len(parts).bit_length() - 1
        first = part << older_bits >> bits
        last = max(first + 1, (part + 1) << older_bits >> bits)
        tables = [self.older.read_table(entry, schema.names) for entry in parts[first:last]]
        deleted = self.older.read_table(self.older.entry(DELETED_FILE))
        empty = {field.name: pa.nulls(deleted.num_rows, field.type) for field in schema}
        columns = empty | {name: deleted[name] for name in DELETED.names if name in schema.names}
        found = [table.cast(schema) for table in tables] + [pa.table(columns, schema)]
        return [_only(table, part, bits) for table in found]


def make_parts(builder: ArtifactBuilder, spilled: Spilled) -> dict[str, Any]:
    """Publish all parts and the list of deletions; return the counts. Finished parts are kept.

    Args:
        builder: the dataset in the making.
        spilled: what it is made of.
    """
    rows = _count(builder, spilled)
    bits = part_bits(rows, ROWS_PER_PART, MOST_BITS)
    total: dict[str, Counter[str]] = {}
    deleted: list[list[Any]] = []
    items = [{"part": part} for part in range(1 << bits)]
    with bar("articles", rows, "articles") as progress:
        for result in fan_out(partial(_make_part, builder, spilled, bits), items):
            deleted += result["deleted"]
            progress.update(add_counts(total, result["counts"]))
    columns = list(zip(*sorted(deleted), strict=True)) or [(), ()]
    builder.publish_table(DELETED_FILE, pa.table([pa.array(column) for column in columns], schema=DELETED))
    plain = total.pop("plain")
    return {**plain, "deleted": len(deleted), **{name: dict(sorted(counts.items())) for name, counts in total.items()}}


def _count(builder: ArtifactBuilder, spilled: Spilled) -> int:
    """Return how many articles are left, which decides the number of parts."""
    uri = builder.work("articles.json")
    if not storage.exists(uri):
        items = [{"part": part} for part in range(1 << COUNT_BITS)]
        with bar("merging", len(items), "ranges") as progress:
            count = 0
            for result in fan_out(partial(_count_range, spilled), items, short=True):
                count += result["articles"]
                progress.update()
        storage.publish_bytes(canonical_json(count), uri)
    return int(storage.read_json(uri))


def _count_range(spilled: Spilled, item: Item) -> Item:
    return {"articles": len(latest(spilled.gather("keys", item["part"], COUNT_BITS)).articles)}


def _make_part(builder: ArtifactBuilder, spilled: Spilled, bits: int, item: Item) -> Item:
    path, stats = part_name(item["part"]), builder.work("counts", f"{item['part']:05d}.json")
    if builder.kept(path) is not None:
        kept: Item = storage.read_json(stats)
        return kept
    articles, deleted = merge(spilled.gather("events", item["part"], bits))
    result = {
        "counts": count_articles(articles),
        "deleted": [list(row) for row in zip(*(column.to_pylist() for column in deleted.columns), strict=True)],
    }
    storage.publish_bytes(canonical_json(result), stats)  # before the ledger's entry, so that a kept part has counts
    builder.publish_table(path, articles)
    return result


def count_articles(articles: pa.Table) -> dict[str, dict[str, int]]:
    """Return what there is of each decade, language and status, and some plain counts."""
    decades = pc.multiply(pc.divide(articles["year"], 10), 10).cast(pa.string())
    return {
        "plain": {
            "articles": articles.num_rows,
            "without_abstract": _true(pc.equal(articles["abstract"], "")),
            "retracted": _true(articles["retracted"]),
            "books": _true(articles["book"]),
        },
        "decades": _counts(decades),
        "languages": _counts(pc.binary_join(articles["languages"], ";")),
        "statuses": _counts(articles["status"]),
    }


def add_counts(total: dict[str, Counter[str]], counts: dict[str, dict[str, int]]) -> int:
    """Add a part's counts to those of all parts; return its number of articles."""
    for name, found in counts.items():
        total.setdefault(name, Counter()).update(found)
    return counts["plain"]["articles"]


def _counts(column: pa.ChunkedArray) -> dict[str, int]:
    found = column.fill_null("unknown").value_counts()
    return dict(zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True))


def _true(column: pa.ChunkedArray) -> int:
    return int(pc.sum(column.cast(pa.int64())).as_py() or 0)


def _only(table: pa.Table, part: int, bits: int) -> pa.Table:
    """Return the rows of a part, in their order."""
    if not table.num_rows:
        return table
    return table.take(pa.array(np.flatnonzero(bucket_of(pmid_hash(table["pmid"]), bits) == part)))
