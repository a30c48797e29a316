"""Checkpoints of SimCSE in three layouts, and the way from each to each.

- `simcse`: what the original trainer saves. Tensors bear the prefix of the class that holds the encoder (`bert.`,
  `roberta.`), the dense layer after the first token is `mlp.dense`, and an MLM head may lie beside them.
- `huggingface`: what `AutoModel` reads. No prefix, the dense layer is the `pooler`.
- `sentence-transformers`: the same with `modules.json`, and what the pooler needs as modules of their own.

Every layout that is written here records the pooler in `encoder.json`. Tensors go through unchanged, bit by bit; what
another layout has no place for (a head, an older name) waits in `simcse_rest.safetensors` for the way back. Of a pickle
only tensors are read: anything else in it is refused, and never run.
"""

from __future__ import annotations

import json
import shutil
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from biomodels.errors import InputError, UsageError
from biomodels.models.spec import SPEC_FILE, TOKENIZER_FILES, EncoderSpec, Pooling, read_spec, write_spec

if TYPE_CHECKING:
    from torch import Tensor

Layout = Literal["huggingface", "sentence-transformers", "simcse"]
PREFIXES = {"bert": "bert.", "roberta": "roberta.", "xlm-roberta": "roberta."}
"""Model type → prefix of the encoder's tensors in SimCSE's classes."""

