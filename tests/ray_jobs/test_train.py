"""The job `train`: its result loads everywhere, and bad runs stop with a reason."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from biomodels.artifacts import Artifact
from biomodels.errors import ArtifactError, BiomodelsError, InputError
from biomodels.inference.text_encoder import TextEncoder
from ray_jobs.train import Config, main

CONFIGS = Path(__file__).parents[2] / "ray_jobs" / "configs"
SYLLABLES = ("ka", "ro", "mi", "te", "su", "no", "li", "pa", "dor", "gen")


def write_pairs(path: Path, concepts: int = 40) -> str:
    """Pairs of made-up synonyms; the first line cannot be read."""
    lines = ["C0||a||stray||separator"]
    for c in range(concepts):
        word = "".join(SYLLABLES[(c // 10**i) % 10] for i in range(3))
        lines.append(f"C{c}||{word} {SYLLABLES[c % 7]}||{word}{SYLLABLES[c % 3]}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def options(tmp_path: Path, model: str, **changes):
    values = {
        "pairs": str(tmp_path / "pairs.txt"), "model": model, "out": str(tmp_path / "model"), "batch_size": 16,
        "learning_rate": 1e-3, "pooling": "mean", "max_reject_rate": 0.1, "workers": 2, "micro_batch": 8,
        "checkpoint_every": 2, "epochs": 2,
    }  # fmt: skip
    return Config(**(values | changes))


@pytest.mark.ray
def test_result_is_a_model_for_everyone(ray_session, tiny_bert, tmp_path, capfd):
    write_pairs(tmp_path / "pairs.txt")
    config = options(tmp_path, tiny_bert)
    manifest = main(config)

    assert manifest.kind == "model"
    assert {key: manifest.facts[key] for key in ("steps", "workers", "pairs")} == {
        "steps": 6,
        "workers": 2,
        "pairs": 40,
    }
    model = Artifact.open(config.out, "model")
    model.verify()
    assert len(model.read_table(model.files("rejects/")[0])) == 1
    curve = [json.loads(line) for line in Path(config.out, "training.jsonl").read_text().splitlines()]
    assert [row["step"] for row in curve] == list(range(6))
    assert all(row["loss"] > 0 and row["gradient_norm"] > 0 and row["learning_rate"] == 1e-3 for row in curve)
    assert Path(config.out, "training.png").read_bytes().startswith(b"\x89PNG")
    for path in Path(config.out).glob("*.json"):
        if path.name != "run.json":
            assert str(tmp_path) not in path.read_text() and tiny_bert not in path.read_text(), path

    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel, AutoTokenizer

    texts = ["karo mi", "tesu", "a rather longer name, which is cut after some tokens"]
    encoder = TextEncoder(config.out)
    ours = encoder.encode(texts)
    assert encoder.spec.pooling == "mean" and encoder.digest == manifest.facts["model_digest"]
    theirs = SentenceTransformer(config.out, device="cpu").encode(texts)
    assert np.abs(ours - theirs).max() <= 1e-5
    tokens = AutoTokenizer.from_pretrained(config.out)(
        texts, padding=True, truncation=True, max_length=25, return_tensors="pt"
    )
    with torch.no_grad():
        H_BLD = AutoModel.from_pretrained(config.out)(**tokens).last_hidden_state
    mask_BL1 = tokens["attention_mask"].unsqueeze(-1)
    assert np.abs(ours - ((H_BLD * mask_BL1).sum(1) / mask_BL1.sum(1)).numpy()).max() <= 1e-5
    assert np.abs(ours - TextEncoder(tiny_bert, pooling="mean", max_length=25).encode(texts)).max() > 1e-3

    capfd.readouterr()
    assert main(config) == manifest
    assert "nothing to do" in capfd.readouterr().err
    with pytest.raises(ArtifactError, match="learning_rate"):
        main(options(tmp_path, tiny_bert, learning_rate=2e-3))


@pytest.mark.ray
def test_a_loss_that_is_not_finite_stops_training(ray_session, tiny_bert, tmp_path):
    write_pairs(tmp_path / "pairs.txt")
    broken = tmp_path / "broken"
    shutil.copytree(tiny_bert, broken)
    weights = load_file(broken / "model.safetensors")
    weights["embeddings.LayerNorm.weight"][0] = float("nan")
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    with pytest.raises(BiomodelsError, match="step 0: the loss is nan; the weights were not updated"):
        main(options(tmp_path, str(broken), workers=1, micro_batch=None))
    assert not (tmp_path / "model" / "manifest.json").exists()


def test_unusable_input_is_named_before_anything_starts(tiny_bert, tmp_path):
    with pytest.raises(ArtifactError, match=r"pairs\.txt"):
        main(options(tmp_path, tiny_bert))
    write_pairs(tmp_path / "pairs.txt")
    with pytest.raises(InputError, match="no such directory"):
        main(options(tmp_path, str(tmp_path / "no-model")))
    with pytest.raises(InputError, match="40 rows, too few for one batch of 64"):
        main(options(tmp_path, tiny_bert, batch_size=64, drop_last=True))


@pytest.mark.parametrize("name", ["sapbert_pubmedbert", "sapbert_xlmr_large"])
def test_published_configurations(name):
    values = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text(encoding="utf-8"))
    config = Config(**values, pairs="p", out="o")
    published = {
        "batch_size": 256, "learning_rate": 2e-5, "weight_decay": 0.01, "epochs": 1, "max_length": 25, "pooling": "cls",
        "seed": 33, "loss_alpha": 1.0, "loss_beta": 60.0, "loss_base": 0.5, "miner": True, "miner_margin": 0.2,
        "clip": 0.0, "warmup_steps": 0, "mask_same_string": False,
    }  # fmt: skip
    assert {key: getattr(config, key) for key in published} == published
