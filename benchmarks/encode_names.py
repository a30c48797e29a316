"""Names per second: `TextEncoder`, `SentenceTransformer.encode`, and batches padded to 25 tokens as SapBERT pads.

All run in one process, one after another, on the same names and cores, three times in turn; the best time counts, so
that load beside hurts all alike. Prints a table and, with --out, writes JSON with the environment.

    python benchmarks/encode_names.py --model MODEL_DIR --names names.txt --count 2000

The names file has one name a line; of a line `id||name` the part after `||` is taken.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
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
SAPBERT_BATCH = 128


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


def measure(ways: dict[str, Callable[[list[str]], np.ndarray]], names: list[str]) -> dict[str, float]:
    """Return the best seconds of each way; the ways take turns."""
    for encode in ways.values():
        encode(names[:64])
    seconds = dict.fromkeys(ways, float("inf"))
    for _ in range(REPEATS):
        for way, encode in ways.items():
            started = time.perf_counter()
            encode(names)
            seconds[way] = min(seconds[way], time.perf_counter() - started)
    return seconds


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="model directory or Hub name")
    parser.add_argument("--names", required=True, type=Path, help="text file, one name (or id||name) a line")
    parser.add_argument("--count", type=int, default=2000, help="names to encode (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="cores (default: all)")
    parser.add_argument("--precisions", default="float32,bf16", help="of TextEncoder (default: %(default)s)")
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
    seconds = measure(ways, names)
    base = seconds["SentenceTransformer.encode"]
    rows = {way: {"names_per_second": len(names) / s, "times_peer": base / s} for way, s in seconds.items()}
    print(f"{len(names)} names, {given.threads} threads, {read_spec(resolve_model(given.model))}")
    for way, row in rows.items():
        print(f"{way:32}{row['names_per_second']:10.0f} names/s{row['times_peer']:8.2f} x SentenceTransformer")
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
