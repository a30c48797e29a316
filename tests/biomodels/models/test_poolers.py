"""SimCSE's five poolers, on encoders of two families, against their definitions written out over a padded batch."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel, RobertaConfig, RobertaModel

from biomodels.errors import InputError
from biomodels.inference.text_encoder import TextEncoder
from biomodels.models.spec import EncoderSpec, read_spec, write_spec
from biomodels.sentences.poolers import POOLERS, pooler_of

TEXTS = ["renal failure", "a", "", "a much longer text - of several words, and (more) 123"]


@pytest.fixture(scope="module", params=["bert", "roberta"])
def model(request, tiny_bert, tmp_path_factory) -> str:
    """A three-layer encoder with a trained (that is, stored) pooler, and the tokenizer of the tiny BERT."""
    directory = tmp_path_factory.mktemp(request.param)
    shutil.copytree(tiny_bert, directory, dirs_exist_ok=True)
    (directory / "model.safetensors").unlink()
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "initializer_range": 0.2,
    }
    torch.manual_seed(1)
    if request.param == "bert":
        made = BertModel(BertConfig(vocab_size=91, max_position_embeddings=64, **sizes))
    else:
        made = RobertaModel(RobertaConfig(vocab_size=91, max_position_embeddings=80, pad_token_id=0, **sizes))
    made.save_pretrained(directory)
    return str(directory)


def by_definition(model: str, pooler: str) -> np.ndarray:
    tokens = AutoTokenizer.from_pretrained(model)(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        output = AutoModel.from_pretrained(model).eval()(**tokens, output_hidden_states=True)
    layers, mask = output.hidden_states, tokens["attention_mask"].unsqueeze(-1)
    assert len(layers) == 4
    states = {
        "cls": None,
        "cls_before_pooler": None,
        "avg": layers[3],
        "avg_top2": (layers[3] + layers[2]) / 2,
        "avg_first_last": (layers[3] + layers[1]) / 2,
    }[pooler]
    if states is not None:
        return ((states * mask).sum(1) / mask.sum(1)).numpy()
    first = output.last_hidden_state[:, 0]
    if pooler == "cls_before_pooler":
        return first.numpy()
    dense = AutoModel.from_pretrained(model).pooler.dense
    return torch.tanh(first @ dense.weight.detach().T + dense.bias.detach()).numpy()


@pytest.mark.parametrize("pooler", POOLERS)
def test_pooling_is_what_it_is_defined_to_be(model, pooler):
    encoder = TextEncoder(model, pooling=POOLERS[pooler], max_length=64)
    np.testing.assert_allclose(encoder.encode(TEXTS), by_definition(model, pooler), atol=1e-5)
    assert pooler_of(POOLERS[pooler]) == pooler


def test_the_five_differ(model):
    found = [TextEncoder(model, pooling=pooling).encode(TEXTS[:1])[0] for pooling in POOLERS.values()]
    for i, one in enumerate(found):
        assert all(abs(one - other).max() > 1e-2 for other in found[:i])


@pytest.mark.parametrize("pooling", POOLERS.values())
def test_the_record_is_read_back(model, pooling, tmp_path):
    spec = EncoderSpec(pooling=pooling, max_length=32)
    directory = Path(shutil.copytree(model, tmp_path / "model"))
    write_spec(directory, spec, 32)
    assert read_spec(directory) == spec


def test_a_pooler_that_was_never_trained_is_refused(tiny_bert):
    with pytest.raises(InputError, match="has no trained pooler"):
        TextEncoder(tiny_bert, pooling="pooler")
