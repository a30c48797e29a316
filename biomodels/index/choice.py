"""Choose a factory by size and memory, and say beforehand what it will cost.

Bytes follow from FAISS's own code sizes; times from operation counts and the speed of this machine, which a
multiplication of a fifth of a second measures; recalls are round figures by codec, not measured on the vectors at hand
(the job measures its own, see `recall`).
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

import numpy as np

from biomodels.errors import UsageError
from biomodels.index.engine import cores, for_training, load_faiss
from biomodels.index.factory import (
    HNSW_FROM,
    POINTS_PER_LIST,
    SQ8_FROM,
    codes_of,
    default_factory,
    lists_of,
    new_index,
)

CODECS = {"Flat": 1.0, "SQ8": 0.998, "SQ6": 0.99, "SQ4": 0.97, "RaBitQ": 0.9}
"""Codec → recall@10 to expect when all lists are visited, most exact first: a rule of thumb for `--plan`."""

ID_BYTES = 8
KMEANS_ROUNDS = 10
LEAST_SAMPLE = 1 << 16
GRAPH_COMPARISONS = 2048  # centroids that a graph compares a vector with, about
SECONDS_PER_NAME = 20e-6
SECONDS_PER_BYTE = 1 / 300e6  # writing a file and hashing it


@dataclass(frozen=True)
class Sizes:
    """What is indexed.

    Attributes:
        strings, dimension: number of vectors and of their columns.
        names: number of (concept, name) rows.
        name_bytes: bytes of those rows on disk, uncompressed, about.
    """

    strings: int
    dimension: int
    names: int
    name_bytes: int


@dataclass(frozen=True)
class Estimate:
    """What a factory costs.

    Attributes:
        factory: FAISS factory string.
        vector_bytes: of a vector's code and id.
        memory: bytes that a search touches sooner or later: codes, ids, centroids.
        disk: bytes of the finished index.
        recall: recall@10 to expect of the codec, or None where there is no rule of thumb.
        seconds: of each stage of the job.
    """

    factory: str
    vector_bytes: int
    memory: int
    disk: int
    recall: float | None
    seconds: dict[str, float]


def choose(sizes: Sizes, budget: int | None) -> str:
    """Return the most exact factory that fits.

    Without a budget it is `default_factory`. With one, the codecs are tried from float32 down to a bit a dimension.

    Raises:
        UsageError: nothing fits into the budget.
    """
    default = default_factory(sizes.strings)
    if budget is None:
        return default
    for factory in candidates(sizes):
        if memory_of(factory, sizes) <= budget:
            return factory
    least = memory_of(candidates(sizes)[-1], sizes)
    raise UsageError(
        f"--memory-budget {budget:,} bytes: {sizes.strings:,} vectors of {sizes.dimension} dimensions need at least "
        f"{least:,} ({candidates(sizes)[-1]}); give more, or name a coarser --factory such as one with PQ"
    )


def candidates(sizes: Sizes) -> list[str]:
    """Return the factories that `choose` considers, most exact first."""
    default = default_factory(sizes.strings)
    if "," not in default:
        return [default]
    lists = default.split(",", maxsplit=1)[0]
    return [f"{lists},{codec}" for codec in CODECS]


def memory_of(factory: str, sizes: Sizes) -> int:
    """Return the bytes of codes, ids and centroids."""
    index = new_index(factory, sizes.dimension)
    lists = lists_of(index)
    return sizes.strings * vector_bytes(factory, sizes.dimension) + (lists * sizes.dimension * 4 if lists > 1 else 0)


def vector_bytes(factory: str, dimension: int) -> int:
    """Return the bytes of one vector's code and id."""
    return int(codes_of(new_index(factory, dimension)).code_size) + ID_BYTES


def estimate(
    factory: str, sizes: Sizes, *, queries: int, train_sample: int | None, flops: float, workers: int
) -> Estimate:
    """Say what a factory costs.

    Args:
        factory: FAISS factory string.
        sizes: what is indexed.
        queries: by which recall is measured.
        train_sample: vectors to train on; by default as the job chooses.
        flops: of one core, per second; see `measured_flops`.
        workers: cores that fill shards.
    """
    index = new_index(factory, sizes.dimension)
    lists = lists_of(index)
    memory = memory_of(factory, sizes)
    disk = memory + sizes.name_bytes
    sample = 0 if index.is_trained else min(sizes.strings, train_sample or max(LEAST_SAMPLE, POINTS_PER_LIST * lists))
    compared = 0 if lists == 1 else min(lists, GRAPH_COMPARISONS) if "HNSW" in factory else lists
    codec = re.sub(r"^.*,", "", factory)
    return Estimate(
        factory=factory,
        vector_bytes=vector_bytes(factory, sizes.dimension),
        memory=memory,
        disk=disk,
        recall=CODECS.get(codec) if not factory.startswith(("OPQ", "PCA")) else None,
        seconds={
            "training": 2.0 * KMEANS_ROUNDS * sample * lists * sizes.dimension / (flops * cores()),
            "vectors": 2.0 * sizes.strings * compared * sizes.dimension / (flops * workers) + memory * SECONDS_PER_BYTE,
            "names": (sizes.names * SECONDS_PER_NAME) / workers + sizes.name_bytes * SECONDS_PER_BYTE,
            "recall": 2.0 * queries * sizes.strings * sizes.dimension / (flops * workers),
        },
    )


def reason(factory: str, sizes: Sizes, budget: int | None) -> str:
    """Say why `choose` took a factory."""
    if budget is not None:
        return f"the most exact one whose {memory_of(factory, sizes):,} bytes fit into {budget:,}"
    if "," not in factory:
        return "so few vectors are compared one by one, which is exact"
    codec = "a byte per dimension" if sizes.strings >= SQ8_FROM else "vectors as they are"
    graph = f", found by a graph from {HNSW_FROM:,} lists on" if "HNSW" in factory else ""
    return f"8·√N lists, rounded down to a power of two{graph}; {codec} ({SQ8_FROM:,} vectors decide)"


def measured_flops(dimension: int) -> float:
    """Measure how fast one core of this machine compares vectors, in floating point operations per second."""
    faiss = for_training(load_faiss())
    X_ND = np.random.default_rng(0).normal(size=(2048, dimension)).astype(np.float32)
    index = faiss.IndexFlatIP(dimension)
    index.add(X_ND)
    index.search(X_ND[:64], 1)
    best = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        index.search(X_ND, 1)
        best = min(best, time.perf_counter() - started)
    return 2.0 * len(X_ND) ** 2 * dimension / best
