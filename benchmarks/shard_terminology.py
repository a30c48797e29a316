"""`shard terminology` beside the usual notebook: one Python process, a dict of sets, all combinations, a sample.

Both read the same MRCONSO.RRF (plain or gzip) in one run, one after the other. The notebook writes the pairs as text;
the job writes the names and pairs datasets, with rejects, preferred names and a shuffle on top.

    python benchmarks/shard_terminology.py MRCONSO.RRF.gz
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import psutil

SAMPLING_SECONDS = 0.1
MAX_PAIRS = 50


def notebook(source: str, out: str) -> None:
    """Make the pairs the plain way."""
    names = defaultdict(set)
    opener = gzip.open if source.endswith(".gz") else open
    with opener(source, "rt", encoding="utf-8") as lines:
        for line in lines:
            fields = line.split("|")
            if fields[16] == "N":
                names[fields[0]].add(fields[14].lower())
    random.seed(13)
    with open(out, "w", encoding="utf-8") as sink:
        for concept, synonyms in names.items():
            pairs = list(itertools.combinations(sorted(synonyms), 2))
            if len(pairs) > MAX_PAIRS:
                pairs = random.sample(pairs, MAX_PAIRS)
            sink.writelines(f"{concept}||{one}||{two}\n" for one, two in pairs)


class Measured(NamedTuple):
    """Seconds, CPU seconds of all processes, and peak RSS in MiB of the largest process and of all together."""

    seconds: float
    cpu_seconds: float
    largest: float
    together: float


def measure(command: list[str]) -> Measured:
    """Run a command and watch its processes."""
    with tempfile.TemporaryFile() as errors:
        start = time.monotonic()
        process = psutil.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        largest = together = 0
        cpu: dict[int, float] = {}
        while process.poll() is None:
            sizes = []
            with contextlib.suppress(psutil.Error):
                for member in [process, *process.children(recursive=True)]:
                    with contextlib.suppress(psutil.Error):
                        sizes.append(member.memory_info().rss)
                        cpu[member.pid] = sum(member.cpu_times()[:2])
            largest, together = max([largest, *sizes]), max(together, sum(sizes))
            time.sleep(SAMPLING_SECONDS)
        if process.returncode:
            errors.seek(0)
            shown = errors.read()[-2000:].decode(errors="replace")
            raise SystemExit(f"{shown}\nfailed with {process.returncode}: {' '.join(command)}")
        return Measured(time.monotonic() - start, sum(cpu.values()), largest / 2**20, together / 2**20)


def count_rows(source: str) -> int:
    """Return the number of lines."""
    opener = gzip.open if source.endswith(".gz") else open
    with opener(source, "rb") as stream:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(1 << 22), b""))


def main(source: str) -> None:
    """Print the table."""
    rows = count_rows(source)
    print(f"{source}: {rows:,} rows, {len(os.sched_getaffinity(0))} cores\n")
    print(f"{'':12}{'seconds':>9}{'rows/s':>10}{'peak MiB, one process':>24}{'all processes':>16}")
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        commands = {
            "notebook": [sys.executable, __file__, source, "--notebook", str(Path(folder, "pairs.txt"))],
            "job": [
                *(sys.executable, "-m", "ray_jobs", "shard", "terminology"),
                *("--mrconso", source, "--out", str(Path(folder, "job")), "--max-pairs", str(MAX_PAIRS)),
            ],
        }
        for name, command in commands.items():
            results[name] = measure(command)
            seconds, _, largest, together = results[name]
            print(f"{name:12}{seconds:9.1f}{rows / seconds:10,.0f}{largest:24,.0f}{together:16,.0f}")
    speed = results["notebook"].seconds / results["job"].seconds
    memory = results["notebook"].largest / results["job"].largest
    print(
        f"\njob / notebook: {speed:.2f} times the speed, start of Ray included; largest process {1 / memory:.2f} times"
    )


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[2] == "--notebook":
        notebook(sys.argv[1], sys.argv[3])
    elif len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        raise SystemExit(__doc__)
