"""Loading an encoder never leaves weights to chance."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from biomodels.errors import InputError
from biomodels.models.encoder import load_backbone


def test_missing_weights_are_an_error(tiny_bert, tmp_path):
    directory = tmp_path / "model"
    shutil.copytree(tiny_bert, directory)
    weights = load_file(directory / "model.safetensors")
    lost = "encoder.layer.1.output.dense.weight"
    save_file(
        {name: w for name, w in weights.items() if name != lost}, directory / "model.safetensors", {"format": "pt"}
    )
    with pytest.raises(InputError, match=f"lack 1 tensors of the encoder, such as {lost}"):
        load_backbone(directory)


def test_a_missing_pooler_is_not(tiny_bert):
    assert not any("pooler" in name for name in load_file(Path(tiny_bert, "model.safetensors")))
    assert isinstance(load_backbone(Path(tiny_bert), dtype=torch.float32), torch.nn.Module)
