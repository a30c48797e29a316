"""Time and memory of `shard terminology` by the number of rows, on files that `grow_mrconso.py` makes.

Prints a table, and the slopes of straight lines through the points: what a million rows more costs.

    python benchmarks/shard_scaling.py MRCONSO.RRF.gz --rows 2 5 10 15 --preset sapbert-2020aa
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from grow_mrconso import grow
from shard_terminology import measure

from biomodels.artifacts import Artifact

MILLION = 1_000_000


def main() -> None:
    """Measure all sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="MRCONSO.RRF, plain or gzip; or a grown file with --grown")
    parser.add_argument("--rows", type=float, nargs="+", required=True, help="sizes in millions of rows")
    parser.add_argument("--grown", action="store_true", help="the source is large enough: take its first rows")
    parser.add_argument("--work", help="directory for the files; default: a temporary one")
    options, extra = parser.parse_known_args()
    print(f"{len(os.sched_getaffinity(0))} cores; options: {' '.join(extra) or 'none'}\n")
    print("| rows | names | pairs | seconds | CPU seconds | rows/s | peak MiB, one process | peak MiB, all |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|")
    points = []
    for size in options.rows:
        with tempfile.TemporaryDirectory(dir=options.work) as folder:
            source, out = str(Path(folder, "MRCONSO.RRF")), str(Path(folder, "out"))
            rows = int(size * MILLION)
            with open(source, "wb") as sink:
                if options.grown:
                    subprocess.run(["head", "-n", str(rows), options.source], stdout=sink, check=True)
                else:
                    sink.writelines(grow(options.source, rows, seed=13))
            command = [sys.executable, "-m", "ray_jobs", "shard", "terminology", "--mrconso", source, "--out", out]
            seconds, cpu, largest, together = measure([*command, *extra])
            names, pairs = (Artifact.open(f"{out}/{kind}").facts[kind] for kind in ("names", "pairs"))
            shutil.rmtree(out)
        points.append((size, seconds, cpu, largest))
        print(
            f"| {rows:,} | {names:,} | {pairs:,} | {seconds:.0f} | {cpu:.0f} | {rows / seconds:,.0f} | {largest:,.0f} "
            f"| {together:,.0f} |",
            flush=True,
        )
    if len(points) > 1:
        sizes, *measured = np.array(points).T
        for what, values in zip(("seconds", "CPU seconds", "MiB of the largest process"), measured, strict=True):
            slope, constant = np.polyfit(sizes, values, 1)
            print(f"{what}: {constant:.0f} and {slope:.1f} a million rows")


if __name__ == "__main__":
    main()
