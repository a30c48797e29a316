"""Ray Data as the executor of tasks that write files: descriptors in, small results out, in the order of finishing."""

from __future__ import annotations

import contextlib
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
        return result_table([guarded(task, json.loads(item)) for item in batch["item"].to_pylist()])

    return run


def guarded(task: Callable[..., Item], *arguments: Any) -> Item:
    """Call a task; a user's error becomes a result, so that Ray prints no traceback of it."""
    try:
        return task(*arguments)
    except BiomodelsError as error:
        return failure(error)


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


@contextlib.contextmanager
def block_size(count: int) -> Iterator[None]:
    """Let Ray Data hand on blocks of about `count` bytes, so that each becomes a task of its own."""
    from ray.data import DataContext

    context = DataContext.get_current()
    before = context.target_max_block_size
    context.target_max_block_size = count
    try:
        yield
    finally:
        context.target_max_block_size = before
