"""Encode texts fast, with vectors that do not depend on which texts were encoded beside them.

A batch holds texts of one token count. So nothing is padded (names of an ontology waste 65 to 85 percent of the work
on padding otherwise), and in float32 on a CPU a text's vector is the same to the bit alone or among others.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from biomodels.models.encoder import Encoder, load_backbone, load_tokenizer
from biomodels.models.spec import Pooling, model_digest, read_spec, resolve_model

Precision = Literal["float32", "bf16", "fp16"]
CPU_TOKENS = 2048
GPU_TOKENS = 32768
MIN_BATCH_TOKENS = 8  # below this, matrix kernels round differently; a lone short text is repeated to reach it
_DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class TextEncoder:
    """A loaded model that encodes lists of texts.

    Args:
        model: directory or Hub name; see `resolve_model`.
        precision: of weights and activations. Pooling is always float32.
        device: "cpu", "cuda", "cuda:1", …; by default cuda where there is one.
        threads: batches in flight on a CPU, each on one core; by default all cores of this process.
        token_budget: tokens in a batch, at most (a single longer text is still one batch); by default `CPU_TOKENS`,
            which fit a core's cache, or `GPU_TOKENS`.
        pooling, max_length, normalise: override what the model directory records.
    """

    def __init__(
        self,
        model: str,
        *,
        precision: Precision = "float32",
        device: str | None = None,
        threads: int | None = None,
        token_budget: int | None = None,
        pooling: Pooling | None = None,
        max_length: int | None = None,
        normalise: bool | None = None,
    ) -> None:
        self.directory = directory = resolve_model(model)
        self.spec = read_spec(directory, pooling=pooling, max_length=max_length, normalise=normalise)
        self.precision = precision
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.threads = (threads or len(os.sched_getaffinity(0))) if self.device.type == "cpu" else 1
        self.token_budget = token_budget or (CPU_TOKENS if self.device.type == "cpu" else GPU_TOKENS)
        if self.device.type == "cpu":
            torch.set_num_threads(1)
        self._most_texts = self.token_budget
        self._tokenizer = load_tokenizer(directory)
        backbone = load_backbone(directory, self.spec.pooling, dtype=_DTYPES[precision])
        self._encoder = Encoder(backbone, self.spec).eval().to(self.device)
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="encode")

    @cached_property
    def digest(self) -> str:
        """Identity of the model; reads all its weights once."""
        return model_digest(self.directory, self.spec)

    def limited(self, max_length: int, batch_texts: int) -> TextEncoder:
        """Return an encoder on the same weights that cuts texts elsewhere and takes at most `batch_texts` at once."""
        if (max_length, batch_texts) == (self.spec.max_length, self._most_texts):
            return self
        other = copy.copy(self)
        other.spec = self.spec.model_copy(update={"max_length": max_length})
        other._most_texts = batch_texts
        if max_length != self.spec.max_length:
            vars(other).pop("digest", None)
        return other

    @property
    def dimension(self) -> int:
        """Columns of each vector."""
        return self._encoder.dimension

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts, in their order.

        Args:
            texts: already normalised as the model expects; the spec's prefix is added here.

        Returns:
            E_ND, float32.
        """
        E_ND = np.empty((len(texts), self.dimension), dtype=np.float32)
        if not texts:
            return E_ND
        token_ids = self._tokenize(texts)
        batches = list(self._batches(token_ids))
        for rows, E_BD in zip(
            batches, self._pool.map(lambda rows: self._forward(rows, token_ids), batches), strict=True
        ):
            E_ND[rows] = E_BD
        return E_ND

    def _tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        pad = self.spec.pooling == "mean_all_tok"
        encoded = self._tokenizer(
            [self.spec.prefix + text for text in texts],
            truncation=True,
            max_length=self.spec.max_length,
            padding="max_length" if pad else False,
            return_attention_mask=False,
            return_token_type_ids=False,
        )
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    def _batches(self, token_ids: list[list[int]]) -> Iterator[NDArray[np.int64]]:
        """Cut the rows into batches of one token count each."""
        lengths = np.fromiter((len(ids) for ids in token_ids), dtype=np.int64, count=len(token_ids))
        order = np.argsort(lengths, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
            size = max(1, min(self._most_texts, self.token_budget // int(lengths[rows[0]])))
            for start in range(0, len(rows), size):
                yield rows[start : start + size]

    @torch.inference_mode()
    def _forward(self, rows: NDArray[np.int64], token_ids: list[list[int]]) -> NDArray[np.float32]:
        ids_BL = torch.tensor([token_ids[row] for row in rows], device=self.device)
        repeats = -(-MIN_BATCH_TOKENS // ids_BL.numel())
        ids_BL = ids_BL.repeat(repeats, 1)
        if self.spec.pooling == "mean_all_tok":
            mask_BL = (ids_BL != self._tokenizer.pad_token_id).long()
        else:
            mask_BL = torch.ones_like(ids_BL)
        E_BD = self._encoder(ids_BL, mask_BL)[: len(rows)]
        vectors: NDArray[np.float32] = E_BD.float().cpu().numpy()
        return vectors
