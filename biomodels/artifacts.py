"""Artifacts: directories whose `manifest.json`, put last, is the commit.

Layout of a directory in the making and when finished::

    out/manifest.json          the commit: kind, config, inputs, and every file's rows, bytes and SHA-256
    out/run.json               when, where and how it was made: not part of its identity
    out/<files>                the data; only what the manifest lists counts
    out/_work/plan.json        what is being made; removed with all of `_work` after the commit
    out/_work/done/*.json      the ledger: one entry per finished file, written after the file
    out/_work/tmp/             files being written
    out/versions/DIGEST.json   manifests that newer ones of the same directory replaced (see `begin_version`)

Running a job again on the same directory keeps what the ledger lists and verifies, and does the rest. A changed
config or input is a different artifact and is refused.
"""

from __future__ import annotations

import datetime
import fcntl
import hashlib
import json
import os
import platform
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, ValidationError

from biomodels import storage
from biomodels.errors import ArtifactError

NEARLY_UNIQUE = frozenset({"name_id", "name", "name_1", "name_2", "text"})
"""Columns for which Parquet should not look for repeated values: that takes time and makes the file larger."""

MANIFEST = "manifest.json"
WORK = "_work"
VERSIONS = "versions"


def digest_bytes(content: bytes) -> str:
    """Return BLAKE2b-128 of `content` as 32 hexadecimal digits."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def canonical_json(value: Any) -> bytes:
    """Return the one JSON form of `value`: sorted keys, no white space, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest_json(value: Any) -> str:
    """Return the digest of a JSON value."""
    return digest_bytes(canonical_json(value))


class FileEntry(BaseModel):
    """One file of an artifact."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    rows: int | None = None
    bytes: int
    sha256: str


class Manifest(BaseModel):
    """What an artifact is. It holds no time, host or path, so equal work gives equal bytes.

    `facts` are counts and settings that readers need, such as the number of concepts or the chosen nprobe.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    schema_version: int
    config: dict[str, Any]
    config_digest: str
    inputs: dict[str, str]
    files: list[FileEntry]
    facts: dict[str, Any]

    @property
    def digest(self) -> str:
        """The identity of the finished artifact."""
        return digest_json(self.model_dump())


class Artifact:
    """A finished artifact, opened for reading."""

    def __init__(self, uri: str, manifest: Manifest) -> None:
        self.uri = uri
        self.manifest = manifest

    @classmethod
    def open(cls, uri: str, kind: str | None = None) -> Artifact:
        """Read the manifest of `uri`.

        Raises:
            ArtifactError: there is none, it is damaged, or it is of another kind than `kind`.
        """
        manifest = _read_manifest(uri)
        if manifest is None:
            state = "is unfinished (run its job again)" if storage.exists(storage.join(uri, WORK)) else "is no artifact"
            raise ArtifactError(f"{uri}: {state}: it has no {MANIFEST}")
        if kind is not None and manifest.kind != kind:
            raise ArtifactError(f"{uri}: is a {manifest.kind!r} artifact where {kind!r} is needed")
        return cls(uri, manifest)

    @classmethod
    def versions(cls, uri: str, kind: str | None = None) -> list[Artifact]:
        """Return the current version of `uri`, then those that it replaced, in the order of their digests.

        Raises:
            ArtifactError: as `open`.
        """
        folder = storage.join(uri, VERSIONS)
        current = cls.open(uri, kind)
        older = [_read_manifest(uri, f"{VERSIONS}/{name}") for name in storage.list_files(folder)]
        return [current, *(cls(uri, one) for one in older if one and one.digest != current.digest)]

    @property
    def digest(self) -> str:
        """The identity of the artifact."""
        return self.manifest.digest

    @property
    def facts(self) -> dict[str, Any]:
        """Counts and settings that its job recorded."""
        return self.manifest.facts

    def files(self, prefix: str = "") -> list[FileEntry]:
        """Return the entries whose path starts with `prefix`, in the manifest's order."""
        return [entry for entry in self.manifest.files if entry.path.startswith(prefix)]

    def entry(self, path: str) -> FileEntry:
        """Return the entry of one file.

        Raises:
            ArtifactError: the manifest does not list it.
        """
        for entry in self.manifest.files:
            if entry.path == path:
                return entry
        raise ArtifactError(f"{self.uri}: its manifest lists no {path}; make the artifact again")

    def file_uri(self, entry: FileEntry | str) -> str:
        """Return where a file of the artifact is."""
        return storage.join(self.uri, entry if isinstance(entry, str) else entry.path)

    def read_table(self, entry: FileEntry, columns: list[str] | None = None) -> pa.Table:
        """Read one Parquet part.

        Raises:
            ArtifactError: the file is missing or does not have the size in the manifest.
        """
        self._check_size(entry)
        files, path = storage.filesystem(self.file_uri(entry))
        return pq.read_table(path, filesystem=files, columns=columns, use_threads=False)  # a task has one core

    def verify(self) -> None:
        """Read every file and compare its SHA-256 with the manifest's.

        Raises:
            ArtifactError: naming the first file that differs.
        """
        for entry in self.manifest.files:
            self._check_size(entry)
            if storage.sha256(self.file_uri(entry)) != entry.sha256:
                raise ArtifactError(f"{self.file_uri(entry)}: content differs from the manifest; make it again")

    def _check_size(self, entry: FileEntry) -> None:
        files, path = storage.filesystem(self.file_uri(entry))
        size = files.get_file_info(path).size
        if size != entry.bytes:
            found = "is missing" if size is None else f"has {size} bytes, not {entry.bytes}"
            raise ArtifactError(f"{self.file_uri(entry)}: {found}; the artifact is damaged, make it again")


