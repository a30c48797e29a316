"""What every training worker runs. It reads top to bottom; the parts are in the other modules of this package."""

from __future__ import annotations

import json
import logging
import math
import os
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

import torch
import torch.distributed as dist

from biomodels.artifacts import Artifact
from biomodels.models.spec import resolve_model
from biomodels.recipes.contract import Batch, Recipe
from biomodels.terminology.normalise import keyed_hash
from ray_jobs.training.checkpoints import CheckpointManifest, CheckpointStore
from ray_jobs.training.engine import (
    AdamW,
    Precision,
    build_engine,
    full_states,
    import_deepspeed,
    restore_moments,
    set_learning_rate,
)
from ray_jobs.training.reader import EpochReader
from ray_jobs.training.step import StepKey, accumulate_gradients

CHECKPOINT_SECONDS = 60
T = TypeVar("T")
Device = Literal["cpu", "cuda"]


@dataclass(frozen=True)
class TrainPlan:
    """All that a worker needs to know; it is pickled to the workers.

    Attributes:
        recipe: what is trained.
        model: what training starts from; see `resolve_model`. Every node must reach it.
        data: URI of the dataset.
        steps: how many to make in all.
        batch_size: rows of a global batch.
        chunk_texts: see `accumulate_gradients`.
        drop_last: see `EpochReader`.
        checkpoint_every: steps between checkpoints; None makes one every `CHECKPOINT_SECONDS`.
    """

    recipe: Recipe
    model: str
    data: str
    checkpoints: CheckpointStore
    optimizer: AdamW
    steps: int
    batch_size: int
    seed: int
    stage: int
    precision: Precision
    chunk_texts: int | None
    drop_last: bool
    checkpoint_every: int | None

    def reader(self) -> EpochReader:
        """Open the dataset."""
        return EpochReader(
            Artifact.open(self.data),
            self.recipe.columns,
            seed=self.seed,
            batch_size=self.batch_size,
            uncut=self.recipe.uncut,
            drop_last=self.drop_last,
        )


def train_worker(job: dict[str, Any]) -> str | None:
    """Train from the latest complete checkpoint to the last step; a checkpoint is written there too.

    Args:
        job: `plan`, `device`, and `board`, the actor that shows progress.

    Returns:
        None, or why training had to stop: a condition that would only come again if a worker were started anew.
    """
    import ray.train

    _quiet_reports()
    plan: TrainPlan = job["plan"]
    rank, world_size = dist.get_rank(), dist.get_world_size()
    prepare_device(job["device"])
    checkpoint = _agree_on(plan.checkpoints.latest() if rank == 0 else None)
    start, curve, world_sizes = 0, [], []
    if checkpoint is not None:
        start, world_sizes = checkpoint.step, checkpoint.world_sizes
        curve = plan.checkpoints.curve(checkpoint).decode().splitlines()
    if not world_sizes or world_sizes[-1][1] != world_size:
        world_sizes = [*world_sizes, (start, world_size)]
    board = job["board"] if rank == 0 else None
    if board:
        board.start.remote(start)

    engine = _engine(plan, checkpoint)
    clock = CheckpointClock(plan.checkpoint_every, engine.device)
    for step, batch in enumerate(_batches(plan, start, rank, world_size, engine.device), start=start):
        rate = plan.optimizer.rate(step)
        set_learning_rate(engine, rate)
        key = StepKey(plan.seed, step)
        loss = accumulate_gradients(engine, batch, plan.recipe.terms, key, plan.chunk_texts)
        if not math.isfinite(loss):
            return f"step {step}: the loss is {loss}; the weights were not updated with it"
        engine.step()
        norm = float(engine.get_global_grad_norm())
        if not math.isfinite(norm):
            return f"step {step}: the gradient's norm is {norm}"
        curve.append(json.dumps({"step": step, "loss": loss, "learning_rate": rate, "gradient_norm": norm}))
        if board:
            board.post.remote(step + 1, loss)
        if step + 1 == plan.steps or clock.due(step + 1):
            _save(plan, engine, step + 1, curve, world_sizes)
            ray.train.report({"step": step + 1, "loss": loss})
    return None


