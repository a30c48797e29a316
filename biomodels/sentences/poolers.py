"""SimCSE's names of the five poolers, and what they are here (see `EncoderSpec.pooling` for the definitions)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from biomodels.models.spec import Pooling

Pooler = Literal["cls", "cls_before_pooler", "avg", "avg_top2", "avg_first_last"]

POOLERS: dict[str, Pooling] = {
    "cls": "pooler",
    "cls_before_pooler": "cls",
    "avg": "mean",
    "avg_top2": "mean_top2",
    "avg_first_last": "mean_first_last",
}
"""SimCSE's name → ours. Its `cls` is the first token's state *after* the dense layer and tanh that follow it."""


def pooler_of(pooling: Pooling) -> str:
    """Return SimCSE's name of a pooling, or ours where SimCSE has none."""
    return next((name for name, ours in POOLERS.items() if ours == pooling), pooling)
