"""First phase of `shard terminology`: source files become spill files, by concept.

One task streams a file (gzip cannot be read from the middle) and hands on blocks of whole records; parallel tasks
parse a block, filter it, spill it by the hash of the concept id, and return only a summary.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from biomodels import storage
from biomodels.artifacts import canonical_json, write_parquet
from biomodels.errors import BiomodelsError
from biomodels.schemas import REJECTS
from biomodels.shuffle import bucket_of, spill
from biomodels.terminology.blocks import Block, read_blocks
from biomodels.terminology.filters import NameFilter
from biomodels.terminology.hashing import hash_column, mix
from biomodels.terminology.names import MOST_BITS
from biomodels.terminology.records import SourceFormat
from biomodels.terminology.rejects import EXAMPLES, Reject, rejects_table
from ray_jobs.fan_out import block_size, failure, result_table, results
from ray_jobs.progress import bar

READER_CPUS, PARSER_CPUS = 0.2, 0.9
"""Logical CPUs of the reading task and of a parsing task: two parsers and the reader fit two CPUs."""

_BLOCKS = pa.schema(
    [
        ("source", pa.int64()),
        ("index", pa.int64()),
        ("first_line", pa.int64()),
        ("data", pa.large_binary()),
        ("consumed", pa.int64()),
        ("error", pa.string()),
    ]
)
"""A block on its way from the reading task to a parsing task."""


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
    rejected: int = 0
    rejects: str | None = None
    examples: list[Reject] = field(default_factory=list)

    @classmethod
    def load(cls, content: dict[str, object]) -> BlockSummary:
        """Rebuild a summary from its JSON."""
        examples = content.pop("examples")
        assert isinstance(examples, list)
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


def read_rejects(summaries: list[BlockSummary], work: str) -> pa.Table:
    """Return all rejects (schema REJECTS), in the order of file and line."""
    tables = [REJECTS.empty_table()]
    for summary in summaries:
        if summary.rejects is not None:
            files, path = storage.filesystem(storage.join(work, summary.rejects))
            tables.append(pq.read_table(path, filesystem=files))
    return pa.concat_tables(tables).sort_by([(name, "ascending") for name in ("file", "line", "reason")])


def _parse(plan: Plan, done: list[BlockSummary]) -> Iterator[BlockSummary]:
    """Parse the blocks that are not done."""
    import ray.data

    skip = {(summary.source, summary.index) for summary in done}
    count = len(plan.sources)
    dataset = (
        ray.data.from_items([{"source": number} for number in range(count)], override_num_blocks=count)
        .map_batches(partial(_read, plan, skip), batch_size=1, batch_format="pyarrow", num_cpus=READER_CPUS)
        .map_batches(
            partial(_spill, plan), batch_size=1, batch_format="pyarrow", zero_copy_batch=True, num_cpus=PARSER_CPUS
        )
    )
    total = sum(_size(source.uri) for source in plan.sources)
    done_bytes = sum(summary.consumed for summary in done)
    with block_size(plan.block_bytes), bar("reading", total, "B", done=done_bytes) as progress:
        for content in results(dataset):
            summary = BlockSummary.load(content)
            progress.update(summary.consumed)
            yield summary


def _read(plan: Plan, skip: set[tuple[int, int]], batch: pa.Table) -> Iterator[pa.Table]:
    """Yield a source's blocks as one-row tables; an unreadable file ends with a row that holds the error."""
    for number in batch["source"].to_pylist():
        source = plan.sources[number]
        try:
            for block in read_blocks(source.uri, plan.block_bytes, source.form.boundary):
                if (number, block.index) not in skip:
                    yield pa.Table.from_pylist([{"source": number, **asdict(block)}], schema=_BLOCKS)
        except BiomodelsError as error:
            yield pa.Table.from_pylist([{"source": number, "error": json.dumps(failure(error))}], schema=_BLOCKS)


def _spill(plan: Plan, batch: pa.Table) -> pa.Table:
    """Spill the blocks of a batch and return their summaries as JSON."""
    found = []
    for row in batch.to_pylist():
        number, error = row.pop("source"), row.pop("error")
        found.append(json.loads(error) if error else asdict(_spill_block(plan, number, Block(**row))))
    return result_table(found)


def _spill_block(plan: Plan, number: int, block: Block) -> BlockSummary:
    """Parse, filter and spill one block; its summary file, written last, marks it finished."""
    source = plan.sources[number]
    name = f"{plan.folder}/{number}-{block.index:06d}"
    parsed = source.form.parse(block, source.uri)
    records, removed = plan.chosen.apply(parsed.records)
    paths = {}
    for kind, table in (("records", records), ("types", parsed.types)):
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
