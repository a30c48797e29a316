"""Text files as streams of blocks that can be parsed apart: plain or gzip, cut only where a record ends."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, cast

from biomodels import storage
from biomodels.errors import InputError

GZIP_MAGIC = b"\x1f\x8b"
BLOCK_BYTES = 8 << 20
_HEAD_BYTES = 1 << 16


@dataclass(frozen=True)
class Block:
    """A piece of a file that holds whole records."""

    index: int
    first_line: int
    """Number of its first line in the file, from 1."""
    data: bytes
    consumed: int = 0
    """How many bytes of the (maybe compressed) file were read for it."""


class _Counted:
    """A binary stream that knows how far it was read."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.position = 0

    def read(self, size: int = -1) -> bytes:
        piece = self._stream.read(size)
        self.position += len(piece)
        return piece


@contextlib.contextmanager
def _open(uri: str) -> Iterator[tuple[IO[bytes], _Counted]]:
    """Open a file; yield the stream of its text, and the stream beneath, which knows the position in the file."""
    try:
        with storage.open_input(uri) as probe:
            packed = probe.read(2) == GZIP_MAGIC
        file = storage.open_input(uri)
    except OSError as error:
        raise InputError.at(uri, None, f"cannot be read ({error})", "check the path") from error
    with file:
        source = _Counted(file)
        stream = gzip.GzipFile(fileobj=cast(IO[bytes], source)) if packed else source
        yield cast(IO[bytes], stream), source


def read_blocks(uri: str, block_bytes: int = BLOCK_BYTES, boundary: bytes = b"\n") -> Iterator[Block]:
    """Yield a file's blocks.

    Args:
        uri: a plain or gzip file.
        block_bytes: least size of a block, the last apart; a record is never cut, so blocks are a little larger.
        boundary: starts with LF; a block ends right after that LF where the whole boundary stands.

    Raises:
        InputError: the file cannot be read, or the gzip stream is damaged or cut short.
    """
    overlap = len(boundary) - 1
    pieces: list[bytes] = []  # of the block to come, without its last `overlap` bytes, where a boundary may have begun
    tail = b""
    index, line, position = 0, 1, 0
    with _open(uri) as (stream, source):
        for chunk in _chunks(stream, block_bytes, uri):
            data = tail + chunk
            cut = data.rfind(boundary) + 1
            if cut:
                block = Block(index, line, b"".join([*pieces, data[:cut]]), source.position - position)
                yield block
                index, line, pieces = index + 1, line + block.data.count(b"\n"), []
                position = source.position
            keep = max(len(data) - overlap, cut)
            pieces.append(data[cut:keep])
            tail = data[keep:]
        if rest := b"".join([*pieces, tail]):
            yield Block(index, line, rest, source.position - position)


def read_chunks(uri: str, size: int) -> Iterator[bytes]:
    """Yield the text of a plain or gzip file in pieces of at most about `size` bytes, cut anywhere.

    Raises:
        InputError: the file cannot be read, or the gzip stream is damaged or cut short.
    """
    with _open(uri) as (stream, _):
        yield from _chunks(stream, size, uri)


def head_lines(uri: str) -> Iterator[bytes]:
    """Yield a file's lines without their ends, from the start, reading no more of it than is asked for."""
    for block in read_blocks(uri, _HEAD_BYTES):
        yield from block.data.splitlines()


def _chunks(stream: IO[bytes], size: int, uri: str) -> Iterator[bytes]:
    first = True
    while True:
        try:
            chunk = stream.read(max(size, len(codecs.BOM_UTF8)))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError.at(uri, None, f"is a damaged gzip file ({error})", "fetch it again") from error
        if not chunk:
            return
        yield chunk.removeprefix(codecs.BOM_UTF8) if first else chunk
        first = False
