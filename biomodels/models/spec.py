"""What turns a Hugging Face encoder into one embedding model: pooling, length, normalisation and prefix."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from biomodels.artifacts import digest_json
from biomodels.errors import InputError
from biomodels.storage import sha256

Pooling = Literal["cls", "mean", "mean_all_tok", "pooler", "mean_top2", "mean_first_last"]
Precision = Literal["float32", "bf16", "fp16", "int8"]
SPEC_FILE = "encoder.json"
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt", "sentencepiece.bpe.model", "spiece.model")
WEIGHT_FILES = ("*.safetensors", "pytorch_model*.bin")
_UNSTABLE_KEYS = {"_name_or_path", "name_or_path", "transformers_version", "tokenizer_file", "torch_dtype", "dtype"}


class EncoderSpec(BaseModel):
    """How token states become one vector.

    Attributes:
        pooling: `cls` takes the first token's last state; `pooler` puts the model's own dense layer and tanh on it;
            `mean` averages the last layer over the attention mask; `mean_top2` does so with the mean of the last two
            layers, `mean_first_last` with the mean of the first and the last transformer layer (not the embeddings
            beneath); `mean_all_tok` averages over all `max_length` positions, padding included, as SapBERT's
            mean-token variant does.
        max_length: tokens, special ones included; longer texts are cut.
        normalise: scale vectors to length 1.
        prefix: put before every text ("query: " for E5).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    pooling: Pooling = "cls"
    max_length: int = Field(default=25, ge=3)
    normalise: bool = False
    prefix: str = ""


def resolve_model(name: str) -> Path:
    """Return the local directory of a model: a path as it is, else a Hugging Face Hub name, fetched once.

    Raises:
        InputError: there is no such directory or Hub model, or it lacks a config, a tokenizer or weights.
    """
    remedy = "give a local directory or a name on the Hugging Face Hub"
    if not name.strip():
        raise InputError(f"model: is empty; {remedy}")
    if "://" in name:
        raise InputError(f"model: {name} is a URI, and models are not read from there; copy it, then {remedy}")
    directory = Path(os.path.expanduser(name))
    if directory.is_file():
        raise InputError(f"model: {name} is a file; {remedy}")
    if not directory.is_dir():
        directory = _from_hub(name)
    if not (directory / "config.json").is_file():
        raise InputError(f"{name}: is no model directory: it has no config.json")
    if not any((directory / file).is_file() for file in TOKENIZER_FILES):
        raise InputError(
            f"{name}: has no tokenizer (none of {', '.join(TOKENIZER_FILES)}); copy the files of the model it came from"
        )
    if not any(path for pattern in WEIGHT_FILES for path in directory.glob(pattern)):
        raise InputError(f"{name}: has no weights (*.safetensors or pytorch_model*.bin)")
    return directory


def read_spec(
    directory: Path, *, pooling: Pooling | None = None, max_length: int | None = None, normalise: bool | None = None
) -> EncoderSpec:
    """Read how a model directory pools.

    Looked at in this order: our own `encoder.json`; sentence-transformers' `modules.json`; else a plain Hugging Face
    directory, which means `cls` over 25 tokens, SapBERT's own setting. Arguments override what is found.

    Raises:
        InputError: the record is damaged, or names a pooling that we do not have.
    """
    if (directory / SPEC_FILE).is_file():
        try:
            spec = EncoderSpec.model_validate(_read(directory / SPEC_FILE))
        except ValidationError as error:
            problem = error.errors()[0]
            raise InputError(f"{directory / SPEC_FILE}: {problem['loc']}: {problem['msg']}") from error
    elif (directory / "modules.json").is_file():
        spec = _sentence_transformers_spec(directory)
    else:
        spec = EncoderSpec()
    changes: dict[str, Any] = {"pooling": pooling, "max_length": max_length, "normalise": normalise}
    return spec.model_copy(update={key: value for key, value in changes.items() if value is not None})


def most_tokens(directory: Path) -> int:
    """Return how many tokens a model has positions for."""
    config = _read(directory / "config.json")
    positions = int(config.get("max_position_embeddings") or 1 << 20)
    if "roberta" in str(config.get("model_type")) or config.get("model_type") == "camembert":
        positions -= int(config.get("pad_token_id") or 0) + 1  # theirs start after the padding's
    return max(3, positions)


def records_pooling(directory: Path) -> bool:
    """Say whether a model directory records how it pools, so that `read_spec` need not assume it."""
    return any((directory / name).is_file() for name in (SPEC_FILE, "modules.json"))