class ArtifactBuilder:
    """An artifact in the making. It is small and picklable: tasks on other machines publish parts through it."""

    def __init__(
        self, uri: str, kind: str, schema_version: int, config: dict[str, Any], inputs: dict[str, str]
    ) -> None:
        self.uri = uri
        self.kind = kind
        self.schema_version = schema_version
        self.config = json.loads(canonical_json(config))
        self.inputs = dict(inputs)
        self.replaces: Manifest | None = None
        self.finished: Manifest | None = None

    @classmethod
    def begin(
        cls,
        uri: str,
        kind: str,
        *,
        config: Mapping[str, Any],
        inputs: Mapping[str, str],
        schema_version: int = 1,
    ) -> ArtifactBuilder:
        """Start or go on with the artifact at `uri`.

        If it is finished, `finished` holds its manifest and there is nothing to do.

        Args:
            uri: the directory.
            kind: what it holds, such as "names".
            config: all that changes the bytes, and nothing else.
            inputs: role → digest of each input.

        Raises:
            ArtifactError: something else is there, or another process is making it.
        """
        builder = cls(uri, kind, schema_version, dict(config), dict(inputs))
        manifest = _read_manifest(uri)
        if manifest is not None:
            builder._refuse_unless_same(_identity_of(manifest), "holds")
            builder.finished = manifest
            storage.remove_tree(builder.work())
            return builder
        plan = builder.work("plan.json")
        if not storage.exists(plan):
            leftovers = [name for name in storage.list_files(uri) if not name.startswith(".")]
            if leftovers:
                raise ArtifactError(f"{uri}: holds other files ({leftovers[0]}, …); choose an empty directory")
        builder._take_lock()
        if storage.exists(plan) and storage.read_json(plan) != builder.identity:
            if builder._has_progress():
                builder._refuse_unless_same(storage.read_json(plan), "is being made as")
            storage.remove_tree(builder.work())  # an earlier command failed before it had finished anything
            builder._take_lock()
        storage.publish_bytes(canonical_json(builder.identity), plan)
        return builder

    @classmethod
    def begin_version(
        cls, current: Artifact, *, config: Mapping[str, Any], inputs: Mapping[str, str]
    ) -> ArtifactBuilder:
        """Start or go on with a new version of a finished artifact, in the same directory.

        Files of the version go to `folder`, which no other version has. The commit keeps the current manifest in
        `versions/` and then replaces it: readers see the old version or the new one, whole, and files of the old one
        stay. What an interrupted command left of another version is given up.

        Args:
            current: the version that is current.
            config, inputs: what makes the new version the one it is.

        Raises:
            ArtifactError: another process is making a version, or has made one meanwhile.
        """
        manifest = current.manifest
        builder = cls(current.uri, manifest.kind, manifest.schema_version, dict(config), dict(inputs))
        if builder.identity == _identity_of(manifest):
            builder.finished = manifest
            storage.remove_tree(builder.work())
            return builder
        builder.replaces = manifest
        builder._take_lock()
        if Artifact.open(current.uri).digest != current.digest:
            raise ArtifactError(
                f"{current.uri}: {current.digest} is not its current version, or no longer; only that can be followed "
                "by another: run the command again on the directory itself"
            )
        plan = builder.work("plan.json")
        if storage.exists(plan) and storage.read_json(plan) != builder.identity:
            storage.remove_tree(builder.work())
            builder._take_lock()
        storage.publish_bytes(canonical_json(builder.identity), plan)
        return builder

    @property
    def folder(self) -> str:
        """The folder of a version's own files, with a slash at its end: a function of what the version is."""
        return f"{digest_json(self.identity)[:16]}/"

    @property
    def identity(self) -> dict[str, Any]:
        """What makes this artifact the one it is, before its bytes are known."""
        return {
            "kind": self.kind,
            "schema_version": self.schema_version,
            "config": self.config,
            "inputs": self.inputs,
        }

    def work(self, *names: str) -> str:
        """Return a path inside the work area, which is removed after the commit."""
        return storage.join(self.uri, WORK, *names)

    def kept(self, path: str, *, verify: bool = True) -> FileEntry | None:
        """Return the ledger's entry for a file that an earlier run finished, or None if it must be made.

        A file that does not verify is made again.
        """
        ledger = self._ledger(path)
        if not storage.exists(ledger):
            return None
        entry = FileEntry.model_validate(storage.read_json(ledger))
        target = storage.join(self.uri, path)
        if not storage.exists(target):
            return None
        if verify and storage.sha256(target) != entry.sha256:
            return None
        return entry

    def publish(self, path: str, write: Callable[[str], int | None]) -> FileEntry:
        """Make one file: `write(local_path)` fills it and returns its number of rows, or None.

        The file appears whole, and its ledger entry after it. Safe to call from any process, also twice at once
        for the same path if the content is the same.
        """
        target = storage.join(self.uri, path)
        if storage.is_local(self.uri):
            directory = Path(storage.filesystem(self.work("tmp"))[1])
            directory.mkdir(parents=True, exist_ok=True)
        else:
            directory = Path(tempfile.gettempdir())
        local = directory / f"{uuid.uuid4().hex}-{os.path.basename(path)}"
        try:
            rows = write(str(local))
            entry = FileEntry(path=path, rows=rows, bytes=local.stat().st_size, sha256=storage.sha256(str(local)))
            storage.publish_file(local, target)
        except OSError as error:
            error.filename = error.filename or target  # a full disk does not say which one it is
            raise
        finally:
            local.unlink(missing_ok=True)
        storage.publish_bytes(canonical_json(entry.model_dump()), self._ledger(path))
        return entry

    def publish_table(self, path: str, table: pa.Table) -> FileEntry:
        """Make one Parquet file (zstd) of `table`."""

        def write(local: str) -> int:
            write_parquet(table, local)
            return int(table.num_rows)

        return self.publish(path, write)

    def publish_bytes(self, path: str, content: bytes) -> FileEntry:
        """Make one small file that holds `content`."""

        def write(local: str) -> None:
            Path(local).write_bytes(content)

        return self.publish(path, write)

    def entries(self) -> list[FileEntry]:
        """Return the ledger: every file finished so far, sorted by path."""
        done = self.work("done")
        found = [storage.read_json(storage.join(done, name)) for name in storage.list_files(done)]
        return sorted((FileEntry.model_validate(entry) for entry in found), key=lambda entry: entry.path)

    def commit(
        self, facts: Mapping[str, Any], *, run: Mapping[str, Any] | None = None, kept: Sequence[FileEntry] = ()
    ) -> Manifest:
        """Write `run.json`, then `manifest.json`, which makes the artifact exist; then remove the work area.

        Args:
            facts: counts and settings for readers; they must be a function of config and inputs.
            run: seconds per stage and the like, kept apart from the identity.
            kept: files of the version before that this one has too.
        """
        manifest = Manifest(
            **self.identity,
            config_digest=digest_json(self.config),
            files=sorted([*kept, *self.entries()], key=lambda entry: entry.path),
            facts=json.loads(canonical_json(dict(facts))),
        )
        storage.remove_staged(self.uri)
        if self.replaces:
            before = storage.join(self.uri, VERSIONS, f"{self.replaces.digest}.json")
            storage.publish_bytes(_pretty(self.replaces.model_dump()), before)
        storage.publish_bytes(_pretty(_run_record() | dict(run or {})), storage.join(self.uri, "run.json"))
        storage.publish_bytes(_pretty(manifest.model_dump()), storage.join(self.uri, MANIFEST))
        self.finished = manifest
        storage.remove_tree(self.work())
        self._release_lock()
        return manifest

    def _has_progress(self) -> bool:
        """Say whether an earlier run left finished files, or checkpoints of a training."""
        return bool(storage.list_files(self.work("done")) or storage.exists(self.work("checkpoints")))

    def _ledger(self, path: str) -> str:
        return self.work("done", path.replace("/", "~") + ".json")

    def _refuse_unless_same(self, other: Mapping[str, Any], how: str) -> None:
        mine = self.identity
        if dict(other) == mine:
            return
        differing = [key for key in ("kind", "schema_version", "inputs") if other.get(key) != mine[key]]
        theirs = other.get("config") or {}
        keys = sorted(set(theirs) | set(self.config))
        differing += [f"config.{key}" for key in keys if theirs.get(key) != self.config.get(key)]
        raise ArtifactError(
            f"{self.uri}: {how} {digest_json(dict(other))}, but this command makes {digest_json(mine)} "
            f"(different: {', '.join(differing)}); choose another directory or delete this one"
        )

    def _take_lock(self) -> None:
        """Hold an advisory lock until the commit or the end of this process, so that two commands do not make one
        directory. A builder that failed leaves its lock to the next one of the same process."""
        if not storage.is_local(self.uri):
            return
        path = Path(storage.filesystem(self.work("lock"))[1])
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ArtifactError(f"{self.uri}: cannot be written ({error.strerror}); choose another place") from error
        held = _LOCKS.pop(str(path), None)
        if held is not None:
            held.close()
        handle = path.open("w")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            handle.close()
            raise ArtifactError(f"{self.uri}: another process is making it; wait for it or stop it") from error
        _LOCKS[str(path)] = handle

    def _release_lock(self) -> None:
        if storage.is_local(self.uri):
            held = _LOCKS.pop(storage.filesystem(self.work("lock"))[1], None)
            if held is not None:
                held.close()


