"""The FAISS library: loaded when first needed, since which wheel brings it is the installer's choice."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from biomodels.errors import ArtifactError, UsageError

BLAS_FROM = 20  # FAISS's own default: from so many queries on it multiplies matrices
NEVER = 1 << 30


def load_faiss() -> Any:
    """Return the module `faiss`.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        raise UsageError("faiss is not installed; pip install 'biomodels[cpu]' (or 'biomodels[gpu]')") from error
    return faiss


def for_search(faiss: Any, *, batch_invariant: bool = True) -> Any:
    """Make distances independent of how many queries are asked at once: a matrix product rounds by its shape."""
    faiss.cvar.distance_compute_blas_threshold = NEVER if batch_invariant else BLAS_FROM
    return faiss


def for_training(faiss: Any, threads: int = 1) -> Any:
    """Make training and adding fast again: they see the same batches on every run."""
    faiss.cvar.distance_compute_blas_threshold = BLAS_FROM
    faiss.omp_set_num_threads(threads)
    return faiss


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def read_index(path: str | Path, *, mapped: bool = True) -> Any:
    """Read a FAISS file.

    Args:
        path: local file.
        mapped: leave vectors and codes in the file, memory-mapped and read-only, instead of loading them.

    Raises:
        ArtifactError: FAISS cannot read it.
    """
    faiss = load_faiss()
    try:
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC if mapped else 0)
    except RuntimeError as error:
        raise ArtifactError(f"{path}: faiss cannot read it ({error}); make the index again") from error


def write_index(index: Any, path: str) -> None:
    """Write a FAISS file.

    FAISS's own writer does not notice a disk that fills up at the last buffer; a Python file does.

    Raises:
        OSError: it cannot be written.
    """
    faiss = load_faiss()
    with open(path, "wb") as sink:
        faiss.write_index(index, faiss.PyCallbackIOWriter(sink.write, 1 << 22))
