from __future__ import annotations

import torch
from torch import Tensor, nn

from biomodels.inference.batch_rows import least_rows


class Picky(nn.Linear):
    """Rounds otherwise in products of fewer rows than 100, as matrix kernels do."""

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y if len(x) >= 100 else y + 1e-6


def test_the_least_number_of_rows_is_found() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Picky(64, 64), nn.ReLU())
    assert 100 <= least_rows(model, 2048) <= 128


def test_a_module_without_linear_layers_needs_one_row() -> None:
    assert least_rows(nn.Sequential(nn.ReLU()), 2048) == 1


def test_from_there_on_rows_are_independent() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(96, 64)
    rows, x = least_rows(layer, 2048), torch.randn(2048, 96)
    for count in (rows, rows + 1, 2 * rows + 3, 700):
        assert torch.equal(layer(x[:count]), layer(x)[:count])
