"""What every terminology reader yields: tables of names, tables of semantic types, and rejects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from biomodels.terminology.blocks import BLOCK_BYTES, Block, read_blocks
from biomodels.terminology.rejects import Reject

ACTIVE, SUPPRESSED, OBSOLETE = 0, 1, 2
"""States of a name: in use; suppressed by the source's editors; out of use."""

RECORDS = pa.schema(
    [
        ("concept_id", pa.string()),
        ("name", pa.string()),
        ("language", pa.string()),
        ("source", pa.string()),
        ("term_type", pa.string()),
        ("rank", pa.int16()),
        ("state", pa.int8()),
    ]
)
"""One row per name as the source has it. The concept's preferred name is the one of least `rank`."""

TYPES = pa.schema([("concept_id", pa.string()), ("semantic_type", pa.string())])

RELATIONS = pa.schema([("concept_id", pa.string()), ("head", pa.string()), ("line", pa.int64())])
"""One row per relation that lets the concept `head` borrow the names of `concept_id`, and its line in the file."""


@dataclass(frozen=True)
class Parsed:
    """The content of a block."""

    records: pa.Table = field(default_factory=RECORDS.empty_table)
    types: pa.Table = field(default_factory=TYPES.empty_table)
    relations: pa.Table = field(default_factory=RELATIONS.empty_table)
    passed_over: int = 0
    """Rows of kinds that are not asked for."""
    rejects: list[Reject] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Number of rows read, rejected ones included."""
        tables = (self.records, self.types, self.relations)
        return sum(int(table.num_rows) for table in tables) + self.passed_over + len(self.rejects)


class SourceFormat(Protocol):
    """How a file of one format is cut and parsed."""

    @property
    def boundary(self) -> bytes:
        """What a block is cut at, see `read_blocks`."""

    def parse(self, block: Block, file: str) -> Parsed:
        """Parse a block of the file named `file`."""


def read(uri: str, form: SourceFormat, block_bytes: int = BLOCK_BYTES) -> Iterator[Parsed]:
    """Stream a file of a given format, block by block."""
    for block in read_blocks(uri, block_bytes, form.boundary):
        yield form.parse(block, uri)