class CheckpointClock:
    """Says, on all ranks alike, when a checkpoint is due: by steps, or by the first rank's time."""

    def __init__(self, every: int | None, device: torch.device) -> None:
        self._every = every
        self._device = device
        self._last = time.monotonic()

    def due(self, step: int) -> bool:
        """Say whether one is due after so many steps. Collective."""
        if self._every is not None:
            return step % self._every == 0
        late = torch.tensor(
            [time.monotonic() - self._last > CHECKPOINT_SECONDS], dtype=torch.int32, device=self._device
        )
        dist.broadcast(late, src=0)
        if late.item():
            self._last = time.monotonic()
        return bool(late.item())


def prepare_device(device: Device) -> None:
    """Fix threads, device and determinism of this worker process."""
    os.environ["DS_ACCELERATOR"] = device
    import_deepspeed()
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Deterministic mode would also fill every new tensor, DeepSpeed's unused reduction buffers among them: gigabytes.
    # torch sets it as an attribute
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
    if device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    else:
        cores = len(os.sched_getaffinity(0))
        torch.set_num_threads(max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))


def _engine(plan: TrainPlan, checkpoint: CheckpointManifest | None) -> Any:
    """Build the engine, with the states of the checkpoint if there is one."""
    module = plan.recipe.load(str(resolve_model(plan.model)))
    build = partial(build_engine, module, plan.optimizer, stage=plan.stage, precision=plan.precision)
    if checkpoint is None:
        engine = build()
    else:
        with plan.checkpoints.states(checkpoint) as states:
            module.load_state_dict(states.weights(), strict=False)
            engine = build()
            restore_moments(engine, checkpoint.step, states.tensor)
    engine.train()
    return engine


def _batches(plan: TrainPlan, start: int, rank: int, world_size: int, device: torch.device) -> Iterator[Batch]:
    """Yield this rank's batches. The next one is read and tokenized while the model works on one."""
    reader = plan.reader()
    tokenizer = plan.recipe.tokenizer(str(resolve_model(plan.model)))

    def make(step: int) -> Batch:
        key = keyed_hash(plan.seed, "collate", step)
        return plan.recipe.collate(reader.slice(step, rank, world_size), tokenizer, key)

    with ThreadPoolExecutor(1, thread_name_prefix="read") as pool:
        coming = pool.submit(make, start)
        for step in range(start, plan.steps):
            batch = coming.result()
            if step + 1 < plan.steps:
                coming = pool.submit(make, step + 1)
            yield batch.to(device)


def _save(plan: TrainPlan, engine: Any, step: int, curve: list[str], world_sizes: list[tuple[int, int]]) -> None:
    """Write a checkpoint. All ranks write their share; the first commits when all shares are durable."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    share = {}
    for index, name, state in full_states(engine):
        if index % world_size == rank:
            share[name] = {kind: tensor.detach().cpu().clone() for kind, tensor in state.items()}
    files: list[Any] = [None] * world_size
    dist.all_gather_object(files, plan.checkpoints.write_share(step, rank, share))
    if rank == 0:
        lines = "".join(line + "\n" for line in curve).encode()
        plan.checkpoints.commit(step, files, lines, world_sizes)
    dist.barrier()


def _agree_on(value: T) -> T:
    """Return the first rank's value on all ranks."""
    values = [value]
    dist.broadcast_object_list(values, src=0)
    return values[0]


def _quiet_reports() -> None:
    """Silence the line that Ray Train prints on every rank at every report; its logger is named after its file."""
    for name in list(logging.root.manager.loggerDict):
        if name.endswith("ray/train/v2/_internal/execution/context.py"):
            logging.getLogger(name).setLevel(logging.WARNING)
