from __future__ import annotations

import torch
from torch import nn

from biomodels.inference.int8 import Int8Linear, quantise


def test_products_equal_those_of_the_rounded_weights_and_activations() -> None:
    torch.manual_seed(0)
    linear, x = nn.Linear(64, 48), torch.randn(3, 5, 64)
    with torch.no_grad():
        scale_N1 = linear.weight.abs().amax(1, keepdim=True) / 127
        scale_x = x.abs().amax(-1, keepdim=True) / 127
        rounded = (
            torch.round(x / scale_x) * scale_x @ (torch.round(linear.weight / scale_N1) * scale_N1).T + linear.bias
        )
        found = Int8Linear(linear)(x)
        torch.testing.assert_close(found, rounded, atol=1e-5, rtol=1e-5)
        assert 0 < (found - linear(x)).abs().max() < 0.05


def test_a_token_is_scaled_by_itself() -> None:
    torch.manual_seed(0)
    layer, x = Int8Linear(nn.Linear(16, 8, bias=False)), torch.randn(4, 16)
    x[3] *= 1e4
    assert torch.equal(layer(x)[:3], layer(x[:3]))
    assert torch.equal(layer(torch.zeros(1, 16)), torch.zeros(1, 8))


def test_every_linear_layer_is_replaced() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.GELU(), nn.Linear(4, 2)))
    quantise(model)
    assert [type(layer) for layer in model.modules() if not list(layer.children())] == [Int8Linear, nn.GELU, Int8Linear]
