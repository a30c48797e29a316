"""How many rows a matrix product needs so that a row's result does not depend on how many others there are.

Matrix kernels are chosen by shape: a product of few rows takes another path than one of many, sums in another order,
and rounds differently. From some number of rows on the results are equal to the bit. That number is a matter of the
processor, the precision and the layer's shape (8 rows here, 16 there, 400 for bf16 on AMX), so it is measured, on the
model's own layers, and smaller batches are filled up to it.
"""

from __future__ import annotations

import torch
from torch import nn

_LADDER = (1, 2, 3, 5, 8, 11, 16, 17, 24, 31, 32, 47, 64, 97, 128, 193, 256, 320, 384, 449, 512, 769, 1024, 1500)


@torch.inference_mode()
def least_rows(module: nn.Module, most: int) -> int:
    """Return the least number of rows from which on every linear layer gives a row the same bits.

    Args:
        module: the model, on its device and in its precision.
        most: rows of the largest batch.

    Returns:
        A number of at most `most`; `most` itself if no smaller product agrees with the largest.
    """
    needed = 1
    shapes = set()
    for layer in module.modules():
        if isinstance(layer, nn.Linear) and (shape := tuple(layer.weight.shape)) not in shapes:
            shapes.add(shape)
            needed = max(needed, _least_rows(layer, most))
    return needed


def _least_rows(layer: nn.Linear, most: int) -> int:
    """Go down from the largest product to the first that differs."""
    generator = torch.Generator().manual_seed(0)
    X_MK = torch.randn(most, layer.in_features, generator=generator).to(layer.weight)
    expected = layer(X_MK)
    agreed = most
    for rows in reversed([rows for rows in _LADDER if rows < most]):
        if not torch.equal(layer(X_MK[:rows]), expected[:rows]):
            break
        agreed = rows
    return agreed
