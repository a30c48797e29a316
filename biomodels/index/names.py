"""The names and concepts beside the vectors: memory-mapped Arrow files, read row by row, nothing loaded at opening.

An updated index lays a second, small table over the first: the rows of the strings that were added or whose rows
changed. What it says of a string replaces what the first says.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from biomodels import schemas
from biomodels.errors import ArtifactError
from biomodels.index.filters import NameFilter
from biomodels.terminology.normalise import name_id

CONCEPTS = pa.schema([("concept_id", pa.string()), ("preferred_name", pa.string())])
REMOVED = pa.schema([("name_id", pa.int64())])
BATCH_ROWS = 1 << 16

Ids = NDArray[np.int64]
NO_IDS: Ids = np.empty(0, dtype=np.int64)


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


def read_arrow(path: Path, schema: pa.Schema, *, verify: bool = False) -> list[pa.RecordBatch]:
    """Memory-map an uncompressed Arrow IPC file; `verify` reads it all, so that no offset leads out of it.

    Raises:
        ArtifactError: it is no Arrow file, or has other columns.
    """
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


def write_arrow(path: str, schema: pa.Schema, tables: Iterable[pa.Table]) -> int:
    """Write an Arrow IPC file that can be memory-mapped, one record batch per table; return the number of rows."""
    rows = 0
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for table in tables:
            if table.num_rows:
                rows += table.num_rows
                writer.write_batch(table.combine_chunks().to_batches()[0])
    return rows


def in_batches(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Cut rows that are sorted by name_id anew: after every `BATCH_ROWS`, where the next name_id begins.

    So the cuts depend on the rows alone, not on how they came, and the rows of one name_id stay together.
    """
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        while sum(piece.num_rows for piece in waiting) > BATCH_ROWS:
            joined = pa.concat_tables(waiting)
            ids = joined["name_id"].to_numpy()
            cut = int(np.searchsorted(ids, ids[BATCH_ROWS - 1], side="right"))
            waiting = [joined]
            if cut == len(ids):  # more rows of this name_id may follow
                break
            yield joined.slice(0, cut)
            waiting = [joined.slice(cut)]
    if waiting:
        yield pa.concat_tables(waiting)


class NameTable:
    """The names of one shard, sorted by name_id; the rows of one name_id lie in one record batch."""

    def __init__(self, path: Path, *, verify: bool = False) -> None:
        self.batches = read_arrow(path, schemas.NAMES, verify=verify)
        column = schemas.NAMES.get_field_index("name_id")
        self._ids = [batch.column(column).to_numpy() for batch in self.batches]
        self._first = np.array([ids[0] for ids in self._ids], dtype=np.int64)

    def rows(self, identity: int) -> pa.RecordBatch | None:
        """Return every row with this id; None if the table lacks it."""
        chunk = int(np.searchsorted(self._first, identity, side="right")) - 1
        if chunk < 0:
            return None
        start, stop = np.searchsorted(self._ids[chunk], [identity, identity + 1])
        return self.batches[chunk].slice(start, stop - start) if stop > start else None

    def between(self, first: int, last: int) -> pa.Table:
        """Return the rows whose name_id lies between two, both included."""
        found = []
        for ids, batch in zip(self._ids, self.batches, strict=True):
            start, stop = np.searchsorted(ids, first), np.searchsorted(ids, last, side="right")
            found.append(batch.slice(start, stop - start))
        return pa.Table.from_batches(found, schema=schemas.NAMES)

    def ids(self, where: NameFilter | None = None) -> Ids:
        """Return the distinct ids in order, of all rows or of those that may answer."""
        pieces = zip(self._ids, self.batches, strict=True)
        found = [np.unique(ids if where is None else ids[where.mask(batch)]) for ids, batch in pieces]
        return np.concatenate([NO_IDS, *found])


class LayeredNames:
    """The names of one shard of an index, as the latest update left them.

    Args:
        base: the table that the index was built with.
        delta: the rows of strings that were added or changed since; or None.
        removed: ids of the base that are no more, sorted.
    """

    def __init__(self, base: NameTable, delta: NameTable | None, removed: Ids) -> None:
        self._base = base
        self._delta = delta
        self.removed = removed
        self._replaced = removed if delta is None else np.union1d(removed, delta.ids())

    def rows(self, identity: int, where: NameFilter | None = None) -> list[dict[str, Any]]:
        """Return every row with this id that may answer."""
        found = None if self._delta is None else self._delta.rows(identity)
        if found is None and not self._is_removed(identity):
            found = self._base.rows(identity)
        if found is None:
            return []
        rows: list[dict[str, Any]] = (found if where is None else found.filter(pa.array(where.mask(found)))).to_pylist()
        return rows

    def _is_removed(self, identity: int) -> bool:
        place = int(np.searchsorted(self.removed, identity))
        return place < len(self.removed) and int(self.removed[place]) == identity

    def ids(self, where: NameFilter | None = None) -> Ids:
        """Return the distinct ids in order, of all rows or of those that may answer."""
        kept = self._base.ids(where)
        if len(self._replaced):
            kept = kept[~np.isin(kept, self._replaced, assume_unique=True)]
        return kept if self._delta is None else np.union1d(kept, self._delta.ids(where))

    def tables(self, first: int, last: int) -> Iterator[pa.Table]:
        """Yield the rows whose name_id lies between two, both included, in the order of name_id."""
        starts = [batch.column(schemas.NAMES.get_field_index("name_id"))[0].as_py() for batch in self._base.batches]
        for start, stop in zip([first, *starts[1:]], [*starts[1:], last + 1], strict=True):
            low, high = max(first, start), min(last, stop - 1)
            if low > high:
                continue
            kept = self._base.between(low, high)
            if len(self._replaced):
                kept = kept.filter(pa.array(~np.isin(kept["name_id"].to_numpy(), self._replaced)))
            if self._delta is not None:
                joined = pa.concat_tables([kept, self._delta.between(low, high)])
                kept = joined.take(pa.array(np.argsort(joined["name_id"].to_numpy(), kind="stable")))
            yield kept


def read_removed(path: Path, *, verify: bool = False) -> Ids:
    """Read the name_ids that an update took from a shard, sorted."""
    return np.concatenate([NO_IDS, *(batch.column(0).to_numpy() for batch in read_arrow(path, REMOVED, verify=verify))])


class ConceptTable:
    """The preferred name of each concept of one bucket, sorted by the code points of concept_id."""

    def __init__(self, path: Path, *, verify: bool = False) -> None:
        self.batches = read_arrow(path, CONCEPTS, verify=verify)
        self._first = [batch.column(0)[0].as_py() for batch in self.batches]

    def find(self, concept_id: str) -> tuple[bool, str | None]:
        """Return whether the table has the concept, and its preferred name: None if it is no more."""
        chunk = bisect.bisect_right(self._first, concept_id) - 1
        if chunk < 0:
            return False, None
        batch = self.batches[chunk]
        ids = batch.column(0)
        row = bisect.bisect_left(range(len(ids)), concept_id, key=lambda i: ids[i].as_py())
        if row == len(ids) or ids[row].as_py() != concept_id:
            return False, None
        return True, batch.column(1)[row].as_py()


def preferred_name(tables: Sequence[ConceptTable], concept_id: str) -> str | None:
    """Return a concept's preferred name by the first table that knows it, or None if the concept is not there."""
    for table in tables:
        known, name = table.find(concept_id)
        if known:
            return name
    return None
