"""Which FAISS index: the default by size, and the check of a factory string before any work is done."""

from __future__ import annotations

import math
import re
from typing import Any

from biomodels.errors import UsageError
from biomodels.index.engine import load_faiss

EXAMPLES = "Flat; IVF512,Flat; IVF4096,SQ8; IVF4096,RaBitQ; OPQ48,IVF4096,PQ48; IVF65536_HNSW32,SQ8"
IVF_FROM = 10_000
SQ8_FROM = 1_000_000
HNSW_FROM = 65_536  # lists from which on a graph finds the nearest ones faster than comparing with all
POINTS_PER_LIST = 64


def default_factory(strings: int) -> str:
    """Choose a factory string for a number of vectors.

    - Below 10,000: `Flat`, exact; a query takes under a millisecond.
    - From there on IVF with 8·√N lists, rounded down to a power of two, so a list holds √N/8 to √N/4 vectors. On names
      of ontologies, visiting the same share of the vectors through more lists finds more of the neighbours.
    - From 1,000,000 on `SQ8`, a byte per dimension in place of four, which costs under 0.2 points of recall@10.
    - From 65,536 lists on, an HNSW graph over the centroids.
    """
    if strings < IVF_FROM:
        return "Flat"
    lists = 1 << int(math.log2(8 * math.sqrt(strings)))
    return f"IVF{lists}{'_HNSW32' if lists >= HNSW_FROM else ''},{'SQ8' if strings >= SQ8_FROM else 'Flat'}"


def new_index(factory: str, dimension: int) -> Any:
    """Make an empty, untrained index for inner products.

    Raises:
        UsageError: FAISS does not know the string, a number in it is 0, or the index cannot hold ids in shards with
            one quantizer.
    """
    faiss = load_faiss()
    zero = re.search(r"[A-Za-z]*_?(?<!\d)0+(?!\d)", factory)
    if zero:  # FAISS takes IVF0 or OPQ0, and fails when it is trained
        raise UsageError(
            f"--factory {factory}: {zero.group()}: numbers must be at least 1, such as that of the lists; "
            f"examples: {EXAMPLES}"
        )
    try:
        index = faiss.index_factory(dimension, factory, faiss.METRIC_INNER_PRODUCT)
    except RuntimeError as error:
        reason = str(error).rsplit(": ", maxsplit=1)[-1].strip()
        raise UsageError(
            f"--factory {factory}: faiss makes no index of {dimension} dimensions from it ({reason}); "
            f"examples: {EXAMPLES}"
        ) from error
    if isinstance(index, (faiss.IndexFlat, faiss.IndexScalarQuantizer)):
        with_ids = faiss.IndexIDMap(index)
        with_ids.referenced_objects = [index]
        return with_ids
    ivf = ivf_of(index)
    if isinstance(ivf, faiss.IndexIVFRaBitQ) and ivf.rabitq.nb_bits > 1:
        raise UsageError(
            f"--factory {factory}: RaBitQ of several bits passes over vectors by an estimate that depends on those "
            "seen before, so that shards would not answer as one index; take RaBitQ of one bit, SQ4 or SQ6"
        )
    if isinstance(ivf, (faiss.IndexIVFFastScan, faiss.IndexIVFRaBitQFastScan)):
        raise UsageError(
            f"--factory {factory}: the codes of fast-scan indexes cannot be taken from one shard to another; "
            f"examples: {EXAMPLES}"
        )
    if ivf is None or not isinstance(index, (faiss.IndexIVF, faiss.IndexPreTransform)):
        raise UsageError(
            f"--factory {factory}: {type(index).__name__} cannot be cut into shards that answer as one index; "
            f"examples: {EXAMPLES}"
        )
    return index


def codes_of(index: Any) -> Any:
    """Return the part of an index that holds its codes: the IVF, or what an id map wraps."""
    faiss = load_faiss()
    ivf = ivf_of(index)
    return faiss.downcast_index(index.index) if ivf is None else ivf


def ivf_of(index: Any) -> Any | None:
    """Return the inverted lists behind an index's transform, by their own class; None for an index without lists."""
    faiss = load_faiss()
    ivf = faiss.try_extract_index_ivf(index)
    return None if ivf is None else faiss.downcast_index(ivf)


def chain_of(index: Any) -> list[Any]:
    """Return the rotations and reductions that come before an index's lists; they live as long as the index."""
    faiss = load_faiss()
    index = faiss.downcast_index(index)
    if not isinstance(index, faiss.IndexPreTransform):
        return []
    return [index.chain.at(i) for i in range(index.chain.size())]


def lists_of(index: Any) -> int:
    """Return the number of inverted lists, 1 for an index that has none."""
    ivf = ivf_of(index)
    return 1 if ivf is None else int(ivf.nlist)


def check_size(index: Any, factory: str, strings: int) -> None:
    """Refuse more lists than vectors.

    Raises:
        UsageError: naming a factory that fits.
    """
    if lists_of(index) > strings:
        raise UsageError(
            f"--factory {factory}: {lists_of(index)} lists cannot be trained on {strings} vectors; "
            f"for so many take {default_factory(strings)}"
        )
