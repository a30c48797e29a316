"""Text files as streams of blocks that can be parsed apart: plain or gzip, cut only where a record ends."""

from __future__ import annotations

import codecs
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


def open_text(uri: str) -> IO[bytes]:
    """Open a file whose content may be compressed by gzip (judged by its first bytes, not its name).

    Raises:
        InputError: the file is not there or cannot be read.
    """
    try:
        with storage.open_input(uri) as probe:
            packed = probe.read(2) == GZIP_MAGIC
        stream = storage.open_input(uri)
    except OSError as error:
        raise InputError.at(uri, None, f"cannot be read ({error})", "check the path") from error
    return cast(IO[bytes], gzip.GzipFile(fileobj=stream)) if packed else stream


def read_blocks(uri: str, block_bytes: int = BLOCK_BYTES, boundary: bytes = b"\n") -> Iterator[Block]:
    """Yield a file's blocks.

    Args:
        uri: a plain or gzip file.
        block_bytes: least size of a block, the last apart; a record is never cut, so blocks are a little larger.
        boundary: starts with LF; a block ends right after that LF where the whole boundary stands.

    Raises:
        InputError: the file cannot be read, or the gzip stream is damaged or cut short.
    """
    rest = b""
    index, line = 0, 1
    with open_text(uri) as stream:
        for chunk in _chunks(stream, block_bytes, uri):
            data = rest + chunk
            cut = data.rfind(boundary) + 1
            if cut == 0:
                rest = data
                continue
            yield Block(index, line, data[:cut])
            index, line, rest = index + 1, line + data.count(b"\n", 0, cut), data[cut:]
    if rest:
        yield Block(index, line, rest)


def head_lines(uri: str) -> Iterator[bytes]:
    """Yield a file's lines without their ends, from the start, reading no more of it than is asked for."""
    for block in read_blocks(uri, _HEAD_BYTES):
        yield from block.data.splitlines()


def _chunks(stream: IO[bytes], size: int, uri: str) -> Iterator[bytes]:
    first = True
    while True:
        try:
            chunk = stream.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError.at(uri, None, f"is a damaged gzip file ({error})", "fetch it again") from error
        if not chunk:
            return
        yield chunk.removeprefix(codecs.BOM_UTF8) if first else chunk
        first = False
