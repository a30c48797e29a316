"""Conversion of checkpoints: bit by bit there and back, the same vectors, and pickles that are not run."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertModel, RobertaConfig, RobertaModel

from biomodels.errors import InputError, UsageError
from biomodels.inference.text_encoder import TextEncoder
from biomodels.models.spec import read_spec
from biomodels.sentences.checkpoints import REST, read_checkpoint, write_checkpoint
from biomodels.sentences.poolers import POOLERS
from biomodels.simcse import SimCSE

TEXTS = ["renal failure", "a", "a much longer text - of several words, and (more) 123"]


def make(directory: Path, tokenizer: str, kind: str = "bert", head: bool = False) -> Path:
    """A checkpoint as the original trainer saves it: prefixed names, `mlp.dense`, `pytorch_model.bin`."""
    shutil.copytree(tokenizer, directory)
    (directory / "model.safetensors").unlink()
    torch.manual_seed(3)
    sizes = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}
    config_type, model_type = {"bert": (BertConfig, BertModel), "roberta": (RobertaConfig, RobertaModel)}[kind]
    config = config_type(vocab_size=91, max_position_embeddings=80, pad_token_id=0, initializer_range=0.2, **sizes)
    tensors = {
        f"{kind}.{name}": tensor for name, tensor in model_type(config, add_pooling_layer=False).state_dict().items()
    }
    tensors |= {"mlp.dense.weight": torch.randn(32, 32) / 5, "mlp.dense.bias": torch.randn(32)}
    tensors[f"{kind}.embeddings.position_ids"] = torch.arange(80)[None]
    if head:
        tensors |= {"lm_head.bias": torch.randn(91), "lm_head.dense.weight": torch.randn(32, 32).half()}
    torch.save(tensors, directory / "pytorch_model.bin")
    name = {"bert": "BertForCL", "roberta": "RobertaForCL"}[kind]
    written = json.loads(config.to_json_string()) | {"architectures": [name], "model_type": kind}
    (directory / "config.json").write_text(json.dumps(written))
    return directory


def convert(source: Path, layout: str, out: Path, **options) -> Path:
    write_checkpoint(read_checkpoint(source, **options), layout, out)
    return out


def tensors(directory: Path) -> dict[str, torch.Tensor]:
    return torch.load(directory / "pytorch_model.bin", weights_only=True)


def assert_same_bits(one: dict, other: dict) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert tensor.dtype == other[name].dtype and tensor.shape == other[name].shape
        assert tensor.contiguous().numpy().tobytes() == other[name].contiguous().numpy().tobytes(), name


@pytest.mark.parametrize("kind", ["bert", "roberta"])
@pytest.mark.parametrize("way", ["huggingface", "sentence-transformers"])
def test_there_and_back_is_bit_exact(tiny_bert, tmp_path, kind, way):
    source = make(tmp_path / "source", tiny_bert, kind, head=True)
    there = convert(source, way, tmp_path / "there", pooling="pooler")
    assert json.loads((there / "config.json").read_text())["architectures"] == [f"{kind.capitalize()}Model"]
    back = convert(there, "simcse", tmp_path / "back")
    assert_same_bits(tensors(source), tensors(back))
    assert json.loads((back / "config.json").read_text()) == json.loads((source / "config.json").read_text())
    again = convert(back, way, tmp_path / "again")
    for file in there.rglob("*.safetensors"):
        assert file.read_bytes() == (again / file.relative_to(there)).read_bytes()
    assert set(load_file(there / REST)) == {"lm_head.bias", "lm_head.dense.weight"}


def by_hand(source: Path, pooler: str) -> np.ndarray:
    """The vectors that the original code gives: the encoder of its checkpoint, its MLP, its poolers."""
    from transformers import AutoTokenizer

    found = tensors(source)
    config = BertConfig(**json.loads((source / "config.json").read_text()))
    model = BertModel(config, add_pooling_layer=False).eval()
    model.load_state_dict(
        {k.removeprefix("bert."): v for k, v in found.items() if "position_ids" not in k and k[0] == "b"}
    )
    tokens = AutoTokenizer.from_pretrained(source)(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        output = model(**tokens, output_hidden_states=True)
    first, last = output.last_hidden_state[:, 0], output.last_hidden_state
    mask = tokens["attention_mask"].unsqueeze(-1)
    layers = output.hidden_states
    return {
        "cls": torch.tanh(first @ found["mlp.dense.weight"].T + found["mlp.dense.bias"]),
        "cls_before_pooler": first,
        "avg": (last * mask).sum(1) / mask.sum(1),
        "avg_top2": ((last + layers[-2]) / 2 * mask).sum(1) / mask.sum(1),
        "avg_first_last": ((last + layers[1]) / 2 * mask).sum(1) / mask.sum(1),
    }[pooler].numpy()


@pytest.mark.parametrize("pooler", POOLERS)
def test_a_converted_checkpoint_gives_the_vectors_it_gave_before(tiny_bert, tmp_path, pooler):
    source = make(tmp_path / "source", tiny_bert)
    expected = by_hand(source, pooler)
    for layout in ("huggingface", "sentence-transformers"):
        out = convert(source, layout, tmp_path / layout, pooling=POOLERS[pooler], max_length=64)
        assert read_spec(out).pooling == POOLERS[pooler]
        np.testing.assert_allclose(TextEncoder(str(out)).encode(TEXTS), expected, atol=1e-5)
        assert SimCSE(str(out)).pooler == pooler

    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(tmp_path / "sentence-transformers"), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(theirs, expected, atol=1e-5)
    (tmp_path / "sentence-transformers" / "encoder.json").unlink()  # as sentence-transformers itself would save it
    back = convert(tmp_path / "sentence-transformers", "huggingface", tmp_path / "back")
    assert read_spec(back).pooling == POOLERS[pooler]
    np.testing.assert_allclose(TextEncoder(str(back)).encode(TEXTS), expected, atol=1e-5)


def test_old_names_of_layer_norm_come_back(tiny_bert, tmp_path):
    source = make(tmp_path / "source", tiny_bert)
    old = {
        k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v
        for k, v in tensors(source).items()
    }
    expected = by_hand(source, "avg")
    torch.save(old, source / "pytorch_model.bin")
    there = convert(source, "huggingface", tmp_path / "there", pooling="mean")
    np.testing.assert_allclose(TextEncoder(str(there)).encode(TEXTS), expected, atol=1e-5)
    assert_same_bits(old, tensors(convert(there, "simcse", tmp_path / "back")))


def test_safetensors_and_split_checkpoints_are_read(tiny_bert, tmp_path):
    source = make(tmp_path / "source", tiny_bert)
    expected = tensors(source)
    (source / "pytorch_model.bin").unlink()
    halves = [dict(list(expected.items())[:20]), dict(list(expected.items())[20:])]
    for i, half in enumerate(halves):
        save_file({k: v.clone() for k, v in half.items()}, source / f"model-{i}.safetensors")
    weight_map = {name: f"model-{i}.safetensors" for i, half in enumerate(halves) for name in half}
    (source / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    there = convert(source, "huggingface", tmp_path / "there", pooling="pooler")
    assert_same_bits(expected, tensors(convert(there, "simcse", tmp_path / "back")))


class Attack:
    """Runs a command when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


