"""A Hugging Face encoder with pooling.

Tensor names carry their shape: B texts, L tokens, D dimensions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from biomodels.errors import InputError
from biomodels.models.spec import EncoderSpec, Pooling

_TWO_LAYERS: dict[Pooling, tuple[int, int]] = {"mean_top2": (-2, -1), "mean_first_last": (1, -1)}
"""Which of the hidden states are averaged; number 0 is the embeddings, so 1 is the first transformer layer's."""


def pool(output: Any, mask_BL: Tensor, pooling: Pooling) -> Tensor:
    """Reduce a backbone's output to one vector per text, in float32.

    Args:
        output: of the backbone: `last_hidden_state` H_BLD, and what the pooling needs beside it (`pooler_output`, or
            `hidden_states` of every layer).
        mask_BL: 1 for tokens, 0 for padding.
        pooling: see `EncoderSpec`. For `mean_all_tok` the caller pads to the full length.

    Returns:
        E_BD, float32.
    """
    if pooling == "pooler":
        E_BD: Tensor = output.pooler_output.float()
        return E_BD
    if pooling in _TWO_LAYERS:
        lower, upper = (output.hidden_states[layer].float() for layer in _TWO_LAYERS[pooling])
        H_BLD: Tensor = (lower + upper) / 2
    else:
        H_BLD = output.last_hidden_state.float()
    if pooling == "cls":
        return H_BLD[:, 0]
    if pooling == "mean_all_tok":
        return H_BLD.mean(dim=1)
    weights_BL1 = mask_BL.unsqueeze(-1).to(H_BLD.dtype)
    return (H_BLD * weights_BL1).sum(dim=1) / weights_BL1.sum(dim=1).clamp(min=1e-9)


class Encoder(nn.Module):
    """Backbone and pooling as one module: token ids in, one float32 vector per text out."""

    def __init__(self, backbone: nn.Module, spec: EncoderSpec) -> None:
        super().__init__()
        self.backbone = backbone
        self.spec = spec

    @property
    def dimension(self) -> int:
        """Columns of each vector."""
        # nn.Module says Tensor | Module of any attribute
        return int(self.backbone.config.hidden_size)  # type: ignore[union-attr, arg-type]

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **rest: Tensor) -> Tensor:
        """Encode a batch.

        Args:
            input_ids: int64 (B, L).
            attention_mask: int64 (B, L).
            rest: further inputs of the backbone, such as token_type_ids.

        Returns:
            E_BD, float32; of length 1 if the spec normalises.
        """
        options = {"output_hidden_states": True} if self.spec.pooling in _TWO_LAYERS else {}
        output = self.backbone(input_ids=input_ids, attention_mask=attention_mask, **rest, **options)
        E_BD = pool(output, attention_mask, self.spec.pooling)
        return nn.functional.normalize(E_BD, dim=-1) if self.spec.normalise else E_BD


def encode_by_length(encoder: Encoder, input_ids: Tensor, attention_mask: Tensor, slices: int = 4) -> Tensor:
    """Encode a padded batch as a few batches of texts of similar length, each padded to its own longest.

    Names differ much in length: in one batch most positions would be padding. The number of slices is fixed, because
    under ZeRO-3 all ranks must run every layer equally often.

    Args:
        encoder: any pooling; `mean_all_tok` counts the padding, so there the batch stays whole.
        input_ids: int64 (B, L), padded on the right, B at least 1.
        attention_mask: int64 (B, L).
        slices: how many batches.

    Returns:
        E_BD in the order of the input.
    """
    if encoder.spec.pooling == "mean_all_tok":
        return encoder(input_ids, attention_mask)  # type: ignore[no-any-return]  # nn.Module's call is untyped
    lengths_B = attention_mask.sum(dim=1)
    order_B = torch.argsort(lengths_B, stable=True)
    pieces = []
    for rows in order_B.tensor_split(slices):
        present = rows if len(rows) else order_B[:1]
        width = int(lengths_B[present].max())
        pieces.append(encoder(input_ids[present, :width], attention_mask[present, :width])[: len(rows)])
    return torch.cat(pieces).index_select(0, torch.argsort(order_B))


def load_backbone(directory: Path, pooling: Pooling = "cls", **options: Any) -> nn.Module:
    """Load the encoder of a Hugging Face directory; never runs code from it.

    Raises:
        InputError: transformers cannot load it, or weights are missing, so that they would be random (those of the
            pooler are missed only if `pooling` uses it).
    """
    from pickle import UnpicklingError

    from safetensors import SafetensorError
    from transformers import AutoModel
    from transformers.utils import logging

    logging.disable_progress_bar()
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # the report of missing weights is ours to judge
    try:
        model, report = AutoModel.from_pretrained(directory, output_loading_info=True, **options)
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError, UnpicklingError) as error:
        raise InputError(f"{directory}: transformers cannot load this model ({error})") from error
    finally:
        logging.set_verbosity(verbosity)
    missing = sorted(report["missing_keys"])
    if pooling == "pooler" and (getattr(model, "pooler", None) is None or any(map(_of_pooler, missing))):
        raise InputError(
            f"{directory}: has no trained pooler, which the pooling `pooler` (SimCSE's cls) needs; choose another"
        )
    missing = [name for name in missing if not _of_pooler(name)]
    if missing:
        raise InputError(f"{directory}: its weights lack {len(missing)} tensors of the encoder, such as {missing[0]}")
    return model  # type: ignore[no-any-return]  # transformers is untyped


def _of_pooler(name: str) -> bool:
    return name.startswith("pooler.")


def load_tokenizer(directory: Path) -> Any:
    """Load the fast tokenizer of a Hugging Face directory.

    Raises:
        InputError: it has none that transformers can load.
    """
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(directory, use_fast=True)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{directory}: has no tokenizer that transformers can load ({error})") from error
