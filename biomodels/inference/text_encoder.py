"""Encode texts fast, with vectors that do not depend on which texts were encoded beside them.

A batch holds texts of one token count. So nothing is padded (names of an ontology waste 65 to 85 percent of the work
on padding otherwise), and on a CPU a text's vector is the same to the bit alone or among others: a batch of fewer
tokens than this processor's kernels need for that is filled up (see `batch_rows`).
"""

from __future__ import annotations

import copy
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from biomodels.errors import InputError
from biomodels.inference.batch_rows import least_rows
from biomodels.inference.int8 import quantise
from biomodels.models.encoder import Encoder, load_backbone, load_tokenizer
from biomodels.models.spec import Pooling, Precision, model_digest, read_spec, resolve_model

CPU_TOKENS = 2048
GPU_TOKENS = 32768
WINDOW, WINDOW_CHARACTERS = 1 << 15, 1 << 22
"""Texts, and characters, that are sorted by length together, about: few texts make small batches, and long ones many
token ids. While the model has one window, the next is tokenised."""

_DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "int8": torch.float32}
_Ints = NDArray[np.int64]


class TextEncoder:
    """A loaded model that encodes lists of texts.

    Args:
        model: directory or Hub name; see `resolve_model`.
        precision: of weights and activations; pooling is always float32. Against float32, vectors of MiniLM have a
            cosine of at least 0.9998 in bf16 (fast with AVX-512 BF16, AMX, or a GPU; see `has_fast_bf16`), and in int8
            of 0.997 on average, 0.98 at least (linear layers only; for CPUs that have VNNI but no bf16). fp16 is for
            GPUs.
        compiled: let `torch.compile` fuse the layers: needs a C++ compiler and a minute at the first batches, and
            changes float32 vectors by rounding only.
        device: "cpu", "cuda", "cuda:1", …; by default cuda where there is one.
        threads: batches in flight on a CPU, each on one core; by default all cores of this process.
        token_budget: tokens in a batch, at most (a single longer text is still one batch); by default `CPU_TOKENS`,
            which fit a core's cache, or `GPU_TOKENS`.
        pooling, max_length, normalise: override what the model directory records.

    Raises:
        InputError: the model cannot be used, or the device has no such precision.
    """

    def __init__(
        self,
        model: str,
        *,
        precision: Precision = "float32",
        compiled: bool = False,
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
        on_cpu = self.device.type == "cpu"
        if on_cpu and precision == "fp16":
            raise InputError("precision: fp16 needs a GPU; use bf16 or float32 on a CPU")
        if not on_cpu and precision == "int8":
            raise InputError("precision: int8 is for CPUs; use fp16 or bf16 on a GPU")
        self.threads = (threads or len(os.sched_getaffinity(0))) if on_cpu else _GPU_THREADS
        self.token_budget = token_budget or (CPU_TOKENS if on_cpu else GPU_TOKENS)
        if on_cpu:
            torch.set_num_threads(1)
            for cache in _KERNEL_CACHES:
                os.environ.setdefault(cache, "64")
        self._most_texts = self.token_budget
        self._tokenizer = load_tokenizer(directory)
        backbone = load_backbone(directory, self.spec.pooling, dtype=_DTYPES[precision])
        if precision == "int8":
            quantise(backbone)
        self._encoder = Encoder(backbone, self.spec).eval().to(self.device)
        self._least_tokens = least_rows(backbone, max(CPU_TOKENS, self.token_budget)) if on_cpu else 1
        if compiled:
            self._encoder.compile(dynamic=True)
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
        """Encode texts, in their order; equal ones are encoded once.

        Args:
            texts: already normalised as the model expects; the spec's prefix is added here.

        Returns:
            E_ND, float32.
        """
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        distinct = list(numbers)
        E_ND = np.empty((len(distinct), self.dimension), dtype=np.float32)
        windows: deque[list[tuple[_Ints, Future[NDArray[np.float32]]]]] = deque()

        def collect(most_waiting: int) -> None:
            while len(windows) > most_waiting:
                for rows, vectors in windows.popleft():
                    E_ND[rows] = vectors.result()

        for first, token_ids in self._tokenised(distinct):
            batches = list(self._batches(token_ids))
            windows.append(
                [(first + rows, self._pool.submit(self._forward, [token_ids[i] for i in rows])) for rows in batches]
            )
            collect(most_waiting=1)
        collect(most_waiting=0)
        if len(distinct) == len(texts):
            return E_ND
        return E_ND[[numbers[text] for text in texts]]

    def _tokenised(self, texts: list[str]) -> Iterator[tuple[int, list[list[int]]]]:
        """Yield windows of texts as token ids, each with the number of its first text, one window ahead.

        Windows are of one size: a small one at the end would have few texts of each length, and so small batches.
        """
        windows = max(1, round(len(texts) / WINDOW), round(sum(map(len, texts)) / WINDOW_CHARACTERS))
        bounds = np.unique(np.linspace(0, len(texts), windows + 1, dtype=int)).tolist()
        with ThreadPoolExecutor(1, thread_name_prefix="tokenise") as ahead:
            waiting: deque[tuple[int, Future[list[list[int]]]]] = deque()
            for first, end in pairwise(bounds):
                waiting.append((first, ahead.submit(self._tokenize, texts[first:end])))
                if len(waiting) > 1:
                    number, token_ids = waiting.popleft()
                    yield number, token_ids.result()
            while waiting:
                number, token_ids = waiting.popleft()
                yield number, token_ids.result()

    def _tokenize(self, texts: list[str]) -> list[list[int]]:
        encoded = self._tokenizer(
            [self.spec.prefix + text for text in texts],
            truncation=True,
            max_length=self.spec.max_length,
            padding="max_length" if self.spec.pooling == "mean_all_tok" else False,
            return_attention_mask=False,
            return_token_type_ids=False,
        )
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    def _batches(self, token_ids: list[list[int]]) -> Iterator[_Ints]:
        """Cut the rows into batches of one token count each, the longest first, so that none of them ends late."""
        lengths = np.fromiter((len(ids) for ids in token_ids), dtype=np.int64, count=len(token_ids))
        order = np.argsort(-lengths, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
            size = max(1, min(self._most_texts, self.token_budget // int(lengths[rows[0]])))
            for start in range(0, len(rows), size):
                yield rows[start : start + size]

    @torch.inference_mode()
    def _forward(self, token_ids: list[list[int]]) -> NDArray[np.float32]:
        """Encode texts of one token count."""
        ids_BL = torch.tensor(token_ids)
        ids_BL = ids_BL.repeat(-(-self._least_tokens // ids_BL.numel()), 1)
        if self.device.type == "cuda":
            ids_BL = ids_BL.pin_memory().to(self.device, non_blocking=True)
        if self.spec.pooling == "mean_all_tok":
            mask_BL = (ids_BL != self._tokenizer.pad_token_id).long()
        else:
            mask_BL = torch.ones_like(ids_BL)
        E_BD = self._encoder(ids_BL, mask_BL)[: len(token_ids)]
        vectors: NDArray[np.float32] = E_BD.float().cpu().numpy()
        return vectors


def has_fast_bf16(device: str) -> bool:
    """Whether bf16 is faster than float32 there: a GPU, or a CPU with AVX-512 BF16 or AMX."""
    if device != "cpu":
        return bool(torch.cuda.is_bf16_supported())
    abilities = torch.cpu.get_capabilities()
    return bool(abilities.get("avx512_bf16") or abilities.get("amx_bf16"))


_KERNEL_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
"""oneDNN keeps a kernel for every shape of a batch; without a limit an encoder of millions of texts takes gigabytes."""

_GPU_THREADS = 2  # while one batch is computed, the next is on its way
