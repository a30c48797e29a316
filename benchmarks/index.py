"""Index side by side: the job `index`, FAISS by hand, and autofaiss, on the same vectors.

For each number of vectors: seconds to build, bytes per vector, recall@10 against exact search, and queries per second
(1,000 queries at once, and one by one). Each contender runs in a process of its own with all cores; autofaiss gets a
virtual environment, which is made beside the results. Then the job again with 1, 2, 4 and 8 shards.

    python benchmarks/index.py --work /tmp/index-benchmark --sizes 100000,1000000 --out index.json

Vectors are those of an `embeddings` artifact (`--embeddings`), or made: centres with names around them, seeded.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

import numpy as np

K = 10
QUERIES = 1000
REPEATS = 3
SEED = 5

PEERS = Path(__file__).with_name("index_peers.py")


def make_vectors(count: int, dimension: int, embeddings: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Return unit vectors and held-out queries."""
    rng = np.random.default_rng(SEED)
    if embeddings is None:
        centres = rng.normal(size=(max(50, count // 40), dimension)).astype(np.float32)
        made = np.empty((count + QUERIES, dimension), dtype=np.float32)
        for start in range(0, len(made), 65536):
            piece = made[start : start + 65536]
            piece[:] = centres[rng.integers(0, len(centres), len(piece))] + 0.7 * rng.normal(size=piece.shape)
    else:
        from biomodels.artifacts import Artifact
        from biomodels.inference.parts import vectors

        artifact = Artifact.open(embeddings, "embeddings")
        pieces, held = [], 0
        for entry in artifact.files("embeddings/"):
            pieces.append(vectors(artifact.read_table(entry)["embedding"], artifact.facts["dimension"]))
            held += len(pieces[-1])
            if held >= count + QUERIES:  # parts are ranges of hashes: the first ones are a sample of all
                break
        made = np.concatenate(pieces)[: count + QUERIES]
        made = made[rng.permutation(len(made))]
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return made[QUERIES:], made[:QUERIES]


def exact(vectors: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Return the score of each query's tenth neighbour."""
    best = np.full((len(queries), 0), 0, dtype=np.float32)
    for start in range(0, len(vectors), 65536):
        best = np.concatenate([best, queries @ vectors[start : start + 65536].T], axis=1)
        best = -np.partition(-best, K - 1, axis=1)[:, :K]
    return best.min(axis=1)


def recall(found: np.ndarray, vectors: np.ndarray, queries: np.ndarray, tenth: np.ndarray) -> float:
    """Return the share of results whose exact score reaches the tenth neighbour's."""
    scores = np.einsum("qd,qkd->qk", queries, vectors[np.maximum(found, 0)])
    return float(((scores >= tenth[:, np.newaxis] - 1e-6) & (found >= 0)).mean())


def write_artifact(folder: Path, vectors: np.ndarray) -> np.ndarray:
    """Write an `embeddings` artifact of vectors with made-up names; return the name_ids in the vectors' order."""
    import pyarrow as pa

    from biomodels import schemas, shuffle
    from biomodels.artifacts import ArtifactBuilder
    from biomodels.inference import parts
    from biomodels.terminology.hashing import hash_strings

    names = [f"name {i}" for i in range(len(vectors))]
    ids = hash_strings(names)
    order = np.argsort(ids)
    bits = shuffle.part_bits(len(ids), 8192, parts.MOST_BITS)
    dimension = vectors.shape[1]
    builder = ArtifactBuilder.begin(str(folder / "embeddings"), parts.KIND, config={}, inputs={})
    for part in range(1 << bits):
        chosen = order[(ids[order] >> (63 - bits)) == part]
        rows = {
            "concept_id": [f"C{i // 3}" for i in chosen.tolist()],
            "name_id": ids[chosen],
            "name": [names[i] for i in chosen.tolist()],
            "language": ["en"] * len(chosen),
            "source": ["TEST"] * len(chosen),
            "term_type": ["SY"] * len(chosen),
            "preferred": (chosen % 3 == 0).tolist(),
            "semantic_types": [["T047"]] * len(chosen),
        }
        builder.publish_table(parts.names_part(part), pa.table(rows, schema=schemas.NAMES))
        schema = schemas.embeddings_schema(dimension, "float32")
        column = parts.fixed_size_list(vectors[chosen])
        builder.publish_table(parts.embeddings_part(part), pa.table([pa.array(ids[chosen]), column], schema=schema))
    counts = {"names": len(ids), "strings": len(ids), "parts": 1 << bits, "dimension": dimension}
    spec = {"pooling": "mean", "max_length": 64, "normalise": True, "prefix": ""}
    if builder.finished is None:
        builder.commit(counts | {"model_digest": "0" * 32, "spec": spec, "normaliser": "nfc-ws-lower"})
    return ids


def ours(folder: Path, ids: np.ndarray, queries: np.ndarray, *options: str, out: str = "index") -> dict[str, Any]:
    """Run the job, then search in this process."""
    from biomodels.index.sharded import ShardedIndex

    home = folder / out
    command = [
        sys.executable,
        "-m",
        "ray_jobs",
        "index",
        "--embeddings",
        str(folder / "embeddings"),
        "--out",
        str(home),
    ]
    started = time.perf_counter()
    subprocess.run([*command, *options], check=True, stderr=subprocess.DEVNULL)
    elapsed = time.perf_counter() - started
    stages = json.loads((home / "run.json").read_text())["seconds"]
    started = time.perf_counter()
    index = ShardedIndex.open(str(home))
    opened = time.perf_counter() - started
    _, I_NK = index.search(queries, K)
    batch = min(_seconds(lambda: index.search(queries, K)) for _ in range(REPEATS))
    single = _seconds(lambda: [index.search(query[np.newaxis], K) for query in queries[:200]])
    order = np.argsort(ids)
    return {
        "name": f"{index.factory}, nprobe {index.nprobe}, {index.shards} shards",
        "nprobe": index.nprobe,
        "seconds": stages["training"] + stages["vectors"],
        "stages": stages | {"whole job": round(elapsed, 1)},
        "opening": round(opened, 4),
        "bytes": sum(file.stat().st_size for file in (home / "shards").iterdir()),
        "batch": len(queries) / batch,
        "single": 200 / single,
        "found": order[np.searchsorted(ids[order], I_NK)],
    }


def _seconds(work: Any) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def peer(python: str, way: str, folder: Path, nprobe: int, memory: str) -> dict[str, Any]:
    """Run another way to index in a process of its own."""
    cores = str(len(os.sched_getaffinity(0)))
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "OMP_NUM_THREADS")}
    command = [python, str(PEERS), way, str(folder), cores, str(nprobe), memory]
    with (folder / f"{way}.log").open("w") as log:
        run = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=log, env=environment)
    answer: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return answer | {"found": np.load(folder / "found.npy")}


def peer_environment(work: Path) -> str:
    """Make the virtual environment of autofaiss; return its Python."""
    home = work / "autofaiss-venv"
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        venv.create(home, with_pip=True, clear=True)
        # With FAISS 1.8 and above autofaiss fails at every index that starts with OPQ.
        packages = ("autofaiss>=2.17", "faiss-cpu<1.8", "numpy<2", "pyarrow<20")
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        (home / "ready").touch()
    return str(python)


def show(title: str, rows: dict[str, dict[str, Any]]) -> None:
    """Print a table."""
    print(f"\n{title}\n{'':14}{'build s':>9}{'B/vector':>10}{'recall@10':>11}{'q/s':>10}{'q/s alone':>11}  what")
    for way, row in rows.items():
        print(
            f"{way:14}{row['seconds']:9.1f}{row['bytes_per_vector']:10.0f}{row['recall_at_10']:11.4f}"
            f"{row['batch']:10.0f}{row['single']:11.0f}  {row['name']}"
        )


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", required=True, type=Path, help="directory for vectors, indexes and the environment")
    parser.add_argument("--embeddings", help="`embeddings` artifact to take vectors from, instead of made ones")
    parser.add_argument("--sizes", default="100000,1000000", help="numbers of vectors (default: %(default)s)")
    parser.add_argument("--dimension", type=int, default=384, help="of made vectors (default: %(default)s)")
    parser.add_argument("--shards", default="1,2,4,8", help="numbers of shards to compare (default: %(default)s)")
    parser.add_argument("--no-autofaiss", action="store_true", help="leave autofaiss out")
    parser.add_argument("--out", type=Path, help="JSON report")
    given = parser.parse_args()
    report: dict[str, Any] = {"cores": len(os.sched_getaffinity(0)), "machine": platform.processor(), "sizes": {}}
    for size in map(int, given.sizes.split(",")):
        folder = given.work / str(size)
        folder.mkdir(parents=True, exist_ok=True)
        vectors, queries = make_vectors(size, given.dimension, given.embeddings)
        np.save(folder / "vectors.npy", vectors)
        np.save(folder / "queries.npy", queries)
        tenth = exact(vectors, queries)
        ids = write_artifact(folder, vectors)
        rows = {"ours": ours(folder, ids, queries, "--shards", "4")}
        nprobe, memory = rows["ours"]["nprobe"], f"{max(1, rows['ours']['bytes'] * 1.2 / 1e9):.1f}G"
        rows["FAISS by hand"] = peer(sys.executable, "faiss", folder, nprobe, memory)
        if not given.no_autofaiss:
            rows["autofaiss"] = peer(peer_environment(given.work), "autofaiss", folder, nprobe, memory)
        for shards in map(int, given.shards.split(",")):
            options = ("--shards", str(shards), "--template", str(folder / "index"))
            rows[f"{shards} shards"] = ours(folder, ids, queries, *options, out=f"index-{shards}")
        for row in rows.values():
            row["recall_at_10"] = recall(row.pop("found"), vectors, queries, tenth)
            row["bytes_per_vector"] = row["bytes"] / len(vectors)
        show(f"{size:,} vectors of {vectors.shape[1]} dimensions, {report['cores']} cores", rows)
        report["sizes"][size] = rows
    if given.out:
        given.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
