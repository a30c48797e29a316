from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from biomodels.errors import InputError
from biomodels.models.encoder import load_backbone, load_tokenizer
from biomodels.models.spec import EncoderSpec, model_digest, read_spec, resolve_model, write_spec


@pytest.fixture
def model(tiny_bert: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_bert, tmp_path / "model"))


def digest(directory: Path) -> str:
    return model_digest(directory, read_spec(directory))


def test_a_plain_directory_pools_as_sapbert_does(model: Path) -> None:
    assert read_spec(model) == EncoderSpec(pooling="cls", max_length=25, normalise=False, prefix="")


def test_sentence_transformers_directory_is_read(minilm: str) -> None:
    assert read_spec(Path(minilm)) == EncoderSpec(pooling="mean", max_length=256, normalise=True)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_what_we_write_sentence_transformers_and_we_read_alike(model: Path, pooling: str) -> None:
    spec = EncoderSpec(pooling=pooling, max_length=12, normalise=True, prefix="query: ")
    write_spec(model, spec, dimension=32)
    assert read_spec(model) == spec
    (model / "encoder.json").unlink()
    assert read_spec(model) == spec

    from sentence_transformers import SentenceTransformer

    from biomodels.inference.text_encoder import TextEncoder

    theirs = SentenceTransformer(str(model), device="cpu").encode(["renal failure", "b"])
    assert abs(theirs - TextEncoder(str(model)).encode(["renal failure", "b"])).max() < 1e-5


def test_arguments_override_the_record(model: Path) -> None:
    assert read_spec(model, pooling="mean", max_length=7) == EncoderSpec(pooling="mean", max_length=7)


def test_digest_is_that_of_a_copy(model: Path, tmp_path: Path) -> None:
    assert digest(Path(shutil.copytree(model, tmp_path / "copy"))) == digest(model)


def test_digest_ignores_where_a_config_came_from(model: Path) -> None:
    before = digest(model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"_name_or_path": "elsewhere", "transformers_version": "9"}))
    assert digest(model) == before


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_digest_changes_with_any_file(model: Path, name: str) -> None:
    before = digest(model)
    content = (model / name).read_bytes()
    changed = content[:-1] + bytes([content[-1] ^ 1])
    if name == "config.json":
        changed = json.dumps(json.loads(content) | {"hidden_act": "relu"}).encode()
    (model / name).write_bytes(changed)
    assert digest(model) != before


@pytest.mark.parametrize("change", [{"pooling": "mean"}, {"max_length": 9}, {"normalise": True}, {"prefix": "q"}])
def test_digest_changes_with_the_spec(model: Path, change: dict) -> None:
    assert model_digest(model, EncoderSpec(**change)) != model_digest(model, EncoderSpec())


@pytest.mark.parametrize("name", ["", " \t"])
def test_an_empty_name(name: str) -> None:
    with pytest.raises(InputError, match="model: is empty; give a local directory or a name on the Hugging Face Hub"):
        resolve_model(name)


def test_a_file_or_a_uri_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"x")
    with pytest.raises(InputError, match=r"model\.safetensors is a file; give a local directory or a name"):
        resolve_model(str(tmp_path / "model.safetensors"))
    with pytest.raises(InputError, match=r"s3://bucket/m1 is a URI.*give a local directory or a name"):
        resolve_model("s3://bucket/m1")


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such directory"):
        resolve_model(str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        (["config.json"], "no config.json"),
        (["model.safetensors"], "has no weights"),
        (["tokenizer.json", "vocab.txt", "tokenizer_config.json"], "has no tokenizer"),
    ],
)
def test_an_incomplete_directory(model: Path, gone: list[str], message: str) -> None:
    for name in gone:
        (model / name).unlink(missing_ok=True)
    with pytest.raises(InputError, match=message):
        resolve_model(str(model))


def test_a_damaged_config(model: Path) -> None:
    (model / "config.json").write_text("{")
    with pytest.raises(InputError, match=r"config\.json: cannot be read as JSON"):
        digest(model)


def test_a_damaged_tokenizer(model: Path) -> None:
    (model / "tokenizer.json").write_text("{")
    with pytest.raises(InputError, match="no tokenizer that transformers can load"):
        load_tokenizer(model)


def test_damaged_weights(model: Path) -> None:
    (model / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(InputError, match="cannot load this model"):
        load_backbone(model)


def test_an_unknown_pooling(model: Path) -> None:
    (model / "encoder.json").write_text('{"pooling": "last"}')
    with pytest.raises(InputError, match=r"encoder\.json.*pooling"):
        read_spec(model)


def test_a_sentence_transformers_pooling_that_we_lack(model: Path) -> None:
    write_spec(model, EncoderSpec(), dimension=32)
    (model / "encoder.json").unlink()
    (model / "1_Pooling" / "config.json").write_text('{"pooling_mode_max_tokens": true}')
    with pytest.raises(InputError, match=r"max_tokens.*--pooling"):
        read_spec(model)


def test_a_sentence_transformers_module_that_we_lack(model: Path) -> None:
    write_spec(model, EncoderSpec(), dimension=32)
    (model / "encoder.json").unlink()
    modules = json.loads((model / "modules.json").read_text())
    modules.append({"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"})
    (model / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(InputError, match="only Transformer, Pooling, Normalize"):
        read_spec(model)
