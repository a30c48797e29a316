"""First phase of `shard terminology`: source files become spill files, by concept.

Each of a few parallel tasks streams a whole file (gzip cannot be read from the middle) as blocks of whole records. Of
the blocks it takes its share: it parses a block, filters it, spills it by the hash of the concept id, and returns only
a summary. Reading costs a quarter of parsing, so it is cheaper to read again than to hand the text on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from biomodels import storage
from biomodels.artifacts import ArtifactBuilder, canonical_json, write_parquet
from biomodels.errors import BiomodelsError, InputError
from biomodels.schemas import REJECTS
from biomodels.shuffle import bucket_of, spill
from biomodels.terminology.blocks import Block, read_blocks
from biomodels.terminology.filters import NameFilter
from biomodels.terminology.hashing import hash_column, mix
from biomodels.terminology.names import MOST_BITS
from biomodels.terminology.records import SourceFormat
from biomodels.terminology.rejects import EXAMPLES, Reject, check_reject_rate, rejects_table
from ray_jobs.fan_out import Item, cluster_cpus, failure, fan_out_streams
from ray_jobs.progress import bar

MOST_READERS = 8
"""How many tasks share a file at most; with more, nearly all they do would be reading what others parse."""

ALONE_BYTES = 1 << 20
"""A file smaller than this is left to one task."""


REJECTS_FILE = "rejects/rejects.parquet"


@dataclass(frozen=True)
class Source:
    """One input file. `role` is the option that named it, such as "mrconso"."""

    role: str
    uri: str
    form: SourceFormat


@dataclass(frozen=True)
class Plan:
    """What all blocks share. Spill files lie in `work`; those of one block size in a folder of their own."""

    sources: tuple[Source, ...]
    work: str
    block_bytes: int
    chosen: NameFilter

    @property
    def folder(self) -> str:
        """Where the blocks' files lie, relative to the work area."""
        return f"blocks-{self.block_bytes}"

    def path(self, name: str) -> str:
        """Return the URI of a file of the work area."""
        return storage.join(self.work, name)


@dataclass(frozen=True)
class BlockSummary:
    """What became of a block. Spill files are named relative to the work area."""

    source: int
    index: int
    rows: int
    kept: int
    consumed: int
    removed: dict[str, int] = field(default_factory=dict)
    records: str | None = None
    types: str | None = None
    relations: str | None = None
    rejected: int = 0
    rejects: str | None = None
    examples: list[Reject] = field(default_factory=list)

    @classmethod
    def load(cls, content: dict[str, object]) -> BlockSummary:
        """Rebuild a summary from its JSON."""
        examples = content.pop("examples")
        assert isinstance(examples, list)
        # the fields come from JSON
        return cls(**content, examples=[Reject(**example) for example in examples])  # type: ignore[arg-type]


def parse_sources(plan: Plan) -> list[BlockSummary]:
    """Spill all sources; what an earlier run spilled is kept.

    Returns:
        The blocks' summaries, sorted by source and index.
    """
    finished = plan.path("blocks.json")
    if storage.exists(finished):
        return [BlockSummary.load(content) for content in storage.read_json(finished)]
    done = [
        BlockSummary.load(storage.read_json(plan.path(f"{plan.folder}/{name}")))
        for name in storage.list_files(plan.path(plan.folder))
        if name.endswith(".json")
    ]
    summaries = sorted([*done, *_parse(plan, done)], key=lambda summary: (summary.source, summary.index))
    storage.publish_bytes(canonical_json([asdict(summary) for summary in summaries]), finished)
    return summaries


def check_rejects(plan: Plan, summaries: list[BlockSummary], max_reject_rate: float) -> None:
    """Stop if too many rows of a source were unusable, or all.

    Raises:
        RejectRateError: more than `max_reject_rate` allows.
        InputError: a source holds no usable row.
    """
    for number, source in enumerate(plan.sources):
        mine = [summary for summary in summaries if summary.source == number]
        rows, rejected = sum(item.rows for item in mine), sum(item.rejected for item in mine)
        check_reject_rate(rejected, rows, max_reject_rate, [example for item in mine for example in item.examples])
        if rows == rejected:
            raise InputError.at(source.uri, None, "holds no usable row", f"check that it is what --{source.role} needs")


