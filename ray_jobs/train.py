"""`train`: the training loop with one recipe per system; the result is a model directory in the Hugging Face layout."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from biomodels import storage
from biomodels.artifacts import Artifact, ArtifactBuilder, Manifest, digest_json
from biomodels.errors import ArtifactError
from biomodels.models.spec import EncoderSpec, Pooling, model_digest, read_spec, resolve_model
from ray_jobs.config import JobConfig
from ray_jobs.progress import say
from ray_jobs.session import default_cpus, session

if TYPE_CHECKING:
    from biomodels.recipes.sapbert import SapBert
    from ray_jobs.training.checkpoints import CheckpointManifest
    from ray_jobs.training.loop import TrainPlan

EXAMPLE = (
    "python -m ray_jobs train --recipe sapbert --pairs data/hpo/pairs --model microsoft/BiomedNLP-BiomedBERT-base-"
    "uncased-abstract-fulltext --out models/m1 --workers 2"
)


class Config(JobConfig):
    """Options of `train`."""

    # Workers and ZeRO stage move the last bits of sums, but a run may go on with others: the facts record the workers.
    # Model, pooling and length are in the artifact's inputs, in the model's digest.
    placement: ClassVar[frozenset[str]] = JobConfig.placement | {
        "pairs", "model", "pooling", "max_length", "workers", "zero_stage", "checkpoint_every", "device",
        "max_failures", "max_reject_rate",
    }  # fmt: skip

    recipe: Literal["sapbert"] = Field(default="sapbert", description="the system to train")
    pairs: str = Field(description="`pairs` artifact, or a text file of `id||name_1||name_2` lines")
    model: str = Field(description="what training starts from: model directory, or a name on the Hugging Face Hub")
    out: str = Field(description="directory or URI of the model; the same command goes on where it was stopped")
    workers: int = Field(default=2, ge=1, description="processes, each with one CPU or one GPU")
    zero_stage: int = Field(
        default=2, ge=1, le=3, description="DeepSpeed ZeRO: 1 splits optimizer states, 2 gradients too, 3 weights too"
    )
    batch_size: int = Field(default=256, ge=1, description="rows (pairs) per step, over all workers")
    micro_batch: int | None = Field(
        default=None, ge=1, description="texts in memory at once on a worker: gradient caching; by default all"
    )
    epochs: int = Field(default=1, ge=1, description="passes over the data, unless --steps is given")
    steps: int | None = Field(default=None, ge=1, description="steps in all, instead of --epochs")
    drop_last: bool = Field(default=False, description="leave out the incomplete batch at the end of an epoch")
    learning_rate: float = Field(default=2e-5, gt=0, description="of AdamW, constant after the warm-up")
    warmup_steps: int = Field(default=0, ge=0, description="steps over which the learning rate rises linearly")
    weight_decay: float = Field(default=0.01, ge=0, description="of AdamW, on all parameters")
    clip: float = Field(default=0.0, ge=0, description="largest norm of the gradient; 0 does not clip")
    precision: Literal["float32", "bf16"] = Field(
        default="float32", description="of the forward pass; weights, optimizer and loss are float32 in either case"
    )
    pooling: Pooling | None = Field(default=None, description="instead of the one that the model directory records")
    max_length: int = Field(default=25, ge=3, description="tokens of a name, special ones included")
    loss_alpha: float = Field(default=1.0, gt=0, description="multi-similarity loss: sharpness for positives")
    loss_beta: float = Field(default=60.0, gt=0, description="multi-similarity loss: sharpness for negatives")
    loss_base: float = Field(default=0.5, description="multi-similarity loss: similarity that separates the two")
    miner: bool = Field(default=True, description="mine triplets; without, all pairs of a batch count")
    miner_margin: float = Field(default=0.2, description="of the miner, in Euclidean distance of unit vectors")
    mask_same_string: bool = Field(
        default=True, description="do not push a string away from itself where two concepts share it"
    )
    seed: int = Field(default=13, description="of data order and dropout")
    lowercase: bool = Field(default=True, description="lower-case the names of a text file; an artifact stays as it is")
    max_reject_rate: float = Field(default=0.01, ge=0, le=1, description="malformed share of a text file, at most")
    checkpoint_every: int | None = Field(
        default=None, ge=1, description="steps between checkpoints: what is lost by a kill; by default one a minute"
    )
    max_failures: int = Field(default=3, ge=0, description="how often dead workers are replaced in one run")
    device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="auto takes GPUs if the cluster has one for each worker"
    )


def main(config: Config) -> Manifest:
    """Train a model on Ray Train with DeepSpeed.

    The loss is that of the whole batch over all workers. Killed at any moment, the same command goes on from the last
    checkpoint and ends with the same bytes, if the number of workers is the same.
    """
    directory = resolve_model(config.model)
    spec = read_spec(directory, pooling=config.pooling, max_length=config.max_length)
    inputs = {"pairs": _pairs_digest(config.pairs), "model": model_digest(directory, spec)}
    builder = ArtifactBuilder.begin(config.out, "model", config=config.byte_config(), inputs=inputs)
    if builder.finished:
        say(f"{config.out}: finished before, nothing to do")
        return builder.finished
    started = time.monotonic()
    plan = make_plan(config, _open_pairs(config, builder), builder, spec)
    plan.recipe.load(str(directory))  # a broken model is found here, not by every worker and every new try
    plan.recipe.tokenizer(str(directory))
    checkpoint = plan.checkpoints.latest()
    if checkpoint is not None and checkpoint.step == plan.steps:
        say(f"training was finished before: {plan.steps} of {plan.steps} steps kept")
    else:
        checkpoint = _train(config, plan, builder)
    trained = time.monotonic()
    facts = _publish(builder, plan, checkpoint, directory, spec)
    seconds = {"train": round(trained - started, 2), "write": round(time.monotonic() - trained, 2)}
    manifest = builder.commit(facts, run={"seconds": seconds})
    say(f"{config.out}: trained {plan.steps:,} steps; the curve is in {storage.join(config.out, 'training.png')}")
    return manifest


def build_recipe(config: Config, spec: EncoderSpec) -> SapBert:
    """Return the recipe with its options."""
    from biomodels.recipes.sapbert import SapBert

    return SapBert(
        spec=spec,
        alpha=config.loss_alpha,
        beta=config.loss_beta,
        base=config.loss_base,
        miner_margin=config.miner_margin if config.miner else None,
        mask_same_string=config.mask_same_string,
    )


def make_plan(config: Config, pairs: Artifact, builder: ArtifactBuilder, spec: EncoderSpec) -> TrainPlan:
    """Return what the workers are told.

    Raises:
        InputError: there are too few pairs for a step.
    """
    from ray_jobs.training.checkpoints import CheckpointStore
    from ray_jobs.training.engine import AdamW
    from ray_jobs.training.loop import TrainPlan

    plan = TrainPlan(
        recipe=build_recipe(config, spec),
        model=storage.absolute(config.model) if storage.exists(config.model) else config.model,
        data=storage.absolute(pairs.uri),
        checkpoints=CheckpointStore(storage.absolute(builder.work("checkpoints")), digest_json(builder.identity)),
        optimizer=AdamW(config.learning_rate, config.weight_decay, config.clip, config.warmup_steps),
        steps=config.steps or 0,
        batch_size=config.batch_size,
        seed=config.seed,
        stage=config.zero_stage,
        precision=config.precision,
        chunk_texts=config.micro_batch,
        drop_last=config.drop_last,
        checkpoint_every=config.checkpoint_every,
    )
    return replace(plan, steps=config.steps or config.epochs * plan.reader().steps_per_epoch)


def _train(config: Config, plan: TrainPlan, builder: ArtifactBuilder) -> CheckpointManifest:
    """Train to the last checkpoint, and return it."""
    from ray_jobs.training.launch import choose_device, fit

    with session(config.num_cpus or max(default_cpus(), config.workers + 2)):
        fit(
            plan,
            workers=config.workers,
            device=choose_device(config.device, config.workers),
            storage_uri=storage.absolute(builder.work("ray")),
            max_failures=config.max_failures,
        )
    checkpoint = plan.checkpoints.latest()
    if checkpoint is None or checkpoint.step < plan.steps:
        raise ArtifactError(f"{plan.checkpoints.uri}: the last checkpoint is damaged; run the same command again")
    return checkpoint


def _publish(
    builder: ArtifactBuilder, plan: TrainPlan, checkpoint: CheckpointManifest, directory: Path, spec: EncoderSpec
) -> dict[str, object]:
    """Write the model and its training curve from the last checkpoint; return facts about them."""
    from ray_jobs.training.curve import draw_curve

    with tempfile.TemporaryDirectory() as written:
        with plan.checkpoints.states(checkpoint) as states:
            plan.recipe.save(str(directory), states.weights(), written)
        curve = plan.checkpoints.curve(checkpoint)
        Path(written, "training.jsonl").write_bytes(curve)
        draw_curve(curve.decode().splitlines(), os.path.join(written, "training.png"))
        digest = model_digest(Path(written), spec)
        for path in sorted(Path(written).rglob("*")):
            if path.is_file():
                builder.publish(path.relative_to(written).as_posix(), partial(_copy, path))
    return {
        "steps": plan.steps,
        "pairs": plan.reader().rows,
        "workers": checkpoint.world_sizes[-1][1],
        "world_sizes": [list(change) for change in checkpoint.world_sizes],
        "model_digest": digest,
        "spec": spec.model_dump(),
    }


def _copy(source: Path, target: str) -> None:
    shutil.copyfile(source, target)


def _pairs_digest(uri: str) -> str:
    """Return the digest of the pairs, whichever form they have."""
    return storage.sha256(uri) if storage.is_file(uri) else Artifact.open(uri, "pairs").digest


def _open_pairs(config: Config, builder: ArtifactBuilder) -> Artifact:
    """Open the pairs. A text file is imported into the work area first; its rejected lines are part of the result."""
    from biomodels.terminology.pairs_import import import_pairs_text

    if not storage.is_file(config.pairs):
        return Artifact.open(config.pairs, "pairs")
    pairs = import_pairs_text(
        config.pairs,
        builder.work("pairs"),
        seed=config.seed,
        lowercase=config.lowercase,
        max_reject_rate=config.max_reject_rate,
    )
    for entry in pairs.files("rejects/"):
        builder.publish_table(entry.path, pairs.read_table(entry))
        say(f"{config.pairs}: {entry.rows} malformed lines were left out; see rejects/ in {config.out}")
    return pairs
