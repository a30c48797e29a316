"""Plain Ray tasks whose arguments and results are Python objects, and which files an earlier run finished.

`fan_out` is for work described by JSON, on Ray Data; this is for the index, whose tasks share arrays of vectors.
"""

from __future__ import annotations

import os
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
