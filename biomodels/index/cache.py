"""Files of an artifact as local paths, for what must be memory-mapped."""

from __future__ import annotations

import hashlib
import os
import uuid
from pathlib import Path

from biomodels import storage
from biomodels.artifacts import FileEntry
from biomodels.errors import ArtifactError

CACHE_VARIABLE = "BIOMODELS_CACHE"


def cache_directory() -> Path:
    """Return where this node keeps copies of remote files: `$BIOMODELS_CACHE`, else `~/.cache/biomodels`."""
    return Path(os.environ.get(CACHE_VARIABLE) or "~/.cache/biomodels").expanduser()


def local_file(directory: str, entry: FileEntry, *, verify: bool = False) -> Path:
    """Return a local file with the content of one of an artifact's files.

    A file on this machine is used where it lies. A remote one is copied once to the node's cache, under its SHA-256,
    which is checked while copying; several processes may do so at once.

    Args:
        directory: the artifact's URI.
        entry: the file, from its manifest.
        verify: also read a file that lies on this machine and compare its SHA-256. A copy in the cache that has gone
            bad is fetched again.

    Raises:
        ArtifactError: the file is missing, or its content is not what the manifest says.
    """
    uri = storage.join(directory, entry.path)
    if not storage.is_local(uri):
        return _cached(uri, entry, verify)
    local = Path(storage.filesystem(uri)[1])
    size = local.stat().st_size if local.is_file() else None
    if size != entry.bytes:
        found = "is missing" if size is None else f"has {size} bytes, not {entry.bytes}"
        raise ArtifactError(f"{uri}: {found}; the artifact is damaged, make it again")
    if verify and storage.sha256(uri) != entry.sha256:
        raise ArtifactError(f"{uri}: content differs from the manifest; make the artifact again")
    return local


def _cached(uri: str, entry: FileEntry, verify: bool) -> Path:
    target = cache_directory() / entry.sha256[:2] / entry.sha256
    whole = target.is_file() and target.stat().st_size == entry.bytes
    if whole and (not verify or storage.sha256(str(target)) == entry.sha256):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    staged = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    digest = hashlib.sha256()
    try:
        with staged.open("wb") as sink:
            for piece in storage.chunks(uri):
                digest.update(piece)
                sink.write(piece)
        if digest.hexdigest() != entry.sha256:
            raise ArtifactError(f"{uri}: content differs from the manifest; make the artifact again")
        staged.replace(target)
    finally:
        staged.unlink(missing_ok=True)
    return target
