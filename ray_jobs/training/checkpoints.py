"""Checkpoints that any world size and ZeRO stage can resume from: safetensors of full parameter states.

Layout below the work area of the artifact in the making::

    checkpoints/step-00000040/rank-0.safetensors   states of the parameters with index ≡ 0 modulo world size
    checkpoints/step-00000040/rank-1.safetensors   …
    checkpoints/step-00000040/curve.jsonl          the training curve up to this step
    checkpoints/step-00000040/manifest.json        put last: the commit

Each tensor is float32 and named `weight/NAME`, `exp_avg/NAME` or `exp_avg_sq/NAME`. Nothing else is needed: random
states and the learning rate are functions of the step, and so is the data position.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor

from biomodels import storage
from biomodels.artifacts import canonical_json

MANIFEST = "manifest.json"
CURVE = "curve.jsonl"
KEPT = 2


class SavedFile(BaseModel):
    """One file of a checkpoint."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    bytes: int
    sha256: str


class CheckpointManifest(BaseModel):
    """The commit of a checkpoint.

    Attributes:
        step: how many steps have been made.
        identity: digest of the configuration and inputs that it belongs to.
        world_sizes: (first step, number of ranks) for every change of the number of ranks so far.
        files: all other files.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    step: int
    identity: str
    world_sizes: list[tuple[int, int]]
    files: list[SavedFile]


@dataclass(frozen=True)
class CheckpointStore:
    """The checkpoints of one run.

    Attributes:
        uri: their directory.
        identity: digest of what the run computes; checkpoints of another run do not count.
    """

    uri: str
    identity: str

    def latest(self) -> CheckpointManifest | None:
        """Return the newest checkpoint that is complete: its manifest is there, and every file as it says."""
        steps = sorted({name.split("/")[0] for name in storage.list_files(self.uri, recursive=True)}, reverse=True)
        return next((found for step in steps if (found := self._complete(step)) is not None), None)

    def write_share(self, step: int, rank: int, states: Mapping[str, Mapping[str, Tensor]]) -> SavedFile:
        """Write the states of one rank's share of the parameters."""
        from safetensors.torch import save_file

        tensors = {f"{kind}/{name}": tensor for name, state in states.items() for kind, tensor in state.items()}
        uri = self._file(step, f"rank-{rank}.safetensors")
        with storage.writing(uri) as local:
            save_file(tensors, local)
            return SavedFile(
                name=f"rank-{rank}.safetensors", bytes=Path(local).stat().st_size, sha256=storage.sha256(local)
            )

    def commit(self, step: int, files: Sequence[SavedFile], curve: bytes, world_sizes: list[tuple[int, int]]) -> None:
        """Put the manifest, which makes the checkpoint count, and remove old ones. Called by one rank, when all files
        are durable."""
        storage.publish_bytes(curve, self._file(step, CURVE))
        files = [*files, SavedFile(name=CURVE, bytes=len(curve), sha256=storage.sha256(self._file(step, CURVE)))]
        manifest = CheckpointManifest(step=step, identity=self.identity, world_sizes=world_sizes, files=files)
        storage.publish_bytes(canonical_json(manifest.model_dump()), self._file(step, MANIFEST))
        self._prune()

    def curve(self, checkpoint: CheckpointManifest) -> bytes:
        """Return the training curve up to a checkpoint, one JSON object a line."""
        return storage.read_bytes(self._file(checkpoint.step, CURVE))

    @contextmanager
    def states(self, checkpoint: CheckpointManifest) -> Iterator[States]:
        """Open the tensors of a checkpoint; they are read when they are asked for."""
        from safetensors import safe_open

        with ExitStack() as stack:
            handles: dict[str, Any] = {}
            for file in checkpoint.files:
                if file.name.endswith(".safetensors"):
                    local = stack.enter_context(_local_copy(self._file(checkpoint.step, file.name)))
                    handle = stack.enter_context(safe_open(local, framework="pt"))
                    handles |= dict.fromkeys(handle.keys(), handle)
            yield States(handles)

    def _file(self, step: int, name: str) -> str:
        return storage.join(self.uri, f"step-{step:08d}", name)

    def _complete(self, directory: str) -> CheckpointManifest | None:
        uri = storage.join(self.uri, directory, MANIFEST)
        if not storage.exists(uri):
            return None
        try:
            found = CheckpointManifest.model_validate(storage.read_json(uri))
        except (ValidationError, ValueError):
            return None
        files = {file.name: storage.join(self.uri, directory, file.name) for file in found.files}
        whole = found.identity == self.identity and all(
            storage.exists(files[file.name]) and storage.sha256(files[file.name]) == file.sha256 for file in found.files
        )
        return found if whole else None

    def _prune(self) -> None:
        """Keep the newest complete checkpoints. The manifest goes first, so that none is ever half there."""
        names = storage.list_files(self.uri, recursive=True)
        complete = sorted({name.split("/")[0] for name in names if name.endswith(MANIFEST)})
        for directory in complete[:-KEPT]:
            storage.remove_file(storage.join(self.uri, directory, MANIFEST))
        for directory in {name.split("/")[0] for name in names} - set(complete[-KEPT:]):
            storage.remove_tree(storage.join(self.uri, directory))


@dataclass(frozen=True)
class States:
    """The tensors of an open checkpoint, by kind (`weight`, `exp_avg`, `exp_avg_sq`) and parameter."""

    handles: Mapping[str, Any]

    def names(self) -> list[str]:
        """Return the parameters' names, sorted."""
        return sorted(key.removeprefix("weight/") for key in self.handles if key.startswith("weight/"))

    def tensor(self, kind: str, name: str) -> Tensor:
        """Read one tensor."""
        key = f"{kind}/{name}"
        return self.handles[key].get_tensor(key)  # type: ignore[no-any-return]  # safetensors is untyped

    def weights(self) -> dict[str, Tensor]:
        """Read all weights."""
        return {name: self.tensor("weight", name) for name in self.names()}


@contextmanager
def _local_copy(uri: str) -> Iterator[str]:
    """Yield a local path of a file, which is the file itself where it is on a local disk."""
    if storage.is_local(uri):
        yield storage.filesystem(uri)[1]
        return
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "file")
        with path.open("wb") as sink:
            for piece in storage.chunks(uri):
                sink.write(piece)
        yield str(path)
