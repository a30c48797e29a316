"""Ray Data as the executor of tasks that write files: descriptors in, small results out, in the order of finishing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

Item = dict[str, Any]
"""Something that JSON can hold: a descriptor or a result. Data never travel this way."""


RESULT = pa.schema([("result", pa.string())])


def fan_out(task: Callable[[Item], Item], items: Sequence[Item], *, num_cpus: float = 1.0) -> Iterator[Item]:
    """Run `task` on each item in parallel and yield the results as they come.

    Args:
        task: writes its output to storage and returns what the caller must know of it. It may run twice.
        items: what the tasks work on; each is a task of its own.
        num_cpus: logical CPUs of a task.
    """
    if not items:
        return
    import ray.data

    source = ray.data.from_items([{"item": json.dumps(item)} for item in items], override_num_blocks=len(items))
    yield from results(
        source.map_batches(
            as_batch_task(task), batch_size=1, batch_format="pyarrow", zero_copy_batch=True, num_cpus=num_cpus
        )
    )


def as_batch_task(task: Callable[[Item], Item]) -> Callable[[pa.Table], pa.Table]:
    """Wrap a task of items for `map_batches` on a column `item` of JSON."""

    def run(batch: pa.Table) -> pa.Table:
        found = [task(json.loads(item)) for item in batch["item"].to_pylist()]
        return pa.table({"result": [json.dumps(result) for result in found]}, RESULT)

    return run


def results(dataset: Any) -> Iterator[Item]:
    """Run a dataset whose rows are JSON in a column `result` and yield them."""
    for batch in dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
        for text in batch["result"].to_pylist():
            yield json.loads(text)
