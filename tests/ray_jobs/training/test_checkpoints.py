"""Which checkpoints count."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from biomodels.artifacts import canonical_json
from ray_jobs.training.checkpoints import CheckpointStore


def write(store, step, shares=2):
    files = [
        store.write_share(
            step, rank, {f"layer{rank}": {"weight": torch.full((2,), float(step)), "exp_avg": torch.ones(2)}}
        )
        for rank in range(shares)
    ]
    store.commit(step, files, f'{{"step": {step - 1}}}\n'.encode(), [(0, shares)])


def folder(store, step):
    return Path(store.uri, f"step-{step:08d}")


@pytest.fixture
def store(tmp_path):
    return CheckpointStore(str(tmp_path / "checkpoints"), "run-1")


def test_no_checkpoint(store):
    assert store.latest() is None


def test_what_is_written_is_read_back(store):
    write(store, 5)
    found = store.latest()
    assert (found.step, found.world_sizes) == (5, [(0, 2)])
    assert store.curve(found) == b'{"step": 4}\n'
    with store.states(found) as states:
        assert states.names() == ["layer0", "layer1"]
        assert states.tensor("exp_avg", "layer1").tolist() == [1.0, 1.0]
        assert states.weights()["layer0"].tolist() == [5.0, 5.0]


def test_the_newest_two_are_kept(store):
    for step in (5, 10, 15):
        write(store, step)
    assert sorted(path.name for path in Path(store.uri).iterdir()) == ["step-00000010", "step-00000015"]


@pytest.mark.parametrize("damage", ["no manifest", "no file", "short file", "other bytes", "torn manifest"])
def test_an_incomplete_checkpoint_does_not_count(store, damage):
    write(store, 5)
    write(store, 10)
    share = folder(store, 10) / "rank-1.safetensors"
    if damage == "no manifest":
        (folder(store, 10) / "manifest.json").unlink()
    elif damage == "no file":
        share.unlink()
    elif damage == "short file":
        share.write_bytes(share.read_bytes()[:-1])
    elif damage == "other bytes":
        share.write_bytes(share.read_bytes()[:-1] + b"\x7f")
    else:
        (folder(store, 10) / "manifest.json").write_bytes(b'{"step": 10')
    assert store.latest().step == 5
    write(store, 10)
    assert store.latest().step == 10


def test_checkpoints_of_another_run_do_not_count(store):
    write(store, 5)
    assert CheckpointStore(store.uri, "run-2").latest() is None


def test_equal_states_are_equal_bytes(store, tmp_path):
    other = CheckpointStore(str(tmp_path / "other"), "run-1")
    for each in (store, other):
        write(each, 5)
    for path in folder(store, 5).iterdir():
        assert path.read_bytes() == (folder(other, 5) / path.name).read_bytes()
    assert canonical_json(store.latest().model_dump()) == canonical_json(other.latest().model_dump())
