"""The one reader of training data: which rows make up step k, and which of them a rank gets.

The order of an epoch is a keyed permutation of the dataset's parts, cut into windows of whole parts, and a keyed
permutation of the rows inside each window. So memory is bounded by a window, step k is a function of (dataset, seed,
epoch, k) alone, and any step can be reached by reading its window only.

Rows that must stay together (one list to be ranked) move as one run: a run belongs to the batch, and to the rank, in
whose range of positions its first row lies. Without such a column every row is a run of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from biomodels.artifacts import Artifact
from biomodels.errors import InputError
from biomodels.terminology.hashing import mix
from biomodels.terminology.normalise import keyed_hash

WINDOW_ROWS = 1 << 18
WINDOWS_KEPT = 2  # a batch may lie across the end of a window


@dataclass(frozen=True)
class Window:
    """Rows of a window in training order.

    Attributes:
        start: position of its first row in the epoch.
        rows: the permuted rows.
        runs: positions in `rows` where a run starts, ascending.
    """

    start: int
    rows: pa.Table
    runs: NDArray[np.int64]


class EpochReader:
    """Random access to the global batches of a dataset.

    Args:
        dataset: its manifest must give the rows of each Parquet part.
        columns: what to read.
        seed: of all permutations.
        batch_size: rows of a global batch; with `uncut`, rows on average.
        uncut: see the module.
        drop_last: leave out the incomplete batch at the end of an epoch. By default it is used, as in SapBERT.
        window_rows: rows permuted together, at least (a window holds whole parts). It is part of the order.

    Raises:
        InputError: the dataset has fewer rows than one step needs.
    """

    def __init__(
        self,
        dataset: Artifact,
        columns: Sequence[str],
        *,
        seed: int,
        batch_size: int,
        uncut: str | None = None,
        drop_last: bool = False,
        window_rows: int = WINDOW_ROWS,
    ) -> None:
        self._dataset = dataset
        self._columns = list(dict.fromkeys([*columns, *([uncut] if uncut else [])]))
        self._seed = seed
        self._uncut = uncut
        self._window_rows = window_rows
        self.batch_size = batch_size
        self._entries = {
            entry.path: entry
            for entry in dataset.files()
            if entry.path.endswith(".parquet") and not entry.path.startswith("rejects/")
        }
        self._parts = {path: entry.rows for path, entry in self._entries.items() if entry.rows}
        self.rows = sum(self._parts.values())
        self.steps_per_epoch = self.rows // batch_size if drop_last else -(-self.rows // batch_size)
        if self.steps_per_epoch == 0:
            raise InputError(f"{dataset.uri}: has {self.rows} rows, too few for one batch of {batch_size}")
        self._plan = lru_cache(maxsize=2)(self._plan_epoch)
        self._window = lru_cache(maxsize=WINDOWS_KEPT)(self._read_window)

    def batch(self, step: int) -> pa.Table:
        """Return the global batch of a step, counted from 0 over all epochs."""
        return self.slice(step, 0, 1)

    def slice(self, step: int, rank: int, world_size: int) -> pa.Table:
        """Return one rank's rows of a step's global batch, perhaps none.

        The slices of all ranks, put together in order of rank, are the global batch. Without `uncut` their sizes
        differ by at most one.
        """
        epoch, k = divmod(step, self.steps_per_epoch)
        start = k * self.batch_size
        size = min(self.batch_size, self.rows - start)
        share, extra = divmod(size, world_size)
        low = start + rank * share + min(rank, extra)
        return self._runs_starting_in(epoch, low, low + share + (rank < extra))

    def _runs_starting_in(self, epoch: int, low: int, high: int) -> pa.Table:
        pieces = []
        for number, (start, _, rows) in enumerate(self._plan(epoch)):
            if start < high and low < start + rows:
                window = self._window(epoch, number)
                first, last = np.searchsorted(window.runs, [low - start, high - start])
                bounds = np.append(window.runs, rows)[[first, last]].tolist()
                pieces.append(window.rows.slice(bounds[0], bounds[1] - bounds[0]))
        if not pieces:
            pieces = [self._window(epoch, 0).rows.slice(0, 0)]
        return pa.concat_tables(pieces)

    def _plan_epoch(self, epoch: int) -> list[tuple[int, list[str], int]]:
        """Return the windows of an epoch as (position of the first row, parts, rows)."""
        windows: list[tuple[int, list[str], int]] = []
        start, parts, rows = 0, [], 0
        order = sorted(self._parts, key=lambda path: (keyed_hash(self._seed, "part", epoch, path), path))
        for path in order:
            parts.append(path)
            rows += self._parts[path]
            if rows >= self._window_rows or path == order[-1]:
                windows.append((start, parts, rows))
                start, parts, rows = start + rows, [], 0
        return windows

    def _read_window(self, epoch: int, number: int) -> Window:
        start, parts, _ = self._plan(epoch)[number]
        table = pa.concat_tables(
            [self._dataset.read_table(self._entries[path], self._columns) for path in parts]
        ).combine_chunks()
        lengths = np.concatenate([self._run_lengths(table, offset, rows) for offset, rows in self._offsets(parts)])
        order = keyed_permutation(len(lengths), keyed_hash(self._seed, "window", epoch, number))
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        permuted = np.cumsum(lengths[order]) - lengths[order]
        # Row i of the permuted window is its run's old start plus its place inside the run.
        rows = np.repeat(starts[order] - permuted, lengths[order]) + np.arange(len(table))
        return Window(start, table.take(pa.array(rows)), permuted)

    def _offsets(self, parts: list[str]) -> list[tuple[int, int]]:
        rows = [self._parts[path] for path in parts]
        return list(zip(np.cumsum([0, *rows[:-1]]).tolist(), rows, strict=True))

    def _run_lengths(self, table: pa.Table, offset: int, rows: int) -> NDArray[np.int64]:
        """Return the lengths of the runs inside one part."""
        if self._uncut is None:
            return np.ones(rows, dtype=np.int64)
        values = table[self._uncut].slice(offset, rows).to_numpy(zero_copy_only=False)
        starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
        return np.diff(np.append(starts, rows))


def keyed_permutation(size: int, key: int) -> NDArray[np.int64]:
    """Return a permutation of 0…size-1: an order by hashes, so that it is the same in every version of numpy."""
    return np.argsort(mix(np.arange(size), key), kind="stable").astype(np.int64)