def publish_rejects(builder: ArtifactBuilder, uris: Iterable[str]) -> int:
    """Publish the rejects of many files (schema REJECTS), in the order of file and line; return how many there are."""
    tables = [REJECTS.empty_table()]
    for uri in uris:
        files, path = storage.filesystem(uri)
        tables.append(pq.read_table(path, filesystem=files))
    rejects = pa.concat_tables(tables).sort_by([(name, "ascending") for name in ("file", "line", "reason")])
    if rejects.num_rows and builder.kept(REJECTS_FILE) is None:
        builder.publish_table(REJECTS_FILE, rejects)
    return int(rejects.num_rows)


def _parse(plan: Plan, done: list[BlockSummary]) -> Iterator[BlockSummary]:
    """Parse the blocks that are not done."""
    finished = [[summary.source, summary.index] for summary in done]
    items = [{"source": number, "share": share, "done": finished} for number, share in _shares(plan)]
    total = sum(_size(source.uri) for source in plan.sources)
    with bar("reading", total, "B", done=sum(summary.consumed for summary in done)) as progress:
        for content in fan_out_streams(partial(_spill_share, plan), items):
            summary = BlockSummary.load(content)
            progress.update(summary.consumed)
            yield summary


def _shares(plan: Plan) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield a source's number and which of its blocks a task takes: (remainder, divisor) of the index."""
    readers = min(MOST_READERS, cluster_cpus())
    for number, source in enumerate(plan.sources):
        count = min(readers, 1 + _size(source.uri) // ALONE_BYTES)
        yield from ((number, (share, count)) for share in range(count))


def _spill_share(plan: Plan, item: Item) -> Iterator[Item]:
    """Spill a share of a source's blocks, but those that are done, and yield their summaries as JSON can hold them."""
    number, (share, count) = item["source"], item["share"]
    source = plan.sources[number]
    skip = {index for of, index in item["done"] if of == number}
    try:
        for block in read_blocks(source.uri, plan.block_bytes, source.form.boundary):
            if block.index % count == share and block.index not in skip:
                yield asdict(_spill_block(plan, number, block))
    except BiomodelsError as error:
        yield failure(error)


def _spill_block(plan: Plan, number: int, block: Block) -> BlockSummary:
    """Parse, filter and spill one block; its summary file, written last, marks it finished."""
    source = plan.sources[number]
    name = f"{plan.folder}/{number}-{block.index:06d}"
    parsed = source.form.parse(block, source.uri)
    records, removed = plan.chosen.apply(parsed.records)
    paths = {}
    for kind, table in (("records", records), ("types", parsed.types), ("relations", parsed.relations)):
        if table.num_rows:
            paths[kind] = f"{name}.{kind}.arrow"
            spill(table, bucket_of(mix(hash_column(table["concept_id"])), MOST_BITS), MOST_BITS, plan.path(paths[kind]))
    if parsed.rejects:
        paths["rejects"] = f"{name}.rejects.parquet"
        with storage.writing(plan.path(paths["rejects"])) as local:
            write_parquet(rejects_table(parsed.rejects), local)
    summary = BlockSummary(
        source=number,
        index=block.index,
        rows=parsed.rows,
        kept=records.num_rows,
        consumed=block.consumed,
        removed=removed,
        rejected=len(parsed.rejects),
        examples=sorted(parsed.rejects)[:EXAMPLES],
        **paths,
    )
    storage.publish_bytes(canonical_json(asdict(summary)), plan.path(f"{name}.json"))
    return summary


def _size(uri: str) -> int:
    files, path = storage.filesystem(uri)
    return int(files.get_file_info(path).size or 0)
