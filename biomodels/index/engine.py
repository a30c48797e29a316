"""The FAISS library: loaded when first needed, since which wheel brings it is the installer's choice."""

from __future__ import annotations

from typing import Any

from biomodels.errors import UsageError

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


def for_search(faiss: Any) -> Any:
    """Make distances independent of how many queries are asked at once: a matrix product rounds by its shape."""
    faiss.cvar.distance_compute_blas_threshold = NEVER
    return faiss


def for_training(faiss: Any, threads: int = 1) -> Any:
    """Make training and adding fast again (they see the same batches on every run), on a fixed number of threads."""
    faiss.cvar.distance_compute_blas_threshold = BLAS_FROM
    faiss.omp_set_num_threads(threads)
    return faiss
