"""Files by URI: a local path, or anything that `pyarrow.fs` opens (`s3://`, `gs://`, `hdfs://`).

On a local disk a file appears whole or not at all (temporary name, fsync, rename). On an object store a put is
already atomic.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from pyarrow import fs as pafs

from biomodels.errors import UsageError

CHUNK_BYTES = 1 << 22


def filesystem(uri: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system of `uri` and the path inside it; a plain path is made absolute.

    Raises:
        UsageError: its scheme is not known.
    """
    if "://" in uri:
        try:
            found: tuple[pafs.FileSystem, str] = pafs.FileSystem.from_uri(uri)
        except pa.ArrowInvalid as error:
            raise UsageError(f"{uri}: cannot be opened ({error}); use a local path, s3://… or gs://…") from error
        return found
    return pafs.LocalFileSystem(), os.path.abspath(os.path.expanduser(uri))


def join(uri: str, *names: str) -> str:
    """Join path elements to a URI with forward slashes."""
    return "/".join([uri.rstrip("/"), *names])


def is_local(uri: str) -> bool:
    """Say whether `uri` lies on a disk of this machine, so that it can be renamed, locked and memory-mapped."""
    return isinstance(filesystem(uri)[0], pafs.LocalFileSystem)


def exists(uri: str) -> bool:
    """Say whether a file or directory is there."""
    files, path = filesystem(uri)
    return bool(files.get_file_info(path).type != pafs.FileType.NotFound)


def is_file(uri: str) -> bool:
    """Say whether a file is there, rather than a directory or nothing."""
    files, path = filesystem(uri)
    return bool(files.get_file_info(path).type == pafs.FileType.File)


def absolute(uri: str) -> str:
    """Return a form of `uri` that means the same in a process with another current directory."""
    return uri if "://" in uri else filesystem(uri)[1]


def list_files(uri: str, *, recursive: bool = False) -> list[str]:
    """Return the paths of the files below a directory, relative to it, sorted; empty if it is not there.

    What a killed process left of a file in the making is not listed.
    """
    files, path = filesystem(uri)
    selector = pafs.FileSelector(path, allow_not_found=True, recursive=recursive)
    found = [info.path for info in files.get_file_info(selector) if info.type == pafs.FileType.File]
    return sorted(os.path.relpath(name, path) for name in found if not _is_staged(name))


def open_input(uri: str) -> IO[bytes]:
    """Open a file for reading as a binary stream. The name is taken literally: nothing is decompressed."""
    files, path = filesystem(uri)
    return files.open_input_stream(path, compression=None)  # type: ignore[no-any-return]  # pyarrow is untyped


def read_bytes(uri: str) -> bytes:
    """Read a whole (small) file."""
    with open_input(uri) as stream:
        return stream.read()


def read_json(uri: str) -> Any:
    """Read a JSON file."""
    return json.loads(read_bytes(uri))


def chunks(uri: str) -> Iterator[bytes]:
    """Yield the content of a file in pieces of bounded size."""
    with open_input(uri) as stream:
        while piece := stream.read(CHUNK_BYTES):
            yield piece


def lines(uri: str) -> Iterator[bytes]:
    """Yield the lines of a file with their line feeds, reading pieces of bounded size."""
    rest = b""
    for piece in chunks(uri):
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line + b"\n" for line in whole)
    if rest:
        yield rest


def sha256(uri: str) -> str:
    """Return the SHA-256 of a file's content as hexadecimal digits."""
    digest = hashlib.sha256()
    for piece in chunks(uri):
        digest.update(piece)
    return digest.hexdigest()


def make_parent(uri: str) -> tuple[pafs.FileSystem, str]:
    """Make the directory that a file will lie in; return the file system and the file's path inside it.

    Raises:
        UsageError: it cannot be made, because a file is in the way, say, or permission is lacking.
    """
    files, path = filesystem(uri)
    try:
        files.create_dir(os.path.dirname(path), recursive=True)
    except OSError as error:
        raise UsageError(f"{uri}: cannot be written ({error}); choose another place") from error
    return files, path


def publish_file(local: str | Path, uri: str) -> None:
    """Move a finished local file to `uri`, where it appears whole or not at all.

    Args:
        local: the finished file. It is gone afterwards.
        uri: where it goes; missing directories are made.
    """
    files, path = make_parent(uri)
    if is_local(uri):
        target = Path(path)
        source = Path(local)
        if source.stat().st_dev != target.parent.stat().st_dev:
            staged = Path(_staged(path))
            shutil.copyfile(source, staged)
            source.unlink()
            source = staged
        with source.open("rb") as handle:
            os.fsync(handle.fileno())
        os.replace(source, target)
        _fsync_directory(target.parent)
    else:
        with files.open_output_stream(path, compression=None) as sink, open(local, "rb") as source_stream:
            shutil.copyfileobj(source_stream, sink, CHUNK_BYTES)
        os.unlink(local)


@contextlib.contextmanager
def writing(uri: str) -> Iterator[str]:
    """Yield a local path to fill; when the block ends well, the file is published at `uri`, else it is removed."""
    path = filesystem(uri)[1]
    local = _staged(path if is_local(uri) else os.path.join(tempfile.gettempdir(), os.path.basename(path)))
    os.makedirs(os.path.dirname(local), exist_ok=True)
    try:
        yield local
        publish_file(local, uri)
    finally:
        Path(local).unlink(missing_ok=True)


def publish_bytes(content: bytes, uri: str) -> None:
    """Write a small file that appears whole or not at all."""
    files, path = make_parent(uri)
    if is_local(uri):
        staged = _staged(path)
        try:
            with open(staged, "wb") as handle:
                handle.write(content)
                handle.flush()
                os.fsync(handle.fileno())
            os.replace(staged, path)
        except BaseException:
            Path(staged).unlink(missing_ok=True)
            raise
        _fsync_directory(Path(path).parent)
    else:
        with files.open_output_stream(path, compression=None) as sink:
            sink.write(content)


def remove_file(uri: str) -> None:
    """Delete a file; no error if it is not there."""
    files, path = filesystem(uri)
    if files.get_file_info(path).type == pafs.FileType.File:
        files.delete_file(path)


def remove_tree(uri: str) -> None:
    """Delete a directory and all below it; no error if it is not there."""
    files, path = filesystem(uri)
    if files.get_file_info(path).type == pafs.FileType.Directory:
        files.delete_dir(path)


def remove_staged(uri: str) -> None:
    """Delete what killed processes left below a local directory of files in the making. Nobody may be writing there."""
    if is_local(uri):
        for path in Path(filesystem(uri)[1]).rglob(".*.tmp"):
            if path.is_file():
                path.unlink(missing_ok=True)


def _staged(path: str) -> str:
    """Return where a file is made before it moves to `path`: beside it, under a hidden name of its own."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{uuid.uuid4().hex}.tmp")


def _is_staged(path: str) -> bool:
    name = os.path.basename(path)
    return name.startswith(".") and name.endswith(".tmp")


def _fsync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
