"""Linear layers in 8-bit integers, each token scaled by itself.

Weights are rounded once, one scale for each output; a token's activations are rounded as they come, one scale for each
token (dynamic quantisation, symmetric). So a token's result is a function of that token alone, to the bit: unlike
with one scale for a whole batch, the usual form, it does not depend on which texts share the batch.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

_LARGEST = 127


class Int8Linear(nn.Module):
    """y = x Wᵀ + b with W and x in int8, products and sums in int32, scales and bias in float32."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        W_NK = linear.weight.detach().float()
        scale_N = W_NK.abs().amax(dim=1).clamp(min=torch.finfo(torch.float32).tiny) / _LARGEST
        self.weight_KN: Tensor
        self.scale_N: Tensor
        self.register_buffer("weight_KN", torch.round(W_NK / scale_N[:, None]).to(torch.int8).t().contiguous())
        self.register_buffer("scale_N", scale_N)
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().float(), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (…, K) to (…, N), float32."""
        x_MK = x.reshape(-1, x.shape[-1]).float()
        scale_M1 = x_MK.abs().amax(dim=1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny) / _LARGEST
        q_MK = (x_MK / scale_M1).round_().to(torch.int8)
        y_MN = torch._int_mm(q_MK, self.weight_KN).float().mul_(scale_M1).mul_(self.scale_N)
        if self.bias is not None:
            y_MN += self.bias
        return y_MN.view(*x.shape[:-1], -1)


def quantise(module: nn.Module) -> None:
    """Replace every linear layer of a float32 model by its int8 form, in place."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, Int8Linear(child))
        else:
            quantise(child)