@pytest.mark.parametrize("form", ["zip", "legacy", "plain pickle"])
def test_a_malicious_pickle_is_refused_without_being_run(tiny_bert, tmp_path, form):
    source, marker = make(tmp_path / "source", tiny_bert), tmp_path / "was-run"
    content = tensors(source) | {"bert.extra": Attack(marker)}
    file = source / "pytorch_model.bin"
    if form == "plain pickle":
        file.write_bytes(pickle.dumps(content["bert.extra"]))
    else:
        torch.save(content, file, _use_new_zipfile_serialization=form == "zip")
    with pytest.raises(InputError, match=r"pytorch_model\.bin: refused, since it holds more than tensors"):
        read_checkpoint(source, pooling="pooler")
    assert not marker.exists()
    shutil.copytree(source, tmp_path / "loaded")
    with pytest.raises(InputError):
        TextEncoder(str(tmp_path / "loaded"), pooling="cls")
    assert not marker.exists()
    if form == "zip":  # the attack works where it is not refused
        assert zipfile.is_zipfile(file)
        torch.load(file, weights_only=False)
        assert marker.exists()


def test_training_arguments_and_optimizers_are_not_copied(tiny_bert, tmp_path):
    source = make(tmp_path / "source", tiny_bert)
    for name in ("training_args.bin", "optimizer.pt", "trainer_state.json"):
        (source / name).write_bytes(b"x")
    out = convert(source, "huggingface", tmp_path / "out", pooling="cls")
    assert sorted(path.name for path in out.iterdir()) == [
        *("config.json", "encoder.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
    ]


def test_bad_checkpoints(tiny_bert, tmp_path):
    source = make(tmp_path / "source", tiny_bert)
    with pytest.raises(UsageError, match="does not record how it pools; give --pooler: cls for"):
        read_checkpoint(source)
    out = convert(source, "huggingface", tmp_path / "out", pooling="pooler")
    with pytest.raises(UsageError, match="is there already"):
        convert(source, "huggingface", tmp_path / "out", pooling="pooler")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    (out / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(InputError, match="cannot be read"):
        read_checkpoint(out)
    (source / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(InputError, match="cannot be read"):
        read_checkpoint(source, pooling="cls")
    torch.save([1, 2], source / "pytorch_model.bin")
    with pytest.raises(InputError, match="is no table of tensors"):
        read_checkpoint(source, pooling="cls")
    (source / "pytorch_model.bin").unlink()
    with pytest.raises(InputError, match="has neither"):
        read_checkpoint(source, pooling="cls")
    with pytest.raises(InputError, match="has no dense layer"):
        read_checkpoint(Path(tiny_bert), pooling="pooler")
    (source / "config.json").write_text('{"model_type": "deberta"}')
    with pytest.raises(UsageError, match="is a deberta model"):
        read_checkpoint(source, pooling="cls")
    (source / "config.json").write_text("{")
    with pytest.raises(InputError, match=r"config\.json: cannot be read as JSON"):
        read_checkpoint(source, pooling="cls")
