"""Run many small tasks on Ray, and find out which files an earlier run finished."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from biomodels.artifacts import ArtifactBuilder, FileEntry

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


def say(message: str) -> None:
    """Tell the user something, beside the progress bars."""
    print(message, file=sys.stderr)
