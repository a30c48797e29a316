"""Names per second: `TextEncoder`, `SentenceTransformer.encode`, and batches padded to 25 tokens as SapBERT pads.

All run in one process, one after another, on the same names and cores, three times in turn; the best time counts, so
that load beside hurts all alike. Prints a table and, with --out, writes JSON with the environment.

    python benchmarks/encode_names.py --model MODEL_DIR --names names.txt --count 50000 \\
        [--dictionary dictionary.txt --queries queries.txt]

The names file has one name a line; of a line `id||name` the part after `||` is taken. Each way also says how well its
vectors agree with those of float32 (cosines), and with a dictionary and queries (`id||name`) what it links (acc@1).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from biomodels.inference.text_encoder import TextEncoder
from biomodels.models.spec import read_spec, resolve_model
from biomodels.terminology.normalise import Normaliser, keyed_hash

REPEATS = 3
SAPBERT_LENGTH = 25
SAPBERT_BATCH = 2048


def read_names(path: Path, count: int) -> list[str]:
    """Choose distinct normalised names, in an order without meaning."""
    normalise = Normaliser()
    with path.open(encoding="utf-8") as lines:
        names = {normalise(line.rpartition("||")[2]) for line in lines} - {""}
    return sorted(names, key=lambda name: keyed_hash(0, name))[:count]


def sentence_transformers(model: str, threads: int) -> Callable[[list[str]], np.ndarray]:
    """Sorted by length, padded to the longest of each batch."""
    from sentence_transformers import SentenceTransformer

    peer = SentenceTransformer(model, device="cpu")
    return with_threads(threads, lambda names: peer.encode(names, batch_size=32, show_progress_bar=False))


def fixed_length(model: str, threads: int) -> Callable[[list[str]], np.ndarray]:
    """Batches in the given order, each padded to 25 tokens, first token's state."""
    from transformers import AutoModel, AutoTokenizer

    directory = resolve_model(model)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    backbone = AutoModel.from_pretrained(directory).eval()

    @torch.inference_mode()
    def encode(names: list[str]) -> np.ndarray:
        found = []
        for start in range(0, len(names), SAPBERT_BATCH):
            tokens = tokenizer(
                names[start : start + SAPBERT_BATCH],
                padding="max_length", truncation=True, max_length=SAPBERT_LENGTH, return_tensors="pt",
            )  # fmt: skip
            found.append(backbone(**tokens).last_hidden_state[:, 0].numpy())
        return np.concatenate(found)

    return with_threads(threads, encode)


def with_threads(threads: int, encode: Callable[[list[str]], np.ndarray]) -> Callable[[list[str]], np.ndarray]:
    """Give a peer all cores inside each operation; `TextEncoder` sets one and runs batches side by side."""

    def run(names: list[str]) -> np.ndarray:
        torch.set_num_threads(threads)
        try:
            return encode(names)
        finally:
            torch.set_num_threads(1)

    return run


def measure(
    ways: dict[str, Callable[[list[str]], np.ndarray]], names: list[str], repeats: int
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Return the best seconds of each way, and its vectors; the ways take turns."""
    for encode in ways.values():
        encode(names[:64])
    seconds = dict.fromkeys(ways, float("inf"))
    vectors = {}
    for _ in range(repeats):
        for way, encode in ways.items():
            started = time.perf_counter()
            vectors[way] = encode(names)
            seconds[way] = min(seconds[way], time.perf_counter() - started)
            print(f"{way}: {len(names) / seconds[way]:.0f} names/s", file=sys.stderr)
    return seconds, vectors


def unit(E_ND: np.ndarray) -> np.ndarray:
    """Scale vectors to length 1."""
    return E_ND / np.linalg.norm(E_ND, axis=1, keepdims=True)


def agreement(E_ND: np.ndarray, expected: np.ndarray) -> dict[str, float]:
    """Compare vectors with those of float32."""
    cosines = (unit(E_ND) * unit(expected)).sum(axis=1)
    return {
        "cosine_mean": float(cosines.mean()),
        "cosine_min": float(cosines.min()),
        "largest_difference": float(np.abs(E_ND - expected).max()),
    }


def read_dictionary(path: Path) -> tuple[list[str], list[str]]:
    """Return the ids and normalised names of a file of `id||name` lines."""
    normalise = Normaliser()
    rows = [line.rstrip("\n").split("||", 1) for line in path.open(encoding="utf-8")]
    return [row[0] for row in rows], [normalise(row[1]) for row in rows]


def linked(encode: Callable[[list[str]], np.ndarray], dictionary: Path, queries: Path) -> float:
    """Return acc@1 in percent: the nearest name's concept is the query's."""
    ids, names = read_dictionary(dictionary)
    gold, mentions = read_dictionary(queries)
    E_ND, Q_MD = unit(encode(names)), unit(encode(mentions))
    best = [int(np.argmax(E_ND @ query)) for query in Q_MD]
    return 100 * float(np.mean([ids[row] == concept for row, concept in zip(best, gold, strict=True)]))


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="model directory or Hub name")
    parser.add_argument("--names", required=True, type=Path, help="text file, one name (or id||name) a line")
    parser.add_argument("--count", type=int, default=50_000, help="names to encode (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="cores (default: all)")
    parser.add_argument("--precisions", default="float32,bf16,int8", help="of TextEncoder (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="the best counts (default: %(default)s)")
    parser.add_argument("--dictionary", type=Path, help="id||name a line, for acc@1")
    parser.add_argument("--queries", type=Path, help="id||mention a line, for acc@1")
    parser.add_argument("--out", type=Path, help="JSON report")
    given = parser.parse_args()
    names = read_names(given.names, given.count)
    ways: dict[str, Callable[[list[str]], np.ndarray]] = {
        f"TextEncoder {precision}": TextEncoder(
            given.model, precision=precision, device="cpu", threads=given.threads
        ).encode
        for precision in given.precisions.split(",")
    }
    ways["SentenceTransformer.encode"] = sentence_transformers(given.model, given.threads)
    ways[f"padded to {SAPBERT_LENGTH}, given order"] = fixed_length(given.model, given.threads)
    seconds, vectors = measure(ways, names, given.repeats)
    base = seconds["SentenceTransformer.encode"]
    rows = {way: {"names_per_second": len(names) / s, "times_peer": base / s} for way, s in seconds.items()}
    for way, row in rows.items():
        if not way.startswith("padded"):  # another pooling
            row.update(agreement(vectors[way], vectors["TextEncoder float32"]))
            if given.dictionary and given.queries:
                row["acc1"] = linked(ways[way], given.dictionary, given.queries)
    print(f"{len(names)} names, {given.threads} threads, {read_spec(resolve_model(given.model))}")
    for way, row in rows.items():
        shown = f"{way:28}{row['names_per_second']:8.0f} names/s{row['times_peer']:7.2f} x SentenceTransformer"
        if "cosine_min" in row:
            shown += f"   cosine {row['cosine_mean']:.5f}, at least {row['cosine_min']:.5f}"
        print(shown + (f"   acc@1 {row['acc1']:.2f}" if "acc1" in row else ""))
    if given.out:
        environment = {
            "cpu": torch.backends.cpu.get_cpu_capability(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "threads": given.threads,
        }
        report = {"names": len(names), "model": given.model, "environment": environment, "ways": rows}
        given.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
