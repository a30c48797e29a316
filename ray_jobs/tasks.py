"""Plain Ray tasks whose arguments and results are Python objects, and which files an earlier run finished.

`fan_out` is for work described by JSON, on Ray Data; this is for the index, whose tasks share arrays of vectors.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from biomodels.artifacts import ArtifactBuilder, FileEntry
from ray_jobs.progress import bar, say

T = TypeVar("T")


def each(function: Callable[..., T], arguments: Sequence[tuple[Any, ...]]) -> Iterator[T]:
    """Run `function(*row)` as a Ray task for each row; yield the results in the order in which they end.

    A task whose process dies is run again, so it must be safe to repeat.
    """
    import ray

    remote = ray.remote(num_cpus=1, max_retries=3)(function)
    pending = [remote.remote(*row) for row in arguments]
    while pending:
        done, pending = ray.wait(pending, num_returns=1)
        yield ray.get(done[0])


def kept_files(builder: ArtifactBuilder, paths: Sequence[str]) -> list[FileEntry | None]:
    """Verify in parallel which files an earlier run finished."""
    with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
        return list(pool.map(builder.kept, paths))


def publish_each(
    builder: ArtifactBuilder, label: str, unit: str, paths: Sequence[str], write: Callable[[int], FileEntry]
) -> list[FileEntry]:
    """Publish files in parallel, one Ray task each; those that an earlier run finished are kept.

    Args:
        builder: the artifact.
        label: what the files are, for the progress bar.
        unit: what their rows are.
        paths: of all files.
        write: publishes the file with a number.

    Returns:
        Every file's entry, in the order of `paths`.
    """
    entries = dict(enumerate(kept_files(builder, paths)))
    done = [entry for entry in entries.values() if entry]
    if done:
        rows = sum(entry.rows or 0 for entry in done)
        say(f"kept {len(done)} of {len(paths)} files of {label}: {rows:,} {unit} not done again")
    todo = [(number,) for number, entry in entries.items() if not entry]
    with bar(label, len(paths), "files", done=len(done)) as progress:
        for number, entry in each(lambda number: (number, write(number)), todo):
            entries[number] = entry
            progress.update(1)
    return [entry for entry in entries.values() if entry]


@contextlib.contextmanager
def timed(label: str, seconds: dict[str, float]) -> Iterator[None]:
    """Note how long a stage takes."""
    started = time.monotonic()
    yield
    seconds[label] = round(time.monotonic() - started, 2)
