"""The global batch's loss and gradient are those of one process, and states restore exactly: all in one worker group.

Workers have unequal shares (with four workers, one has none), a concept lies on two of them, and the batch has two sets
of texts, a Global and a Local term.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import ray.cloudpickle
import torch

from biomodels.models.encoder import encode_by_length
from biomodels.models.spec import EncoderSpec
from biomodels.recipes.contract import Batch, Local
from biomodels.recipes.sapbert import SapBert

ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test module

ROWS = pa.table(
    {
        "concept_id": ["C1", "C2", "C3", "C1", "C4"],
        "name_1": ["aa bb", "cc", "dd ee ff", "aa bb", "heart"],
        "name_2": ["ab", "cd", "de", "abba", "hart attack"],
    }
)
CUTS = {2: [(0, 1), (1, 5)], 4: [(0, 1), (1, 1), (1, 2), (2, 5)]}
STEPS, RESUME_AT = 4, 2


class TwoSets(torch.nn.Module):
    """A module with two sets of texts, which SapBERT's own has not."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, inputs):
        return {name: {"embedding": encode_by_length(self.encoder, **tokens)} for name, tokens in inputs.items()}


def load(model, dropout):
    module = TwoSets(SapBert(EncoderSpec(pooling="mean")).load(model).encoder)
    for part in module.modules():
        if isinstance(part, torch.nn.Dropout) and not dropout:
            part.p = 0.0
        if hasattr(part, "dropout_prob") and not dropout:
            part.dropout_prob = 0.0
    return module


def collate(model, rows):
    recipe = SapBert(EncoderSpec(pooling="mean"))
    tokenizer = recipe.tokenizer(model)
    names = recipe.collate(rows, tokenizer, 0)
    firsts = rows.set_column(2, "name_2", rows["name_1"])
    return Batch(names.inputs | {"firsts": recipe.collate(firsts, tokenizer, 0).inputs["names"]}, names.groups)


def terms(outputs, groups):
    (ranking,) = SapBert(EncoderSpec(pooling="mean")).terms(outputs, groups)
    ranking.weight = 0.7
    firsts = outputs["firsts"]["embedding"]
    # Each distinct first name of a rank counts, so the count is not the number of rows.
    return [ranking, Local(firsts.pow(4).sum(), len(firsts), weight=0.3)]


def plain_gradients(model, batches):
    """Return the loss and gradients of plain torch in one process, over the shares of all ranks."""
    module = load(model, dropout=False).train()
    parts = [terms(module(batch.inputs), batch.groups) for batch in batches if len(batch.groups["row"])]
    rows = {key: torch.cat([part[0].tensors[key] for part in parts]) for key in parts[0][0].tensors}
    local = sum(part[1].sum for part in parts) / sum(part[1].count for part in parts)
    loss = 0.7 * parts[0][0].fn(rows) + 0.3 * local
    loss.backward()
    return loss.item(), {name: p.grad for name, p in module.named_parameters()}


def compare(job):
    """Run every case; return what the test asserts on."""
    import torch.distributed as dist

    from ray_jobs.training.checkpoints import CheckpointStore
    from ray_jobs.training.engine import AdamW, build_engine, full_gradients, full_states, restore_moments
    from ray_jobs.training.loop import prepare_device
    from ray_jobs.training.step import StepKey, accumulate_gradients

    prepare_device("cpu")
    torch.set_num_threads(1)
    rank, world_size = dist.get_rank(), dist.get_world_size()
    shares = [collate(job["model"], ROWS.slice(low, high - low)) for low, high in CUTS[world_size]]
    found = {"plain_loss": None, "equality": {}, "resume": {}}
    found["plain_loss"], expected = plain_gradients(job["model"], shares)
    scale = torch.sqrt(sum(grad.square().sum() for grad in expected.values()))

    def engine_for(module, stage, precision="float32"):
        engine = build_engine(module, AdamW(1e-3), stage=stage, precision=precision)
        engine.train()
        return engine

    def steps(engine, first, last):
        losses = []
        for step in range(first, last):
            losses.append(accumulate_gradients(engine, shares[rank], terms, StepKey(1, step), None))
            engine.step()
        return losses

    def states(engine):
        return {name: {k: v.clone() for k, v in state.items()} for _, name, state in full_states(engine)}

    for stage in (1, 2, 3):
        for chunk in (None, 2):
            engine = engine_for(load(job["model"], dropout=False), stage)
            loss = accumulate_gradients(engine, shares[rank], terms, StepKey(1, 0), chunk)
            gradients = full_gradients(engine)
            off = torch.sqrt(sum((gradients[name] - grad).square().sum() for name, grad in expected.items()))
            found["equality"][stage, chunk] = (loss, float(off / scale), set(gradients) == set(expected))
    for stage, precision in job["resume"]:
        engine = engine_for(load(job["model"], dropout=True), stage, precision)
        steps(engine, 0, RESUME_AT)
        store = CheckpointStore(os.path.join(job["directory"], f"{stage}-{precision}"), "identity")
        saved = states(engine)
        share = {name: state for i, (name, state) in enumerate(saved.items()) if i % world_size == rank}
        files = [None] * world_size
        dist.all_gather_object(files, store.write_share(RESUME_AT, rank, share))
        if rank == 0:
            store.commit(RESUME_AT, files, b"", [(0, world_size)])
        dist.barrier()
        losses, expected_states = steps(engine, RESUME_AT, STEPS), states(engine)
        module = load(job["model"], dropout=True)
        with store.states(store.latest()) as opened:
            module.load_state_dict(opened.weights(), strict=True)
            engine = engine_for(module, stage, precision)
            restore_moments(engine, RESUME_AT, opened.tensor)
        same_losses = steps(engine, RESUME_AT, STEPS) == losses
        again = states(engine)
        same_states = all(torch.equal(again[n][k], v) for n, s in expected_states.items() for k, v in s.items())
        moved = any(not torch.equal(again[n]["weight"], saved[n]["weight"]) for n in saved)
        found["resume"][stage, precision] = (same_losses, same_states, moved)
    return found


@pytest.mark.ray
@pytest.mark.parametrize("world_size", [2, 4])
def test_worker_group_equals_one_process(ray_session, tiny_bert, tmp_path: Path, world_size):
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    resume = [(1, "float32"), (2, "float32"), (3, "float32"), (2, "bf16")] if world_size == 2 else []
    trainer = TorchTrainer(
        compare,
        train_loop_config={"model": tiny_bert, "directory": str(tmp_path), "resume": resume},
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=world_size, resources_per_worker={"CPU": 0.5}),
        run_config=RunConfig(name=f"equality-{world_size}", storage_path=str(tmp_path / "ray")),
    )
    found = trainer.fit().return_value
    assert len(found["equality"]) == 6
    for case, (loss, relative_error, complete) in found["equality"].items():
        assert complete, case
        assert loss == pytest.approx(found["plain_loss"], rel=1e-5), case
        assert relative_error <= 1e-5, case
    assert list(found["resume"]) == resume
    for case, (same_losses, same_states, moved) in found["resume"].items():
        assert same_losses and same_states and moved, case