def write_spec(directory: Path, spec: EncoderSpec, dimension: int) -> None:
    """Record the pooling for us (`encoder.json`) and for sentence-transformers (`modules.json` and its folders).

    sentence-transformers has no `mean_all_tok`; there such a model is read as `mean`, which gives other vectors. For
    `pooler`, `mean_top2` and `mean_first_last` only `encoder.json` is written here: their modules hold weights, which
    `sentences.checkpoints` knows how to write.
    """

    def put(name: str, value: Any) -> None:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")

    put(SPEC_FILE, spec.model_dump())
    if spec.pooling in ("pooler", "mean_top2", "mean_first_last"):
        return
    names = ["Transformer", "Pooling"] + (["Normalize"] if spec.normalise else [])
    folders = ["", "1_Pooling", "2_Normalize"]
    modules = [
        {"idx": i, "name": str(i), "path": folders[i], "type": f"sentence_transformers.models.{name}"}
        for i, name in enumerate(names)
    ]
    put("modules.json", modules)
    put(
        "1_Pooling/config.json",
        {
            "word_embedding_dimension": dimension,
            "pooling_mode_cls_token": spec.pooling == "cls",
            "pooling_mode_mean_tokens": spec.pooling != "cls",
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
        },
    )
    put("sentence_bert_config.json", {"max_seq_length": spec.max_length, "do_lower_case": False})
    prompts = {"default": spec.prefix} if spec.prefix else {}
    put(
        "config_sentence_transformers.json",
        {
            "prompts": prompts,
            "default_prompt_name": "default" if spec.prefix else None,
            "similarity_fn_name": "cosine",
        },
    )


def model_digest(directory: Path, spec: EncoderSpec) -> str:
    """Return the identity of an embedding model: weights, tokenizer, config and spec.

    It is the same for a copy in another place, and differs if any vector could differ.
    """
    parts: dict[str, Any] = {"spec": spec.model_dump()}
    for name in ("config.json", "tokenizer_config.json"):
        if (directory / name).is_file():
            parts[name] = _stable(_read(directory / name))
    weights = sorted({path for pattern in WEIGHT_FILES for path in directory.glob(pattern)})
    if any(path.suffix == ".safetensors" for path in weights):
        weights = [path for path in weights if path.suffix == ".safetensors"]
    for path in [*weights, *(directory / name for name in TOKENIZER_FILES)]:
        if path.is_file():
            parts[path.name] = sha256(str(path))
    return digest_json(parts)


def _sentence_transformers_spec(directory: Path) -> EncoderSpec:
    modules = _read(directory / "modules.json")
    kinds = {str(module["type"]).rsplit(".", 1)[-1]: directory / str(module["path"]) for module in modules}
    unknown = set(kinds) - {"Transformer", "Pooling", "Normalize"}
    if unknown or "Pooling" not in kinds:
        raise InputError(
            f"{directory}: modules.json has {sorted(kinds)}; only Transformer, Pooling, Normalize are read"
        )
    config = _read(kinds["Pooling"] / "config.json")
    modes = {key.removeprefix("pooling_mode_") for key, on in config.items() if key.startswith("pooling_mode_") and on}
    mode = config["pooling_mode"] if isinstance(config.get("pooling_mode"), str) else None
    chosen = {mode} if mode else modes
    known: dict[str, Pooling] = {"cls_token": "cls", "mean_tokens": "mean", "cls": "cls", "mean": "mean"}
    if len(chosen) != 1 or not chosen <= set(known):
        raise InputError(
            f"{directory}: its pooling {sorted(map(str, chosen))} is not one of {sorted(known)}; give --pooling"
        )
    limits = (
        _read(directory / "sentence_bert_config.json") if (directory / "sentence_bert_config.json").is_file() else {}
    )
    shown = directory / "config_sentence_transformers.json"
    prompts = _read(shown) if shown.is_file() else {}
    default = prompts.get("default_prompt_name")
    return EncoderSpec(
        pooling=known[chosen.pop()],
        max_length=int(
            limits.get("max_seq_length") or _read(directory / "config.json").get("max_position_embeddings", 512)
        ),
        normalise="Normalize" in kinds,
        prefix=(prompts.get("prompts") or {}).get(default, "") if default else "",
    )


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download

    if name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name:
        raise InputError(f"{name}: there is no such directory")
    patterns = ["*.json", "*.txt", "*.model", "*.safetensors", "1_Pooling/*"]
    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except Exception as error:
        raise InputError(
            f"{name}: is no local directory, and the Hugging Face Hub did not give it ({error})"
        ) from error


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error})") from error


def _stable(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in _UNSTABLE_KEYS}
