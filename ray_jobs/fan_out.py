"""Ray Data as the executor of tasks that write files: descriptors in, small results out, in the order of finishing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from biomodels import errors
from biomodels.errors import BiomodelsError

Item = dict[str, Any]
"""Something that JSON can hold: a descriptor or a result. Data never travel this way."""


_ERROR = "error_type"

RESULT = pa.schema([("result", pa.string())])


def fan_out(
    task: Callable[[Item], Item], items: Sequence[Item], *, num_cpus: float = 1.0, short: bool = False
) -> Iterator[Item]:
    """Run `task` on each item in parallel and yield the results as they come.

    Args:
        task: writes its output to storage and returns what the caller must know of it. It may run twice.
        items: what the tasks work on.
        num_cpus: logical CPUs of a task.
        short: an item takes but a moment, so that a task of Ray should run several; else each is a task of its own.
    """

    def each(item: Item) -> Iterator[Item]:
        yield guarded(task, item)

    yield from fan_out_streams(each, items, num_cpus=num_cpus, short=short)


def fan_out_streams(
    task: Callable[[Item], Iterator[Item]], items: Sequence[Item], *, num_cpus: float = 1.0, short: bool = False
) -> Iterator[Item]:
    """Do the same with a task that yields several results, each of which is handed on at once."""
    if not items:
        return
    import ray.data
    from ray.data import DataContext

    def run(batch: pa.Table) -> Iterator[pa.Table]:
        for item in batch["item"].to_pylist():
            for result in task(json.loads(item)):
                yield result_table([result])

    context = DataContext.get_current()
    before = context.target_max_block_size
    context.target_max_block_size = 1  # bytes: a result waits for no other
    try:
        tasks = min(len(items), 2 * cluster_cpus()) if short else len(items)
        source = ray.data.from_items([{"item": json.dumps(item)} for item in items], override_num_blocks=tasks)
        done = source.map_batches(run, batch_size=1, batch_format="pyarrow", zero_copy_batch=True, num_cpus=num_cpus)
    finally:
        context.target_max_block_size = before
    yield from results(done)


def cluster_cpus() -> int:
    """Return the logical CPUs of the connected Ray."""
    import ray

    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def guarded(task: Callable[..., Item], *arguments: Any) -> Item:
    """Call a task; a user's error becomes a result, so that Ray prints no traceback of it."""
    try:
        return task(*arguments)
    except BiomodelsError as error:
        return failure(error)
    except OSError as error:
        if found := errors.storage_error(error):
            return failure(found)
        raise


def failure(error: BiomodelsError) -> Item:
    """Return an error in the form that `results` raises again."""
    return {_ERROR: type(error).__name__, "message": str(error)}


def result_table(found: Sequence[Item]) -> pa.Table:
    """Return results as the batch that `results` reads."""
    return pa.table({"result": [json.dumps(result) for result in found]}, RESULT)


def results(dataset: Any) -> Iterator[Item]:
    """Run a dataset whose rows are JSON in a column `result` and yield them.

    Raises:
        BiomodelsError: the first error that a task returned.
    """
    for batch in dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
        for text in batch["result"].to_pylist():
            result = json.loads(text)
            if _ERROR in result:
                raise getattr(errors, result[_ERROR])(result["message"])
            yield result
