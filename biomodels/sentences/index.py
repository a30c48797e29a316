"""An index of sentences: stretches of rows that are searched as one, what belongs to each row, and what was deleted.

Small stretches are held in memory and compared exactly. A large one is written to disk while its sentences are
encoded, so that memory does not grow with the corpus, and is searched from memory-mapped files.

Files of a `sentence_index` artifact::

    segment-000/entries.arrow   ENTRIES of the stretch, in the order of adding
    segment-000/vectors.npy     its vectors, where it is searched exactly; or else
    segment-000/shards/*.faiss  its shards; see `biomodels.index`
    segment-000/alive.npy       which rows are left, if some were deleted
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from biomodels import storage
from biomodels.artifacts import Artifact, ArtifactBuilder
from biomodels.errors import ArtifactError, InputError, UsageError
from biomodels.index.cache import local_file
from biomodels.index.shards import Ids, Scores, merge_topk, unit
from biomodels.sentences.entries import ENTRIES, entry
from biomodels.sentences.segments import ExactSegment, Segment, ShardedSegment, build_sharded

KIND = "sentence_index"
EXACT_ROWS = 100_000
"""Up to so many rows a stretch is compared exactly, unless asked otherwise."""


class Hit(NamedTuple):
    """A sentence that was found."""

    id: str
    sentence: str
    score: float
    metadata: Any


@dataclass(frozen=True)
class Layout:
    """How a stretch is searched.

    Attributes:
        faiss: exact comparison by FAISS rather than numpy, and inverted lists for more than `EXACT_ROWS`.
        lists: so many inverted lists (at most one per row), instead of what is usual for the size.
        nprobe: lists to visit, instead of the measured choice.
    """

    faiss: bool = True
    lists: int | None = None
    nprobe: int | None = None

    def exact(self, rows: int) -> bool:
        """Say whether so many rows are compared one by one."""
        return not self.faiss or (self.lists is None and rows <= EXACT_ROWS)

    def factory(self, rows: int) -> str | None:
        """Return FAISS's description of the inverted lists, or None for the choice by size."""
        return None if self.lists is None else f"IVF{min(self.lists, rows)},Flat"


@dataclass
class _Stretch:
    entries: pa.Table
    segment: Segment
    alive: NDArray[np.bool_] | None = None

    @property
    def living(self) -> int:
        return self.segment.rows if self.alive is None else int(self.alive.sum())


