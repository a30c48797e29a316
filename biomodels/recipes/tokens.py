"""Texts to tensors, the way all recipes do it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from biomodels.recipes.contract import Tokens


def tokenize(tokenizer: Any, texts: Sequence[str], *, max_length: int, full_length: bool = False) -> Tokens:
    """Tokenize one set of texts.

    Args:
        tokenizer: a Hugging Face fast tokenizer.
        texts: perhaps none; then the tensors have no rows.
        max_length: longer texts are cut, special tokens included.
        full_length: pad to `max_length`, where pooling counts padding; else to the longest of these texts.

    Returns:
        `input_ids` and `attention_mask`, int64 (B, L), padded on the right.
    """
    if not texts:
        empty = torch.zeros(0, max_length if full_length else 1, dtype=torch.int64)
        return {"input_ids": empty, "attention_mask": empty.clone()}
    encoded = tokenizer(
        list(texts),
        truncation=True,
        max_length=max_length,
        padding="max_length" if full_length else "longest",
        padding_side="right",
        return_attention_mask=True,
        return_token_type_ids=False,
    )
    return {key: torch.tensor(encoded[key], dtype=torch.int64) for key in ("input_ids", "attention_mask")}
