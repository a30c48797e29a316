"""The names and concepts beside the vectors: memory-mapped Arrow files, read row by row, nothing loaded at opening."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from biomodels import schemas
from biomodels.errors import ArtifactError
from biomodels.terminology.normalise import name_id

CONCEPTS = pa.schema([("concept_id", pa.string()), ("preferred_name", pa.string())])


@dataclass(frozen=True)
class NameRow:
    """One (concept, name) that bears a string."""

    name_id: int
    concept_id: str
    name: str
    language: str
    source: str
    term_type: str
    preferred: bool
    semantic_types: tuple[str, ...]
    preferred_name: str


def concept_bucket(concept_id: str, bits: int) -> int:
    """Return which of the 2^bits concept files holds a concept."""
    return name_id(concept_id) >> (63 - bits)


def _map(path: Path, schema: pa.Schema, verify: bool) -> list[pa.RecordBatch]:
    """Memory-map an uncompressed Arrow IPC file; `verify` reads it all, so that no offset leads out of it."""
    try:
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
        for batch in batches if verify else ():
            batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ArtifactError(f"{path}: is no readable Arrow file ({error}); make the index again") from error
    if reader.schema != schema:
        raise ArtifactError(f"{path}: has columns {reader.schema.names}, not {schema.names}; make the index again")
    return [batch for batch in batches if batch.num_rows]


class NameTable:
    """The names of one shard, sorted by name_id; the rows of one name_id lie in one record batch."""

    def __init__(self, path: Path, *, verify: bool = False) -> None:
        self._batches = _map(path, schemas.NAMES, verify)
        column = schemas.NAMES.get_field_index("name_id")
        self._ids = [batch.column(column).to_numpy() for batch in self._batches]
        self._first = np.array([ids[0] for ids in self._ids], dtype=np.int64)

    def rows(self, identity: int) -> list[dict[str, Any]]:
        """Return every row with this id; none if the shard lacks it."""
        chunk = int(np.searchsorted(self._first, identity, side="right")) - 1
        if chunk < 0:
            return []
        start, stop = np.searchsorted(self._ids[chunk], [identity, identity + 1])
        rows: list[dict[str, Any]] = self._batches[chunk].slice(start, stop - start).to_pylist()
        return rows


class ConceptTable:
    """The preferred name of each concept of one bucket, sorted by the code points of concept_id."""

    def __init__(self, path: Path, *, verify: bool = False) -> None:
        self._batches = _map(path, CONCEPTS, verify)
        self._first = [batch.column(0)[0].as_py() for batch in self._batches]

    def preferred_name(self, concept_id: str) -> str | None:
        """Return the concept's preferred name, or None if the bucket lacks the concept."""
        chunk = bisect.bisect_right(self._first, concept_id) - 1
        if chunk < 0:
            return None
        batch = self._batches[chunk]
        ids = batch.column(0)
        row = bisect.bisect_left(range(len(ids)), concept_id, key=lambda i: ids[i].as_py())
        if row == len(ids) or ids[row].as_py() != concept_id:
            return None
        name: str = batch.column(1)[row].as_py()
        return name

    def ids(self) -> Iterator[str]:
        """Yield the concept ids in order."""
        for batch in self._batches:
            yield from batch.column(0).to_pylist()