_LOCKS: dict[str, IO[str]] = {}
"""The locks that this process holds, by path."""


def write_parquet(table: pa.Table, path: str) -> None:
    """Write a local Parquet file the way all our datasets are written, so that equal tables are equal bytes."""
    repetitive = [name for name in table.column_names if name not in NEARLY_UNIQUE]  # nested columns have other names
    pq.write_table(
        table,
        path,
        compression="zstd",
        row_group_size=1 << 16,
        version="2.6",
        use_dictionary=repetitive or False,
        write_statistics="embedding" not in table.column_names,  # least and largest of millions of numbers: no use
    )


def batches(artifact: Artifact, columns: list[str] | None = None, prefix: str = "") -> Iterator[pa.RecordBatch]:
    """Stream the rows of an artifact's Parquet parts in the manifest's order."""
    for entry in artifact.files(prefix):
        if entry.path.endswith(".parquet"):
            files, path = storage.filesystem(artifact.file_uri(entry))
            with files.open_input_file(path) as handle:
                yield from pq.ParquetFile(handle).iter_batches(columns=columns)


def _identity_of(manifest: Manifest) -> dict[str, Any]:
    return manifest.model_dump(include={"kind", "schema_version", "config", "inputs"})


def _read_manifest(uri: str, name: str = MANIFEST) -> Manifest | None:
    path = storage.join(uri, name)
    if not storage.exists(path):
        return None
    try:
        return Manifest.model_validate(storage.read_json(path))
    except (ValidationError, ValueError) as error:
        raise ArtifactError(f"{path}: cannot be read as a manifest ({error}); make the artifact again") from error


def _pretty(value: Any) -> bytes:
    return (json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False) + "\n").encode()


def _run_record() -> dict[str, Any]:
    return {
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "host": platform.node(),
        "python": platform.python_version(),
        "command": sys.argv,
    }
