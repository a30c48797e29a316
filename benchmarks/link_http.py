"""The linker over HTTP beside the same linker in this process, in one run on one machine.

Starts `python -m serving` on a free port of the loopback interface, asks it at several numbers of clients, each with
one mention per request, and stops it. Every answer must equal the one of `Linker.link`. In process, one mention is
linked at a time, and then batches of 64.

    python benchmarks/link_http.py --index data/hpo/index --model models/m1 [--layout per-shard] [--seconds 8]
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pyarrow as pa

from biomodels import schemas
from biomodels.artifacts import Artifact
from biomodels.index.cache import local_file
from biomodels.index.sharded import ShardedIndex, names_file
from biomodels.inference.text_encoder import TextEncoder
from biomodels.linking.linker import Linker, encoder_options

CLIENTS = (1, 8, 32, 128)
START_SECONDS = 120
K = 5


def mentions_of(index: str, count: int) -> list[str]:
    """Names of the index with a typing error each, so that they are near names and no names."""
    artifact = Artifact.open(index, "index")
    path = local_file(artifact.uri, artifact.entry(names_file(0)))
    column = pa.ipc.open_file(pa.memory_map(str(path))).read_all()["name"]
    assert column.type == schemas.NAMES.field("name").type
    chance = random.Random(0)
    chosen = (column[chance.randrange(len(column))].as_py() for _ in range(count))
    return [name[:i] + name[i + 1 :] for name in chosen if (i := chance.randrange(len(name)) if len(name) > 3 else 9)]


def report(label: str, latencies: list[float], mentions: int, seconds: float) -> None:
    """Print one line."""
    p50, p99 = 1000 * np.percentile(latencies, [50, 99])
    print(f"{label:<34} {mentions / seconds:>9.0f} {p50:>9.1f} {p99:>9.1f}", flush=True)


def measure(ask, batches, seconds: float) -> tuple[list[float], int, float]:
    """Call `ask` on one batch after the other for some seconds."""
    latencies, mentions, start = [], 0, time.monotonic()
    for batch in batches:
        before = time.monotonic()
        if before - start > seconds:
            break
        ask(batch)
        latencies.append(time.monotonic() - before)
        mentions += len(batch)
    return latencies, mentions, time.monotonic() - start


def over_http(url: str, mentions: list[str], truth: dict[str, list[dict]], clients: int, seconds: float) -> None:
    """Ask from many threads, and compare every answer."""
    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
    with httpx.Client(base_url=url, timeout=60, limits=limits) as client, ThreadPoolExecutor(clients) as pool:

        def ask(batch: list[str]) -> None:
            response = client.post("/v1/link", json={"mentions": batch, "k": K})
            response.raise_for_status()
            for answer in response.json()["results"]:
                assert answer["candidates"] == truth[answer["mention"]], answer

        def work(number: int) -> tuple[list[float], int, float]:
            turn = itertools.cycle(mentions[number::clients] or mentions)
            return measure(ask, ([mention] for mention in turn), seconds)

        ask(mentions[:1])
        results = list(pool.map(work, range(clients)))
    latencies = [latency for result in results for latency in result[0]]
    report(f"HTTP, {clients} clients", latencies, sum(result[1] for result in results), max(r[2] for r in results))


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--index", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--layout", default="in-process")
    parser.add_argument("--seconds", type=float, default=8.0)
    options = parser.parse_args()

    index = ShardedIndex.open(options.index)
    linker = Linker(TextEncoder(options.model, **encoder_options(index.facts)), index)
    mentions = mentions_of(options.index, 2000)
    answers = [linker.link([mention], K)[0] for mention in mentions]
    truth = {m: [c.as_dict() for c in found] for m, found in zip(mentions, answers, strict=True)}
    print(
        f"{index.facts['names']:,} names, {index.facts['concepts']:,} concepts, {index.factory}, nprobe {index.nprobe},"
    )
    print(f"{index.shards} shards, layout {options.layout}, {len(os.sched_getaffinity(0))} cores")
    print(f"{'':<34} {'mentions/s':>9} {'p50 ms':>9} {'p99 ms':>9}")
    turn = itertools.cycle([mention] for mention in mentions)
    report("in process, one at a time", *measure(lambda batch: linker.link(batch, K), turn, options.seconds))
    turn = itertools.cycle(mentions[i : i + 64] for i in range(0, len(mentions) - 64, 64))
    report("in process, batches of 64", *measure(lambda batch: linker.link(batch, K), turn, options.seconds))

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "serving", "--index", options.index, "--model", options.model]
    command += ["--port", str(port), "--layout", options.layout]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        signal.alarm(START_SECONDS)
        if "ready" not in server.stdout.readline():
            raise SystemExit("the service did not start")
        signal.alarm(0)
        for clients in CLIENTS:
            over_http(f"http://127.0.0.1:{port}", mentions, truth, clients, options.seconds)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(60)


if __name__ == "__main__":
    main()
