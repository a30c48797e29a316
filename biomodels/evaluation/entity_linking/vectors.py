"""Vectors of texts, each text encoded once per model and kept in files.

A folder of vectors is named after the model's digest and the precision, and holds `keys.bin`, a 16-byte BLAKE2b of each
text, and `vectors.f32`, the rows in the same order. Both only grow, and a run that was killed leaves at most rows
without keys, which the next one cuts off. So a second run, or another benchmark with the same dictionary, encodes only
what is new.
"""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biomodels.errors import UsageError

KEY_BYTES = 16
CHUNK = 2048  # texts encoded between two writes: what a kill can cost

Encode = Callable[[Sequence[str]], NDArray[np.float32]]


class VectorStore:
    """The vectors of one model.

    Args:
        folder: a directory of this model alone; it is made, and held by a lock.
        dimension: columns of a vector.
        encode: texts → E_ND float32, called with a few thousand texts at a time.

    Raises:
        UsageError: another process is using the folder.
    """

    def __init__(self, folder: Path, dimension: int, encode: Encode) -> None:
        self._encode = encode
        self._dimension = dimension
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = (folder / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"{folder}: another process is using these vectors; wait for it") from error
        self._keys = (folder / "keys.bin").open("a+b")
        self._vectors = (folder / "vectors.f32").open("a+b")
        self._rows: dict[bytes, int] = {}
        self._recover()

    def __enter__(self) -> VectorStore:
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self._keys, self._vectors, self._lock):
            file.close()

    def missing(self, texts: Iterable[str]) -> list[str]:
        """Return the distinct texts that have no vector yet."""
        return [text for text in dict.fromkeys(texts) if _key(text) not in self._rows]

    def add(self, texts: Iterable[str], on_progress: Callable[[int], object] = lambda encoded: None) -> None:
        """Encode the texts that have no vector yet.

        Args:
            texts: any; repeated ones count once.
            on_progress: told the number of texts encoded by each call of the encoder.
        """
        todo = self.missing(texts)
        for start in range(0, len(todo), CHUNK):
            chunk = todo[start : start + CHUNK]
            E_ND = np.ascontiguousarray(self._encode(chunk), dtype=np.float32)
            keys = [_key(text) for text in chunk]
            self._vectors.write(E_ND.tobytes())
            self._vectors.flush()
            self._keys.write(b"".join(keys))
            self._keys.flush()
            first = len(self._rows)
            self._rows |= {key: first + i for i, key in enumerate(keys)}
            on_progress(len(chunk))

    def rows(self, texts: Iterable[str]) -> NDArray[np.int64]:
        """Return the rows of texts that were added."""
        return np.array([self._rows[_key(text)] for text in texts], dtype=np.int64)

    def take(self, texts: Iterable[str]) -> RowView:
        """Return the vectors of texts that were added, read from the file when they are needed."""
        E_ND: NDArray[np.float32] = np.memmap(
            self._vectors.name, dtype=np.float32, mode="r", shape=(len(self._rows), self._dimension)
        )
        return RowView(E_ND, self.rows(texts))

    def _recover(self) -> None:
        self._keys.seek(0)
        content = self._keys.read()
        row = 4 * self._dimension
        self._vectors.seek(0, 2)
        whole = min(len(content) // KEY_BYTES, self._vectors.tell() // row)
        self._keys.truncate(whole * KEY_BYTES)
        self._vectors.truncate(whole * row)
        self._rows = {content[i * KEY_BYTES : (i + 1) * KEY_BYTES]: i for i in range(whole)}


class RowView:
    """Some rows of a matrix of vectors, in an order of their own; a slice or an index array gives an array."""

    def __init__(self, E_ND: NDArray[np.float32], rows: NDArray[np.int64]) -> None:
        self._E_ND = E_ND
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, which: Any) -> NDArray[np.float32]:
        return np.asarray(self._E_ND[self._rows[which]])


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()