REST = "simcse_rest.safetensors"
MAX_LENGTH = 128
_COPIED = (
    *TOKENIZER_FILES,
    *("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "LICENSE", "LICENSE.txt"),
)
_OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


@dataclass
class Checkpoint:
    """A model in memory.

    Attributes:
        directory, layout: where it was read from.
        config: its `config.json`, as `AutoModel` needs it.
        spec: how it pools.
        tensors: the encoder's, by the names of `AutoModel`.
        rest: tensors that `AutoModel` has no name for, by the names that SimCSE has for them.
        old_names: name here → name that an old checkpoint has for it.
    """

    directory: Path
    layout: Layout
    config: dict[str, Any]
    spec: EncoderSpec
    tensors: dict[str, Tensor]
    rest: dict[str, Tensor] = field(default_factory=dict)
    old_names: dict[str, str] = field(default_factory=dict)


def read_checkpoint(directory: Path, *, pooling: Pooling | None = None, max_length: int | None = None) -> Checkpoint:
    """Read a checkpoint of any layout.

    Args:
        directory: with `config.json`, weights and the tokenizer's files.
        pooling: how it pools; needed where the directory does not record it.
        max_length: tokens per text; by default what is recorded, else 128.

    Raises:
        InputError: a file is missing or damaged, or a pickle holds more than tensors.
        UsageError: the pooling is neither recorded nor given, or the model is of a kind that SimCSE does not have.
    """
    config = _json(directory / "config.json")
    if config.get("model_type") not in PREFIXES:
        raise UsageError(
            f"{directory}: is a {config.get('model_type')} model; SimCSE has only {', '.join(sorted(PREFIXES))}"
        )
    if not any((directory / name).is_file() for name in TOKENIZER_FILES):
        raise InputError(f"{directory}: has no tokenizer; copy the files of the model that training started from")
    tensors = _tensors(directory)
    modules = _json(directory / "modules.json") if (directory / "modules.json").is_file() else None
    prefix = PREFIXES[str(config["model_type"])]
    if any(name.startswith((prefix, "mlp.")) for name in tensors):
        layout: Layout = "simcse"
    else:
        layout = "huggingface" if modules is None else "sentence-transformers"
    recorded = _recorded(directory, modules, tensors)
    if pooling is None and recorded is None:
        raise UsageError(
            f"{directory}: does not record how it pools; give --pooler: cls for a model trained on pairs, "
            "cls_before_pooler for one trained on single sentences with --mlp_only_train"
        )
    spec = (recorded or EncoderSpec(max_length=MAX_LENGTH)).model_copy(
        update={k: v for k, v in (("pooling", pooling), ("max_length", max_length)) if v is not None}
    )
    found = Checkpoint(directory, layout, config, spec, {})
    if layout == "simcse":
        _from_simcse(found, tensors, prefix)
    else:
        found.tensors = tensors
        if (directory / REST).is_file():
            found.rest, found.old_names = _read_rest(directory / REST)
        if layout == "sentence-transformers" and spec.pooling in ("mean_top2", "mean_first_last"):
            config.pop("output_hidden_states", None)
    if spec.pooling == "pooler" and "pooler.dense.weight" not in found.tensors:
        raise InputError(f"{directory}: has no dense layer, which the pooler cls needs; give another --pooler")
    return found


def write_checkpoint(checkpoint: Checkpoint, layout: Layout, out: Path) -> None:
    """Write a checkpoint as a directory, which appears whole or not at all.

    SimCSE's own code reads nothing but `pytorch_model.bin`, so its layout has one; the others have safetensors.

    Raises:
        UsageError: something is there already.
    """
    if out.exists() and any(out.iterdir() if out.is_dir() else [out]):
        raise UsageError(f"{out}: is there already; choose another place")
    staged = out.with_name(f".{out.name}.{uuid.uuid4().hex}.tmp")
    staged.mkdir(parents=True)
    try:
        for name in _COPIED:
            if (checkpoint.directory / name).is_file():
                shutil.copyfile(checkpoint.directory / name, staged / name)
        _WRITERS[layout](checkpoint, staged)
        if out.is_dir():
            out.rmdir()
        staged.rename(out)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _from_simcse(found: Checkpoint, tensors: dict[str, Tensor], prefix: str) -> None:
    for name, tensor in tensors.items():
        if name.startswith(prefix):
            ours = name.removeprefix(prefix)
        elif name.startswith("mlp."):
            ours = "pooler." + name.removeprefix("mlp.")
        else:
            found.rest[name] = tensor
            continue
        for old, new in _OLD_NAMES.items():
            if ours.endswith(old):
                ours = ours.removesuffix(old) + new
                found.old_names[ours] = name
        found.tensors[ours] = tensor
    architectures = found.config.get("architectures") or []
    found.config["architectures"] = [str(name).replace("ForCL", "Model") for name in architectures]


def _write_simcse(checkpoint: Checkpoint, out: Path) -> None:
    import torch

    prefix = PREFIXES[str(checkpoint.config["model_type"])]
    tensors = {}
    for name, tensor in checkpoint.tensors.items():
        theirs = "mlp." + name.removeprefix("pooler.") if name.startswith("pooler.") else prefix + name
        tensors[checkpoint.old_names.get(name, theirs)] = tensor
    torch.save(tensors | checkpoint.rest, out / "pytorch_model.bin")
    architectures = checkpoint.config.get("architectures") or []
    renamed = [str(name).removesuffix("Model") + "ForCL" for name in architectures]
    _put(out / "config.json", checkpoint.config | {"architectures": renamed})
    _put(out / SPEC_FILE, checkpoint.spec.model_dump())


def _write_huggingface(checkpoint: Checkpoint, out: Path) -> None:
    _save(checkpoint.tensors, out / "model.safetensors")
    if checkpoint.rest or checkpoint.old_names:
        _save(checkpoint.rest, out / REST, {"old_names": json.dumps(checkpoint.old_names, sort_keys=True)})
    _put(out / "config.json", checkpoint.config)
    _put(out / SPEC_FILE, checkpoint.spec.model_dump())


def _write_sentence_transformers(checkpoint: Checkpoint, out: Path) -> None:
    """Write the modules; `pooler` is a dense layer on the first token, the means of two layers are weighted layers."""
    import torch

    _write_huggingface(checkpoint, out)
    width, layers = (int(checkpoint.config[key]) for key in ("hidden_size", "num_hidden_layers"))
    pooling = checkpoint.spec.pooling
    # get() widens the literal
    plain: Pooling = {"pooler": "cls", "mean_top2": "mean", "mean_first_last": "mean"}.get(pooling, pooling)  # type: ignore[assignment]
    write_spec(out, checkpoint.spec.model_copy(update={"pooling": plain}), width)
    _put(out / SPEC_FILE, checkpoint.spec.model_dump())
    modules = _json(out / "modules.json")
    if pooling == "pooler":
        dense = {"in_features": width, "out_features": width, "bias": True}
        _put(out / "2_Dense" / "config.json", dense | {"activation_function": "torch.nn.modules.activation.Tanh"})
        weights = {f"linear.{part}": checkpoint.tensors[f"pooler.dense.{part}"] for part in ("weight", "bias")}
        _save(weights, out / "2_Dense" / "model.safetensors")
        modules.insert(2, {"type": "sentence_transformers.models.Dense", "path": "2_Dense"})
    elif plain != pooling:
        weights = {"layer_weights": torch.tensor(_layer_weights(pooling, layers), dtype=torch.float32)}
        settings = {"word_embedding_dimension": width, "layer_start": 1, "num_hidden_layers": layers}
        _put(out / "1_WeightedLayerPooling" / "config.json", settings)
        _save(weights, out / "1_WeightedLayerPooling" / "model.safetensors")
        modules.insert(
            1, {"type": "sentence_transformers.models.WeightedLayerPooling", "path": "1_WeightedLayerPooling"}
        )
        _put(out / "config.json", checkpoint.config | {"output_hidden_states": True})
    _put(out / "modules.json", [module | {"idx": i, "name": str(i)} for i, module in enumerate(modules)])


_WRITERS = {
    "simcse": _write_simcse,
    "huggingface": _write_huggingface,
    "sentence-transformers": _write_sentence_transformers,
}


def _recorded(directory: Path, modules: list[dict[str, Any]] | None, tensors: dict[str, Tensor]) -> EncoderSpec | None:
    """Return what the directory records of its pooling; of modules, the dense layer joins the tensors."""
    if (directory / SPEC_FILE).is_file() or modules is None:
        return read_spec(directory) if (directory / SPEC_FILE).is_file() else None
    paths = {str(module["type"]).rsplit(".", 1)[-1]: directory / str(module["path"]) for module in modules}
    extra = paths.keys() - {"Transformer", "Pooling", "Normalize"}
    if not extra:
        return read_spec(directory)
    pooled = _json(paths["Pooling"] / "config.json") if "Pooling" in paths else {}
    cls = bool(pooled.get("pooling_mode_cls_token") or pooled.get("pooling_mode") == "cls")
    limits = (
        _json(directory / "sentence_bert_config.json") if (directory / "sentence_bert_config.json").is_file() else {}
    )
    length = int(limits.get("max_seq_length") or MAX_LENGTH)
    normalise = "Normalize" in paths
    if extra == {"Dense"} and cls:
        activation = str(_json(paths["Dense"] / "config.json").get("activation_function"))
        if activation.endswith(".Tanh"):
            dense = _tensors(paths["Dense"])
            tensors |= {f"pooler.dense.{part}": dense[f"linear.{part}"] for part in ("weight", "bias")}
            return EncoderSpec(pooling="pooler", max_length=length, normalise=normalise)
    if extra == {"WeightedLayerPooling"} and not cls:
        start = int(_json(paths["WeightedLayerPooling"] / "config.json").get("layer_start", 4))
        weights = _tensors(paths["WeightedLayerPooling"])["layer_weights"].tolist()
        for pooling in ("mean_top2", "mean_first_last"):
            if start == 1 and weights == _layer_weights(pooling, len(weights)):
                return EncoderSpec(pooling=pooling, max_length=length, normalise=normalise)
    raise InputError(f"{directory}: its modules {sorted(paths)} are none of SimCSE's five poolers")


def _layer_weights(pooling: str, layers: int) -> list[float]:
    chosen = {"mean_top2": (layers - 2, layers - 1), "mean_first_last": (0, layers - 1)}[pooling]
    return [float(chosen.count(layer)) for layer in range(layers)]


def _tensors(directory: Path) -> dict[str, Tensor]:
    """Read all weights of a directory: safetensors if there are any, else pickles of which only tensors are read."""
    for file in ("model.safetensors", "pytorch_model.bin"):
        index = directory / f"{file}.index.json"
        names = sorted(set(_json(index)["weight_map"].values())) if index.is_file() else [file]
        if (directory / names[0]).is_file():
            found: dict[str, Tensor] = {}
            for name in names:
                found |= _read_weights(directory / name)
            return found
    raise InputError(f"{directory}: has neither model.safetensors nor pytorch_model.bin")


def _read_weights(file: Path) -> dict[str, Tensor]:
    from pickle import UnpicklingError

    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if file.suffix == ".safetensors":
        try:
            return dict(load_file(file))
        except (SafetensorError, OSError) as error:
            raise InputError(f"{file}: cannot be read ({error}); fetch it again") from error
    try:
        found = torch.load(file, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        reason = str(error).strip().splitlines()[-1] if str(error).strip() else "not plain tensors"
        raise InputError(
            f"{file}: refused, since it holds more than tensors and could run code ({reason}); nothing of it was run"
        ) from error
    except (RuntimeError, OSError, EOFError, ValueError, KeyError) as error:
        raise InputError(f"{file}: cannot be read ({error}); fetch it again") from error
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise InputError(f"{file}: is no table of tensors")
    return dict(found)


def _read_rest(file: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    from safetensors import safe_open

    rest = _read_weights(file)
    with safe_open(file, framework="pt") as opened:
        metadata = opened.metadata() or {}
    return rest, json.loads(metadata.get("old_names", "{}"))


def _save(tensors: dict[str, Tensor], file: Path, metadata: dict[str, str] | None = None) -> None:
    """Write safetensors; one entry of metadata at most, since their order in the file is left to chance."""
    from safetensors.torch import save_file

    file.parent.mkdir(exist_ok=True)
    copies = {name: tensor.clone().contiguous() for name, tensor in tensors.items()}
    save_file(copies, file, metadata or {"format": "pt"})


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: cannot be read as JSON ({error})") from error


def _put(file: Path, value: Any) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")
