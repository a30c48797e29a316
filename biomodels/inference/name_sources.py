"""Where the names to be encoded come from: a `names` artifact, or a text file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from biomodels import schemas, storage
from biomodels.artifacts import Artifact, FileEntry
from biomodels.errors import ArtifactError, InputError
from biomodels.terminology.normalise import Normaliser
from biomodels.terminology.plain_text import count_lines, read_plain_text
from biomodels.terminology.rejects import Reject

BATCH_ROWS = 1 << 17


class NameSource(Protocol):
    """Names in files, each of which can be streamed by another task. It is small and picklable."""

    @property
    def digest(self) -> str:
        """Identity of the content."""

    @property
    def normaliser(self) -> Normaliser:
        """What made the strings of the names."""

    @property
    def rows(self) -> int:
        """Number of rows, before bad and equal ones are dropped: it decides the number of parts."""

    @property
    def files(self) -> int:
        """Number of files."""

    @property
    def once(self) -> bool:
        """Whether one row of each string is kept."""

    def tables(self, file: int, rejects: list[Reject]) -> Iterator[pa.Table]:
        """Stream the rows of a file (schema NAMES), cut the same way each time; `rejects` grows by bad ones."""


def open_names(uri: str, *, lowercase: bool) -> NameSource:
    """Open a `names` artifact, or a text file of names whose case is lowered or kept.

    Raises:
        InputError: the file cannot be read or has no names.
        ArtifactError: the directory is no finished `names` artifact.
    """
    source = TextNames.of(uri, Normaliser(lowercase)) if _is_file(uri) else ArtifactNames.of(uri)
    if not source.rows:
        raise InputError(f"{uri}: has no names; nothing can be encoded")
    return source


@dataclass(frozen=True)
class ArtifactNames:
    """The Parquet parts of a `names` artifact."""

    artifact: Artifact
    entries: tuple[FileEntry, ...]
    digest: str
    normaliser: Normaliser
    rows: int
    files: int
    once: bool = False

    @classmethod
    def of(cls, uri: str) -> ArtifactNames:
        """Open the artifact."""
        names = Artifact.open(uri, "names")
        entries = tuple(
            entry for entry in names.files() if entry.path.endswith(".parquet") and "rejects" not in entry.path
        )
        rows = sum(entry.rows or 0 for entry in entries)
        return cls(names, entries, names.digest, _normaliser_of(names), rows, len(entries))

    def tables(self, file: int, rejects: list[Reject]) -> Iterator[pa.Table]:
        """Stream one Parquet part."""
        files, path = storage.filesystem(self.artifact.file_uri(self.entries[file]))
        with files.open_input_file(path) as handle:
            for batch in pq.ParquetFile(handle).iter_batches(batch_size=BATCH_ROWS, columns=schemas.NAMES.names):
                yield pa.Table.from_batches([batch]).cast(schemas.NAMES)


@dataclass(frozen=True)
class TextNames:
    """A text file, one name a line."""

    uri: str
    digest: str
    normaliser: Normaliser
    rows: int
    files: int = 1
    once: bool = True

    @classmethod
    def of(cls, uri: str, normaliser: Normaliser) -> TextNames:
        """Count the file's lines."""
        uri = storage.absolute(uri)
        return cls(uri, f"{storage.sha256(uri)}-{normaliser.name}", normaliser, count_lines(uri))

    def tables(self, file: int, rejects: list[Reject]) -> Iterator[pa.Table]:
        """Stream the file."""
        return read_plain_text(self.uri, self.normaliser, rejects)


def _is_file(uri: str) -> bool:
    if storage.is_local(uri):
        return os.path.isfile(storage.filesystem(uri)[1])
    files, path = storage.filesystem(uri)
    return bool(files.get_file_info(path).is_file)


def _normaliser_of(names: Artifact) -> Normaliser:
    recorded = names.facts.get("normaliser", names.manifest.config.get("normaliser"))
    try:
        return Normaliser.from_name(str(recorded))
    except ValueError as error:
        raise ArtifactError(f"{names.uri}: {error}; make the names again with `shard terminology`") from error
