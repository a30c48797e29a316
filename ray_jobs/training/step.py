"""One optimisation step on the global batch of all ranks.

The loss is a function of the module's outputs. Its gradient with respect to this rank's outputs is taken first, and
then carried on to the weights by a second backward, of Σ output × gradient. In one pass the outputs keep their graph;
with gradient caching they are made without one, chunk by chunk, and each chunk is run again under the same random
state. Both give the gradient of the whole global batch (Gao et al. 2021, "Scaling deep contrastive learning batch size
under memory limited setup").
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from biomodels.recipes.contract import Batch, Global, Inputs, Outputs, Term
from biomodels.terminology.normalise import keyed_hash

Terms = Callable[[Outputs, Mapping[str, Tensor]], list[Term]]


@dataclass(frozen=True)
class StepKey:
    """What all random choices of a step are a function of, dropout among them: no random state is ever stored."""

    seed: int
    step: int

    def reseed(self, rank: int, chunk: int) -> None:
        """Set the random states of torch (all devices), numpy and Python."""
        key = keyed_hash(self.seed, "step", self.step, rank, chunk)
        torch.manual_seed(key)
        np.random.seed(key % (1 << 32))
        random.seed(key)


def accumulate_gradients(engine: Any, batch: Batch, terms: Terms, key: StepKey, chunk_texts: int | None) -> float:
    """Leave the gradient of the global batch's loss in the engine, ready for `engine.step()`.

    Args:
        engine: a DeepSpeed engine at ZeRO stage 1, 2 or 3.
        batch: this rank's share of the global batch, on the engine's device; it may be empty.
        terms: the recipe's loss terms.
        key: of the step.
        chunk_texts: texts of each set that are in memory with their graph at once; None is one pass.

    Returns:
        The loss, the same on every rank. If it is not finite, no backward has been run.
    """
    rank, world_size = dist.get_rank(), dist.get_world_size()
    sizes = {name: _rows(tokens) for name, tokens in batch.inputs.items()}
    chunks = _chunk_number(max(sizes.values()), chunk_texts, engine.device)

    def forward(chunk: int) -> Outputs:
        key.reseed(rank, chunk)
        return engine(_chunk(batch.inputs, chunk, chunk_texts))  # type: ignore[no-any-return]  # the engine is untyped

    with torch.set_grad_enabled(chunks == 1):
        pieces = [forward(chunk) for chunk in range(chunks)]
    leaves = _leaves(pieces, sizes)
    loss = _global_loss(terms(leaves, batch.groups))
    value = float(loss.detach())
    if not np.isfinite(value):
        return value
    gradients = _output_gradients(loss, leaves)
    with engine.coalesce_grad_reduction():
        for chunk in range(chunks):
            outputs = pieces[0] if chunks == 1 else forward(chunk)
            start = chunk * (chunk_texts or 0)
            # DeepSpeed averages over ranks, where each rank holds its own rows' share of one loss: so times ranks.
            engine.backward(world_size * _surrogate(outputs, gradients, start), scale_wrt_gas=False)
    return value


def gather_rows(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the rows of all ranks, in order of rank. This rank's own rows keep their graph.

    Args:
        tensors: with equally many rows; other ranks may have other numbers.
    """
    own = next(iter(tensors.values()))
    counts = [int(count) for count in _all_gather(torch.tensor([len(own)], device=own.device))]
    gathered = {}
    for name, local in tensors.items():
        padded = local.new_zeros(max(counts), *local.shape[1:])
        padded[: len(local)] = local.detach()
        pieces = [piece[:count] for piece, count in zip(_all_gather(padded), counts, strict=True)]
        pieces[dist.get_rank()] = local
        gathered[name] = torch.cat(pieces)
    return gathered


def _global_loss(terms: list[Term]) -> Tensor:
    total = torch.zeros(())
    for term in terms:
        if isinstance(term, Global):
            value = term.fn(gather_rows(term.tensors))
        else:
            sums = torch.stack([term.sum.detach().double(), term.sum.new_tensor(term.count, dtype=torch.float64)])
            dist.all_reduce(sums)
            count = sums[1].clamp(min=1e-300)
            # The value is the sum over ranks, the graph is this rank's part of it.
            value = (sums[0] / count).to(term.sum.dtype) + (term.sum - term.sum.detach()) / count.to(term.sum.dtype)
        total = total.to(value.device) + term.weight * value
    return total


def _output_gradients(loss: Tensor, leaves: Outputs) -> Outputs:
    flat = [tensor for named in leaves.values() for tensor in named.values()]
    found = iter(torch.autograd.grad(loss, flat, allow_unused=True) if loss.requires_grad else [None] * len(flat))
    return {
        set_name: {
            name: torch.zeros_like(leaf) if (grad := next(found)) is None else grad for name, leaf in named.items()
        }
        for set_name, named in leaves.items()
    }


def _surrogate(outputs: Outputs, gradients: Outputs, start: int) -> Tensor:
    """Return Σ output × gradient over the real rows of a chunk; stand-in rows take part with the factor 0."""
    total: Any = 0.0
    for set_name, named in outputs.items():
        for name, output in named.items():
            gradient = gradients[set_name][name][start : start + len(output)]
            factor = torch.zeros_like(output)
            factor[: len(gradient)] = gradient
            total = total + (output * factor).sum()
    return total  # type: ignore[no-any-return]  # a sum of tensors that starts from a number


def _leaves(pieces: list[Outputs], sizes: Mapping[str, int]) -> Outputs:
    """Join the chunks' outputs, cut off stand-in rows, and start a new graph from them."""
    return {
        set_name: {
            name: torch.cat([piece[set_name][name].detach() for piece in pieces])[: sizes[set_name]].requires_grad_()
            for name in named
        }
        for set_name, named in pieces[0].items()
    }


def _chunk(inputs: Inputs, chunk: int, chunk_texts: int | None) -> Inputs:
    """Return a chunk of every set. One that has no rows left gets a stand-in row: all ranks must run the module."""
    rows = slice(None) if chunk_texts is None else slice(chunk * chunk_texts, (chunk + 1) * chunk_texts)
    cut = {name: {key: tensor[rows] for key, tensor in tokens.items()} for name, tokens in inputs.items()}
    for tokens in cut.values():
        for key, tensor in tokens.items():
            if len(tensor) == 0:
                tokens[key] = tensor.new_ones(1, *tensor.shape[1:])
    return cut


def _chunk_number(rows: int, chunk_texts: int | None, device: torch.device) -> int:
    if chunk_texts is None:
        return 1
    number = torch.tensor([max(1, -(-rows // chunk_texts))], device=device)
    dist.all_reduce(number, op=dist.ReduceOp.MAX)
    return int(number)


def _rows(tokens: Mapping[str, Tensor]) -> int:
    return len(next(iter(tokens.values())))


def _all_gather(tensor: Tensor) -> list[Tensor]:
    pieces = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(pieces, tensor.contiguous())
    return pieces
