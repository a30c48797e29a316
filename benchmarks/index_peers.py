"""The peers of `benchmarks/index.py`, each run by the Python that has it: plain FAISS, and autofaiss.

    python benchmarks/index_peers.py faiss|autofaiss FOLDER CORES NPROBE MEMORY

Reads `vectors.npy` and `queries.npy` in FOLDER, writes `found.npy`, and prints one line of JSON.
"""

import json
import logging
import sys
import time
from pathlib import Path

import faiss
import numpy as np

K = 10
ALONE = 200


def by_hand(vectors, nprobe, memory, cores):
    """What one writes who knows FAISS: lists by the rule of thumb, a sample to train on, everything in memory."""
    del memory, cores
    lists = 1 << int(np.log2(8 * len(vectors) ** 0.5))
    codec = "SQ8" if len(vectors) >= 1_000_000 else "Flat"
    index = faiss.index_factory(vectors.shape[1], f"IVF{lists},{codec}", faiss.METRIC_INNER_PRODUCT)
    index.train(vectors[np.random.default_rng(0).permutation(len(vectors))[: max(65536, 64 * lists)]])
    index.add(vectors)
    index.nprobe = nprobe
    return index, f"IVF{lists},{codec}, nprobe {nprobe}"


def autofaiss(vectors, nprobe, memory, cores):
    """Let autofaiss choose within the memory that ours takes."""
    from autofaiss import build_index

    del nprobe
    index, facts = build_index(
        vectors, save_on_disk=False, metric_type="ip", max_index_memory_usage=memory, current_memory_available="12G",
        nb_cores=cores, verbose=logging.ERROR,
    )  # fmt: skip
    return index, f"{facts['index_key']}, {facts['index_param']}"


def seconds(work):
    """Return how long a call takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main():
    """Build, search, report."""
    way, folder, cores, nprobe, memory = sys.argv[1:]
    folder = Path(folder)
    faiss.omp_set_num_threads(int(cores))
    vectors, queries = np.load(folder / "vectors.npy"), np.load(folder / "queries.npy")
    started = time.perf_counter()
    index, name = {"faiss": by_hand, "autofaiss": autofaiss}[way](vectors, int(nprobe), memory, int(cores))
    built = time.perf_counter() - started
    faiss.write_index(index, str(folder / "peer.faiss"))
    np.save(folder / "found.npy", index.search(queries, K)[1])
    batch = min(seconds(lambda: index.search(queries, K)) for _ in range(3))
    single = seconds(lambda: [index.search(query[np.newaxis], K) for query in queries[:ALONE]])
    answer = {
        "name": name,
        "seconds": built,
        "bytes": (folder / "peer.faiss").stat().st_size,
        "batch": len(queries) / batch,
        "single": ALONE / single,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
