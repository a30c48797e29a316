"""The two halves of a shuffle on storage: rows are spilled by bucket, then each output part reads its buckets.

A spill file is an Arrow IPC file with exactly one record batch per bucket, in the buckets' order, so that a reader
fetches only what it needs. Buckets are the top bits of a 64-bit hash, so an output of 2^k parts is a merge of
neighbouring buckets: the number of parts can be chosen after the spilling, and it does not change the rows' order.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from biomodels import storage

UInts = npt.NDArray[np.uint64]


def bucket_of(hashes: UInts, bits: int) -> npt.NDArray[np.int64]:
    """Return the top `bits` bits of 64-bit hashes."""
    if bits == 0:
        return np.zeros(len(hashes), dtype=np.int64)
    return (hashes >> np.uint64(64 - bits)).astype(np.int64)


def part_bits(rows: int, target_rows: int, most_bits: int) -> int:
    """Return k such that 2^k parts hold at most about `target_rows` each; a function of the number of rows alone."""
    wanted = max(1, -(-rows // target_rows))
    return min(most_bits, (wanted - 1).bit_length())


def spill(table: pa.Table, buckets: npt.NDArray[np.int64], bits: int, uri: str) -> None:
    """Write a table's rows by bucket; the file appears whole.

    Args:
        table: the rows, in any order.
        buckets: each row's bucket, below 2^bits.
        bits: the binary logarithm of the number of buckets.
        uri: where the spill file goes.
    """
    order = np.argsort(buckets, kind="stable")
    table = table.take(pa.array(order)).combine_chunks()
    bounds = np.searchsorted(buckets[order], np.arange((1 << bits) + 1))
    empty = pa.RecordBatch.from_pylist([], schema=table.schema)
    batch = table.to_batches()[0] if table.num_rows else empty
    with (
        storage.writing(uri) as local,
        pa.OSFile(local, "wb") as sink,
        pa.ipc.new_file(sink, table.schema, options=_OPTIONS) as writer,
    ):
        for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            writer.write_batch(batch.slice(first, last - first))


def gather(uris: Iterable[str], first: int, last: int, schema: pa.Schema) -> pa.Table:
    """Read the buckets `first` to `last` (exclusive) of several spill files, in the order of the files."""
    found: list[pa.RecordBatch] = []
    for uri in uris:
        files, path = storage.filesystem(uri)
        with files.open_input_file(path) as handle, pa.ipc.open_file(handle) as reader:
            found += [reader.get_batch(bucket) for bucket in range(first, last)]
    return pa.Table.from_batches([batch for batch in found if batch.num_rows], schema=schema)


_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
