"""Vectorised keyed hashes: the source of every choice and order in the shard job.

A string is hashed once (BLAKE2b); combinations of such hashes are mixed with numpy, so that millions of pairs need
no Python object each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

UInts = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(*words: npt.NDArray[np.uint64] | npt.NDArray[np.int64] | int) -> UInts:
    """Hash one or more 64-bit words per row into 64 well mixed bits (chained SplitMix64 finalisers).

    Args:
        words: arrays that broadcast against each other, or integers (taken modulo 2^64).

    Returns:
        uint64, of the broadcast shape (at least one-dimensional).
    """
    state: UInts = np.zeros(1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for word in words:
            value = np.atleast_1d(np.asarray(word & 0xFFFFFFFFFFFFFFFF if isinstance(word, int) else word))
            state = (state ^ value.astype(np.uint64)) + _GOLDEN
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = state ^ (state >> np.uint64(31))
    return state


def hash_strings(texts: Iterable[str]) -> npt.NDArray[np.int64]:
    """Return the `name_id` of each string."""
    digest = hashlib.blake2b  # a loop of its own: this is the innermost of the shard job
    blob = b"".join([digest(text.encode()).digest()[:8] for text in texts])
    return (np.frombuffer(blob, dtype=">u8") >> np.uint64(1)).astype(np.int64)


def hash_column(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return the `name_id` of each value of a string column; repeated values are hashed once."""
    encoded = pa.chunked_array(column.chunks, pa.string()).combine_chunks().dictionary_encode()
    distinct = hash_strings(encoded.dictionary.to_pylist())
    hashes: npt.NDArray[np.int64] = distinct[encoded.indices.to_numpy()]
    return hashes
