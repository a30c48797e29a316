"""Train the empty index: the coarse quantizer by k-means, on GPUs where FAISS has them, then the codec."""

from __future__ import annotations

from typing import Any

import numpy as np

from biomodels.index.engine import cores, for_training, load_faiss
from biomodels.index.factory import chain_of, new_index
from biomodels.index.shards import Scores

FEW = 50_000  # vectors below which threads cost more than they bring


def train_index(factory: str, E_ND: Scores, *, seed: int) -> Any:
    """Return a trained index without vectors.

    k-means runs on all cores, which changes no bit of its result, or on all GPUs. A graph over the centroids is then
    made by one thread, since it depends on the order in which they are put in.

    Args:
        factory: FAISS factory string.
        E_ND: vectors to train on.
        seed: of k-means.

    Raises:
        RuntimeError: FAISS cannot train on so few vectors.
    """
    index = new_index(factory, E_ND.shape[1])
    threads = cores() if len(E_ND) >= FEW else 1
    faiss = for_training(load_faiss(), threads)
    try:
        X_ND = _transformed(index, E_ND)
        ivf = faiss.try_extract_index_ivf(index)
        if ivf is not None:
            C_LD = _centroids(faiss, ivf, X_ND, seed)
            faiss.omp_set_num_threads(1)
            ivf.quantizer.train(C_LD)
            ivf.quantizer.add(C_LD)
            faiss.omp_set_num_threads(threads)
        if not index.is_trained:
            index.train(E_ND)  # what is trained already is left as it is
    finally:
        faiss.omp_set_num_threads(1)
    return index


def _transformed(index: Any, E_ND: Scores) -> Scores:
    """Train a rotation or reduction that comes before the lists, and return the vectors after it."""
    X_ND = E_ND
    for transform in chain_of(index):
        if not transform.is_trained:
            transform.train(X_ND)
        X_ND = transform.apply(X_ND)
    return X_ND


def _centroids(faiss: Any, ivf: Any, X_ND: Scores, seed: int) -> Scores:
    """Return the centroids C_LD of spherical k-means, L lists."""
    parameters = ivf.cp
    parameters.seed = seed
    parameters.min_points_per_centroid = 1
    parameters.max_points_per_centroid = len(X_ND)
    nearest = faiss.IndexFlatIP(X_ND.shape[1])
    if gpus():
        nearest = faiss.index_cpu_to_all_gpus(nearest)
    clustering = faiss.Clustering(X_ND.shape[1], ivf.nlist, parameters)
    clustering.train(np.ascontiguousarray(X_ND), nearest)
    return np.asarray(faiss.vector_to_array(clustering.centroids).reshape(ivf.nlist, -1))


def gpus() -> int:
    """Return how many GPUs FAISS can use: none with the CPU build."""
    faiss = load_faiss()
    return int(faiss.get_num_gpus()) if hasattr(faiss, "StandardGpuResources") else 0
