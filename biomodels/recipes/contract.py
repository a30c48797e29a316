"""What a recipe gives to the training loop, and what the loop promises to do with it.

The loop (in `ray_jobs/training`) runs, at every step and on every rank::

    batch = recipe.collate(rows of this rank, key)       # named sets of texts, and index groups
    outputs = module(batch.inputs)                       # ONE call of the wrapped module, so that ZeRO-3 works
    terms = recipe.terms(outputs, batch.groups)          # Global and Local loss terms
    loss = Σ weight × value                              # the same number on every rank, at every world size

Every output is row-aligned with the texts of its set. That makes gradient caching one mechanism for every kind of
term: the loss is a function of the outputs, so its gradient with respect to them is taken once, and the module is run
again chunk by chunk to carry it on to the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeAlias

import pyarrow as pa
import torch
from torch import Tensor, nn

Tokens: TypeAlias = dict[str, Tensor]
"""One set of texts as the module reads them: `input_ids`, `attention_mask` and what else belongs to a text (token
types, entity masks, MLM labels). Every tensor has one row per text, and holds integers."""

Inputs: TypeAlias = dict[str, Tokens]
"""Named sets of texts, such as `names`, or `sentences` and their `masked` copies."""

Outputs: TypeAlias = dict[str, dict[str, Tensor]]
"""Per set, named floating tensors with one row per text of that set."""


@dataclass
class Batch:
    """What one rank contributes to one step.

    Attributes:
        inputs: the texts. A text that several rows share appears once, unless the recipe wants it otherwise.
        groups: which texts play which part: index tensors into the sets, and labels that go with them.
    """

    inputs: Inputs
    groups: dict[str, Tensor] = field(default_factory=dict)

    def to(self, device: torch.device) -> Batch:
        """Return a copy on a device."""
        inputs = {
            name: {key: tensor.to(device) for key, tensor in tokens.items()} for name, tokens in self.inputs.items()
        }
        return Batch(inputs, {key: tensor.to(device) for key, tensor in self.groups.items()})


@dataclass
class Global:
    """A term that needs the rows of all ranks, such as a loss with in-batch negatives.

    Attributes:
        tensors: this rank's rows; the tensors of one term have equally many. Ranks may have different numbers.
        fn: takes the same names with the rows of all ranks, in order of rank, and returns a scalar.
        weight: factor in the sum of terms.
    """

    tensors: dict[str, Tensor]
    fn: Callable[[Mapping[str, Tensor]], Tensor]
    weight: float = 1.0


@dataclass
class Local:
    """A term that is a mean over things that each lie on one rank.

    Its value is the sum over all ranks of `sum`, divided by the sum over all ranks of `count` (0 if that is 0).

    Attributes:
        sum: scalar.
        count: how many things were summed: rows, triples, lists, masked tokens.
        weight: factor in the sum of terms.
    """

    sum: Tensor
    count: float
    weight: float = 1.0


Term: TypeAlias = Global | Local


class Recipe(Protocol):
    """One training system. Implementations are small frozen dataclasses; they are pickled to the workers.

    Attributes:
        name: as on the command line.
        columns: what the reader reads of each row.
        uncut: a column whose runs of equal values a batch or a rank never cuts (a list that is ranked together), or
            None. Such runs lie within one part of the dataset.
    """

    name: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    uncut: ClassVar[str | None]

    def load(self, model: str) -> nn.Module:
        """Return the module in float32. Its forward takes `Inputs` and returns `Outputs`; parameters that no term
        depends on have `requires_grad=False`."""

    def tokenizer(self, model: str) -> Any:
        """Return what `collate` needs to turn texts into tokens."""

    def collate(self, rows: pa.Table, tokenizer: Any, key: int) -> Batch:
        """Turn this rank's rows (perhaps none) into a batch.

        Args:
            rows: a slice of the step's global batch.
            tokenizer: from `tokenizer`.
            key: differs at every step and is the same on all ranks: the seed of any random choice, to be combined
                with what identifies a row, so that the choice does not depend on the rank.
        """

    def terms(self, outputs: Outputs, groups: Mapping[str, Tensor]) -> list[Term]:
        """Return the loss terms, always the same number in the same order, also for a rank without rows."""

    def save(self, model: str, weights: Mapping[str, Tensor], directory: str) -> None:
        """Write the trained model in the Hugging Face layout.

        Args:
            model: what training started from.
            weights: every trained parameter of the module by name, float32.
            directory: local and empty.
        """
