"""Our training step against a plain SapBERT-style loop, in one process and interleaved, as a ratio of steps per second.

The plain loop does what the published script does: every name padded to 25 tokens and encoded as often as it occurs,
the whole list of triplets mined by pytorch-metric-learning, torch's AdamW. Ours is the step of the job `train`: each
distinct name once, padded to the longest of the batch, the loss in O(B²), a DeepSpeed engine.

    python benchmarks/train_step.py --model MODEL_DIR --pairs pairs.txt --batch-size 256 --steps 5
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pyarrow as pa
import torch
import torch.distributed as dist

from biomodels.models.encoder import load_backbone, load_tokenizer
from biomodels.models.spec import EncoderSpec
from biomodels.recipes.sapbert import SapBert
from biomodels.terminology.pairs_text import read_pairs_text
from biomodels.terminology.rejects import Reject
from ray_jobs.training.engine import AdamW, build_engine
from ray_jobs.training.loop import prepare_device
from ray_jobs.training.step import StepKey, accumulate_gradients

LEARNING_RATE, MAX_LENGTH = 2e-5, 25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--pairs", required=True)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()
    batches = read_batches(options.pairs, options.batch_size, options.steps + 1)
    contestants = {"ours": our_step(options.model), "plain": plain_step(options.model)}
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    losses: dict[str, list[float]] = {name: [] for name in contestants}
    for number, rows in enumerate(batches):
        for name, step in contestants.items():
            started = time.perf_counter()
            losses[name].append(round(step(number, rows), 4))
            if number:  # the first step warms up
                seconds[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    result = {
        "steps_per_second": {name: round(1 / median, 4) for name, median in medians.items()},
        "ratio": round(medians["plain"] / medians["ours"], 3),
        "losses": losses,
        "batch_size": options.batch_size,
        "threads": torch.get_num_threads(),
    }
    print(json.dumps(result, indent=1))
    dist.destroy_process_group()


def read_batches(path: str, batch_size: int, number: int) -> list[pa.Table]:
    pairs = (row for row in read_pairs_text(path) if not isinstance(row, Reject))
    rows = list(islice(pairs, batch_size * number))
    table = pa.table(dict(zip(SapBert.columns, (list(column) for column in zip(*rows, strict=True)), strict=True)))
    return [table.slice(start, batch_size) for start in range(0, len(table), batch_size)]


def our_step(model: str) -> Callable[[int, pa.Table], float]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    one = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
    os.environ.update(one, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo")
    prepare_device("cpu")
    recipe = SapBert(EncoderSpec(max_length=MAX_LENGTH))
    tokenizer = recipe.tokenizer(model)
    engine = build_engine(recipe.load(model), AdamW(LEARNING_RATE), stage=1, precision="float32")
    engine.train()

    def step(number: int, rows: pa.Table) -> float:
        loss = accumulate_gradients(engine, recipe.collate(rows, tokenizer, 0), recipe.terms, StepKey(0, number), None)
        engine.step()
        return loss

    return step


def plain_step(model: str) -> Callable[[int, pa.Table], float]:
    from pytorch_metric_learning.distances import CosineSimilarity
    from pytorch_metric_learning.losses import MultiSimilarityLoss
    from pytorch_metric_learning.miners import TripletMarginMiner

    module = load_backbone(Path(model), dtype=torch.float32).train()
    tokenizer = load_tokenizer(Path(model))
    optimizer = torch.optim.AdamW(module.parameters(), lr=LEARNING_RATE, weight_decay=0.01)
    criterion = MultiSimilarityLoss(alpha=1, beta=60, base=0.5, distance=CosineSimilarity())
    miner = TripletMarginMiner(margin=0.2, type_of_triplets="all")

    def encode(texts: list[str]) -> torch.Tensor:
        tokens = tokenizer(texts, padding="max_length", max_length=MAX_LENGTH, truncation=True, return_tensors="pt")
        return module(**tokens).last_hidden_state[:, 0]  # type: ignore[no-any-return]  # the peer's module is untyped

    def step(number: int, rows: pa.Table) -> float:
        torch.manual_seed(number)
        embeddings = torch.cat([encode(rows["name_1"].to_pylist()), encode(rows["name_2"].to_pylist())])
        ids = {concept: number for number, concept in enumerate(dict.fromkeys(rows["concept_id"].to_pylist()))}
        labels = torch.tensor([ids[concept] for concept in rows["concept_id"].to_pylist()] * 2)
        loss = criterion(embeddings, labels, miner(embeddings, labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


if __name__ == "__main__":
    main()