class SentenceIndex:
    """Sentences that can be searched by vector.

    Args:
        dimension: columns of the vectors.
        model_digest: of the model that makes the vectors.
    """

    def __init__(self, dimension: int, model_digest: str) -> None:
        self.dimension = dimension
        self.model_digest = model_digest
        self._stretches: list[_Stretch] = []

    def __len__(self) -> int:
        return sum(stretch.living for stretch in self._stretches)

    @property
    def rows(self) -> int:
        """Rows ever added, deleted ones included: the number that the next sentence gets."""
        return sum(stretch.segment.rows for stretch in self._stretches)

    @property
    def facts(self) -> list[dict[str, Any]]:
        """How each stretch is searched; for inverted lists with the recall that was measured."""
        return [stretch.segment.facts | {"alive": stretch.living} for stretch in self._stretches]

    def sentences(self) -> Iterator[str]:
        """Yield the sentences in the order of adding."""
        for stretch in self._stretches:
            start = 0
            for batch in stretch.entries.select(["sentence"]).to_batches():
                texts = batch.column(0).to_pylist()
                alive = stretch.alive
                yield from (text for i, text in enumerate(texts, start) if alive is None or alive[i])
                start += len(texts)

    def add(self, chunks: Iterable[tuple[pa.Table, NDArray[np.float32]]], layout: Layout | None = None) -> int:
        """Add sentences; nothing is added if an error is raised.

        Args:
            chunks: tables of ENTRIES and their vectors E_ND, of any length.
            layout: how they are searched.

        Returns:
            How many were added.

        Raises:
            InputError: a vector is not finite.
            UsageError: an id is there already.
        """
        layout = layout or Layout()
        writer = _Writer(self.dimension)
        try:
            for table, E_ND in chunks:
                _check_finite(table, E_ND)
                writer.write(table, unit(np.asarray(E_ND, dtype=np.float32)))
            self.check_ids(writer.ids())
            stretch = writer.finish(layout)
        finally:
            writer.close()
        if stretch is None:
            return 0
        added = stretch.segment.rows
        last = self._stretches[-1] if self._stretches else None
        if last is not None and _joins(last, stretch, layout):
            self._stretches[-1] = _joined(last, stretch, layout)
        else:
            self._stretches.append(stretch)
        return added

    def check_ids(self, ids: pa.Array | pa.ChunkedArray) -> None:
        """Refuse ids that could not be added: those that stand twice, or whose sentence is there already.

        Raises:
            UsageError: naming one of them.
        """
        if pc.count_distinct(ids).as_py() < len(ids):
            counts = pc.value_counts(ids).to_pylist()
            twice = next(item["values"] for item in counts if item["counts"] > 1)
            raise UsageError(f"ids: {twice!r} is there twice; ids must differ")
        for stretch in self._stretches:
            column = stretch.entries["id"]
            if stretch.alive is not None:
                column = column.filter(pa.array(stretch.alive))
            again = ids.filter(pc.is_in(ids, column))
            if len(again):
                raise UsageError(f"ids: {again[0].as_py()!r} is there already; ids must differ")

    def delete(self, ids: Sequence[str]) -> int:
        """Delete sentences by id; nothing is deleted if an error is raised.

        Raises:
            UsageError: there is no sentence of some id.
        """
        wanted = pa.array(list(dict.fromkeys(ids)), pa.string())
        found = []
        masks = []
        for stretch in self._stretches:
            column = stretch.entries["id"]
            mask = np.zeros(stretch.segment.rows, dtype=bool)
            mask[np.asarray(pc.indices_nonzero(pc.is_in(column, wanted)))] = True
            if stretch.alive is not None:
                mask &= stretch.alive
            found += column.filter(pa.array(mask)).to_pylist()
            masks.append(mask)
        missing = set(wanted.to_pylist()) - set(found)
        if missing:
            raise UsageError(f"ids: there is no sentence with the id {min(missing)!r}")
        for stretch, mask in zip(self._stretches, masks, strict=True):
            if mask.any():
                alive = np.ones(len(mask), dtype=bool) if stretch.alive is None else stretch.alive
                stretch.alive = alive & ~mask
        return len(found)

    def search(self, E_ND: NDArray[np.float32], k: int, threshold: float = -1.0) -> list[list[Hit]]:
        """Find the k sentences nearest to each query.

        Args:
            E_ND: vectors of the queries.
            k: most sentences for each.
            threshold: least cosine of a sentence that is returned.

        Returns:
            Hits by descending score, ties in the order of adding.

        Raises:
            UsageError: k is below 1, the threshold is no number, or the vectors have another dimension.
            InputError: a vector is not finite.
        """
        if k < 1:
            raise UsageError(f"top_k: must be at least 1 (given: {k})")
        if np.isnan(threshold):
            raise UsageError(f"threshold: must be a number (given: {threshold})")
        if E_ND.ndim != 2 or E_ND.shape[1] != self.dimension:
            raise UsageError(f"queries of shape {E_ND.shape}: the index needs (N, {self.dimension})")
        if not np.isfinite(E_ND).all():
            raise InputError("the vector of a query is not finite; the model is damaged")
        k = min(k, len(self))
        if not len(E_ND) or not k:
            return [[] for _ in range(len(E_ND))]
        Q_ND = unit(np.asarray(E_ND, dtype=np.float32))
        parts: list[tuple[Scores, Ids]] = []
        first = 0
        for stretch in self._stretches:
            S_NK, I_NK = stretch.segment.search(Q_ND, k, stretch.alive)
            parts.append((S_NK, np.where(I_NK < 0, -1, I_NK + first)))
            first += stretch.segment.rows
        S_NK, I_NK = merge_topk(parts, k)
        return [
            [self._hit(int(i), float(s)) for s, i in zip(scores, rows, strict=True) if i >= 0 and s >= threshold]
            for scores, rows in zip(S_NK, I_NK, strict=True)
        ]

    def save(self, directory: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the index as a directory, which appears whole or not at all.

        Args:
            directory: a local path.
            overwrite: replace the index that is there.

        Raises:
            UsageError: something is there, and it is no index or is not to be replaced.
        """
        target = _local(directory)
        if target.exists() and any(target.iterdir() if target.is_dir() else [target]):
            if not overwrite:
                raise UsageError(f"{target}: is there already; choose another place, or give overwrite=True")
            Artifact.open(str(target), KIND)
        staged = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
        try:
            self._write(str(staged))
            gone = target.with_name(f".{target.name}.{uuid.uuid4().hex}.old")
            if target.exists():
                target.rename(gone)
            staged.rename(target)
            shutil.rmtree(gone, ignore_errors=True)
        finally:
            shutil.rmtree(staged, ignore_errors=True)

    @classmethod
    def load(cls, directory: str | os.PathLike[str], *, verify: bool = False) -> SentenceIndex:
        """Open a saved index; its files are memory-mapped, not read.

        Args:
            directory: a local path.
            verify: read every file once and compare its SHA-256.

        Raises:
            ArtifactError: it is missing, damaged, or no index of sentences.
        """
        uri = str(_local(directory))
        artifact = Artifact.open(uri, KIND)
        try:
            index = cls(int(artifact.facts["dimension"]), str(artifact.facts["model_digest"]))
            for number, facts in enumerate(artifact.facts["segments"]):
                prefix = f"segment-{number:03d}/"
                files = {
                    item.path.removeprefix(prefix): local_file(uri, item, verify=verify)
                    for item in artifact.files(prefix)
                }
                index._stretches.append(_opened(uri, files, facts))
        except (KeyError, TypeError, ValueError, OSError, pa.ArrowException) as error:
            raise ArtifactError(f"{uri}: is damaged ({error}); build the index again") from error
        return index

    def _write(self, uri: str) -> None:
        facts: dict[str, Any] = {
            "model_digest": self.model_digest,
            "dimension": self.dimension,
            "sentences": len(self),
            "segments": self.facts,
        }
        builder = ArtifactBuilder.begin(uri, KIND, config={}, inputs={"model": self.model_digest})
        for number, stretch in enumerate(self._stretches):
            folder = f"segment-{number:03d}"
            files = stretch.segment.files()
            for name, file in files.items():
                # the four ignores below: mypy cannot infer a lambda with defaults
                builder.publish(f"{folder}/{name}", lambda local, file=file: _link(file, local))  # type: ignore[misc]
            if isinstance(stretch.segment, ExactSegment) and not files:
                E_ND = stretch.segment.E_ND
                builder.publish(f"{folder}/vectors.npy", lambda local, E_ND=E_ND: _save_array(E_ND, local))  # type: ignore[misc]
            if stretch.alive is not None:
                alive = stretch.alive
                builder.publish(f"{folder}/alive.npy", lambda local, alive=alive: _save_array(alive, local))  # type: ignore[misc]
            table = stretch.entries
            builder.publish(f"{folder}/entries.arrow", lambda local, table=table: _save_table(table, local))  # type: ignore[misc]
        builder.commit(facts)

    def _hit(self, row: int, score: float) -> Hit:
        for stretch in self._stretches:
            if row < stretch.segment.rows:
                identity, sentence, metadata = entry(stretch.entries, row)
                return Hit(identity, sentence, score, metadata)
            row -= stretch.segment.rows
        raise AssertionError(row)


def _check_finite(table: pa.Table, E_ND: NDArray[np.float32]) -> None:
    finite = np.isfinite(E_ND).all(axis=1)
    if not finite.all():
        text = table["sentence"][int(np.argmin(finite))].as_py()
        raise InputError(f"the vector of {text[:80]!r} is not finite; the model is damaged")


class _Writer:
    """Collects the rows of a stretch: in memory while they are few, then in files."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._tables: list[pa.Table] = []
        self._vectors: list[Scores] = []
        self._rows = 0
        self._folder: Path | None = None
        self._ids: list[pa.ChunkedArray] = []

    def write(self, table: pa.Table, E_ND: Scores) -> None:
        self._tables.append(table)
        self._vectors.append(E_ND)
        self._ids.append(table["id"])
        self._rows += len(E_ND)
        if self._rows > EXACT_ROWS:
            self._spill()

    def ids(self) -> pa.ChunkedArray:
        """Return the ids of all rows."""
        return pa.chunked_array([chunk for column in self._ids for chunk in column.chunks], pa.string())

    def finish(self, layout: Layout) -> _Stretch | None:
        """Return the stretch, or None if there are no rows."""
        if not self._rows:
            return None
        if self._folder is None and layout.exact(self._rows):
            segment = ExactSegment(np.concatenate(self._vectors), faiss=layout.faiss)
            return _Stretch(pa.concat_tables(self._tables).combine_chunks(), segment)
        folder = self._spill()
        self._sink.close()
        self._entries.close()
        entries, raw = _mapped(folder / "entries.arrow"), folder / "vectors.f32"
        if layout.exact(self._rows):
            E_ND = np.memmap(raw, dtype=np.float32, mode="r", shape=(self._rows, self._dimension))
            stretch = _Stretch(entries, ExactSegment(E_ND, faiss=layout.faiss))
        else:
            factory = layout.factory(self._rows)
            shards = str(folder / "shards")
            segment_ = build_sharded(raw, self._rows, self._dimension, shards, factory=factory, nprobe=layout.nprobe)
            raw.unlink()
            stretch = _Stretch(entries, segment_)
        self._folder = None  # the stretch owns it now
        weakref.finalize(stretch.segment, shutil.rmtree, folder, ignore_errors=True)
        return stretch

    def close(self) -> None:
        """Remove the files of a stretch that was not finished."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _spill(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="sentences-"))
            self._sink = (self._folder / "vectors.f32").open("wb")
            self._entries = pa.ipc.new_file(str(self._folder / "entries.arrow"), ENTRIES)
        for table, E_ND in zip(self._tables, self._vectors, strict=True):
            self._entries.write_table(table)
            self._sink.write(np.ascontiguousarray(E_ND).data)
        self._tables, self._vectors = [], []
        return self._folder


def _joins(last: _Stretch, new: _Stretch, layout: Layout) -> bool:
    """Say whether two stretches in memory are better one."""
    both = isinstance(last.segment, ExactSegment) and isinstance(new.segment, ExactSegment)
    return both and layout.faiss == last.segment.facts["faiss"] and last.segment.rows + new.segment.rows <= EXACT_ROWS


def _joined(last: _Stretch, new: _Stretch, layout: Layout) -> _Stretch:
    assert isinstance(last.segment, ExactSegment) and isinstance(new.segment, ExactSegment)
    E_ND = np.concatenate([last.segment.E_ND, new.segment.E_ND])
    alive = None if last.alive is None else np.concatenate([last.alive, np.ones(new.segment.rows, dtype=bool)])
    table = pa.concat_tables([last.entries, new.entries]).combine_chunks()
    return _Stretch(table, ExactSegment(E_ND, faiss=layout.faiss), alive)


def _opened(uri: str, files: dict[str, Path], facts: dict[str, Any]) -> _Stretch:
    entries = _mapped(files["entries.arrow"])
    alive = np.load(files["alive.npy"], allow_pickle=False) if "alive.npy" in files else None
    segment: Segment
    if facts["kind"] == "exact":
        E_ND = np.load(files["vectors.npy"], mmap_mode="r", allow_pickle=False)
        segment = ExactSegment(E_ND, files["vectors.npy"], faiss=bool(facts["faiss"]))
    else:
        segment = ShardedSegment(uri, {k: v for k, v in files.items() if k.startswith("shards/")}, facts)
    if entries.num_rows != segment.rows or segment.rows != facts["rows"]:
        raise ValueError(f"{entries.num_rows} entries for {segment.rows} vectors")
    return _Stretch(entries, segment, alive)


def _mapped(file: Path) -> pa.Table:
    table = pa.ipc.open_file(pa.memory_map(str(file))).read_all()
    if table.schema != ENTRIES:
        raise ValueError(f"{file.name} has columns {table.schema.names}")
    return table


def _local(directory: str | os.PathLike[str]) -> Path:
    uri = os.fspath(directory)
    if not storage.is_local(uri):
        raise UsageError(f"{uri}: an index of sentences is saved and loaded on a local disk; copy it")
    return Path(storage.filesystem(uri)[1])


def _link(file: Path, local: str) -> None:
    with suppress(OSError):
        os.link(file, local)
        return
    shutil.copyfile(file, local)


def _save_array(array: NDArray[Any], local: str) -> int:
    with open(local, "wb") as sink:
        np.save(sink, np.ascontiguousarray(array), allow_pickle=False)
    return len(array)


def _save_table(table: pa.Table, local: str) -> int:
    with pa.ipc.new_file(local, ENTRIES) as writer:
        writer.write_table(table, max_chunksize=1 << 16)
    return int(table.num_rows)
