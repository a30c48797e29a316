"""`evaluate linking --benchmark NAME --data DIR`: models and baselines on a published benchmark."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from biomodels import storage
from biomodels.errors import UsageError
from biomodels.models.spec import Pooling
from biomodels.terminology.normalise import Normaliser
from ray_jobs.evaluate.query_file import write_rejects
from ray_jobs.progress import bar, say

if TYPE_CHECKING:
    from biomodels.evaluation.entity_linking.protocols import Task
    from biomodels.evaluation.entity_linking.rankers import Ranker
    from biomodels.evaluation.entity_linking.vectors import VectorStore
    from biomodels.evaluation.exact import Metric
    from biomodels.inference.text_encoder import TextEncoder
    from ray_jobs.evaluate.linking import Config

PUBLISHED_LENGTH = 25


class Model(NamedTuple):
    """A model under the label that the tables have."""

    label: str
    name: str
    pooling: Pooling | None


class Loaded(NamedTuple):
    """A model and its encoder."""

    model: Model
    encoder: TextEncoder


def evaluate(config: Config) -> dict[str, Any]:
    """Measure all systems and write the report and its page."""
    from biomodels.evaluation.entity_linking import page, run
    from biomodels.evaluation.entity_linking.options import ReadOptions
    from biomodels.evaluation.entity_linking.registry import read_benchmark

    assert config.benchmark and config.data  # the configuration has seen to it
    models = labelled(config.model, config.pooling)
    options = ReadOptions(
        config.data, config.dictionary, config.encoding, config.max_reject_rate, config.preprocess, config.spelling
    )
    benchmark = read_benchmark(config.benchmark, options)
    if config.save_mentions:
        _save_mentions(benchmark, config.save_mentions)
    modes: Any = ("reference", "fair") if config.mode == "both" else (config.mode,)
    tasks = list(run.tasks_of(benchmark, modes, Normaliser(config.lowercase)))
    with _work_folder(config.work) as work, contextlib.ExitStack() as stack:
        loaded = [Loaded(model, _load(config, model)) for model in models]
        plain = [task for _, task in tasks]
        plan = run.Plan(
            ks=config.ks,
            dense={each.model.label: _ranker_of(config, each, work, plain, stack) for each in loaded},
            digests={model.label: encoder.digest for model, encoder in loaded},
            mixture=config.mixture,
            exact_limit=config.exact_limit,
            seed=config.seed,
            resamples=config.resamples,
            errors=config.errors,
        )
        with bar("evaluate", None, "systems") as progress:
            found = run.evaluate(benchmark, tasks, plan, lambda _: progress.update(1) and None)
    report = {
        "kind": "linking_benchmark",
        "benchmark": benchmark.name,
        "config": config.byte_config(),
        "models": {model.label: {"digest": e.digest, **e.spec.model_dump()} for model, e in loaded},
        "notes": benchmark.notes + _size_notes(config, tasks),
        "rejected": len(benchmark.rejects),
        **found,
    }
    write_rejects(benchmark.rejects, config.out)
    storage.publish_bytes(
        (json.dumps(report, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode(), config.out
    )
    target = str(Path(config.out).with_suffix(".html")) if "://" not in config.out else config.out + ".html"
    storage.publish_bytes(page.render(report).encode(), target)
    _show(report)
    say(f"{config.out}: {len(report['entries'])} entries; page: {target}")
    return report


def _size_notes(config: Config, tasks: Sequence[tuple[Any, Task]]) -> list[str]:
    largest = max(len(task.names) for _, task in tasks)
    if largest <= config.exact_limit:
        return []
    return [f"{largest:,} names are more than --exact-limit: models search an index, and are not mixed with TF-IDF."]


def labelled(models: Sequence[str], poolings: Sequence[Pooling]) -> list[Model]:
    """Name each model for the tables: NAME=MODEL as asked, else the last part of its path, with the pooling if given.

    Raises:
        UsageError: two would have one name.
    """
    found = []
    for model in models:
        label, given, name = model.partition("=")
        if not given or "/" in label:
            label, name = model.rstrip("/").rsplit("/", 1)[-1], model
        found += [Model(f"{label} {pooling}" if pooling else label, name, pooling) for pooling in (poolings or (None,))]
    labels = [model.label for model in found]
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(
                f"--model: two models would be called {label!r}; name them, as in --model a={found[0].name}"
            )
    return found


def _load(config: Config, model: Model) -> TextEncoder:
    """Load a model; its vectors are left as they are, since one protocol needs their lengths."""
    from biomodels.inference.text_encoder import TextEncoder

    return TextEncoder(
        model.name,
        precision=config.precision,
        pooling=model.pooling,
        max_length=config.max_length or PUBLISHED_LENGTH,
        normalise=False,
        threads=config.num_cpus,
    )


def _ranker_of(
    config: Config,
    loaded: Loaded,
    work: Path,
    tasks: Sequence[Task],
    stack: contextlib.ExitStack,
) -> Callable[[Task, Metric], Ranker]:
    """Encode what a model needs for exact search, and return the function that makes its rankers."""
    from biomodels.evaluation.entity_linking.protocols import distinct_names
    from biomodels.evaluation.entity_linking.rankers import Dense
    from biomodels.evaluation.entity_linking.vectors import VectorStore

    model, encoder = loaded
    folder = work / "vectors" / f"{encoder.digest}-{config.precision}"
    store: VectorStore = stack.enter_context(VectorStore(folder, encoder.dimension, encoder.encode))
    small = [task for task in tasks if len(task.names) <= config.exact_limit]
    missing = store.missing(distinct_names(small))
    with bar(f"encode by {model.label}", len(missing), "texts") as progress:
        store.add(missing, lambda encoded: progress.update(encoded) and None)

    def ranker(task: Task, metric: Metric) -> Ranker:
        if len(task.names) <= config.exact_limit:
            return Dense(store, task.names, metric)
        from ray_jobs.evaluate.large_dictionary import indexed

        return indexed(config, loaded, task.names, metric, work)

    return ranker


@contextlib.contextmanager
def _work_folder(work: str | None) -> Iterator[Path]:
    if work is None:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
        return
    if "://" in work:
        raise UsageError(f"--work {work}: vectors are memory-mapped, so this must be a local directory")
    yield Path(work)


def _save_mentions(benchmark: Any, folder: str) -> None:
    from biomodels.artifacts import write_parquet
    from biomodels.evaluation.entity_linking.benchmark import mentions_table

    for part in benchmark.parts:
        with storage.writing(storage.join(folder, f"{benchmark.name}.{part.name}.parquet")) as local:
            write_parquet(mentions_table(part.mentions), local)


def _show(report: dict[str, Any]) -> None:
    """Print one table: a row per part, mode and system, or, of several parts, a row per mode and system."""
    import sys

    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 180)
    several = any(entry["part"] == "mean" for entry in report["entries"])
    console.print(_pivot(report) if several else _rows(report))
    for reason in dict.fromkeys(e["saturated"] for e in report["entries"] if e["saturated"] and e["part"] != "mean"):
        console.print(f"† {reason}", markup=False)
    for note in report["notes"]:
        console.print(note, markup=False)
    for row in report["parts"]:
        lost = row["queries"] - row["gold_in_dictionary"]
        if lost:
            console.print(f"{row['part']}, {row['mode']}: {lost:,} of {row['queries']:,} queries have no gold in it")


def _rows(report: dict[str, Any]) -> Any:
    from rich.table import Table

    table = Table(title=f"{report['benchmark']} (percent)")
    for heading in ("part", "mode", "system", "score"):
        table.add_column(heading)
    for heading in ("n", "acc@1", "95 % interval", "acc@5", "MRR", "unseen n", "unseen acc@1"):
        table.add_column(heading, justify="right")
    for e in report["entries"]:
        unseen = e["unseen"]
        table.add_row(
            e["part"],
            e["mode"],
            e["system"],
            e["score"],
            f"{e['n']:,}",
            _percent(e["acc@1"]) + ("†" if e["saturated"] else ""),
            "–".join(map(_percent, e["ci95"])),
            _percent(e["acc@5"]),
            _percent(e["mrr"]),
            f"{unseen['n']:,}" if unseen else "",
            _percent(unseen["acc@1"]) if unseen else "",
        )
    return table


def _pivot(report: dict[str, Any]) -> Any:
    from rich.table import Table

    parts = list(dict.fromkeys(entry["part"] for entry in report["entries"]))
    table = Table(title=f"{report['benchmark']}: acc@1 by part, and the mean over parts (percent)")
    for heading in ("mode", "system"):
        table.add_column(heading)
    for heading in [*(p for p in parts if p != "mean"), "mean", "95 % interval", "mean acc@5"]:
        table.add_column(heading, justify="right")
    by_row: dict[tuple[str, str], dict[str, Any]] = {}
    for e in report["entries"]:
        by_row.setdefault((e["mode"], e["system"]), {})[e["part"]] = e
    for (mode, system), found in by_row.items():
        mean = found.pop("mean")
        cells = [_percent(e["acc@1"]) + ("†" if e["saturated"] else "") for e in found.values()]
        interval = "–".join(map(_percent, mean["ci95"]))
        table.add_row(mode, system, *cells, _percent(mean["acc@1"]), interval, _percent(mean["acc@5"]))
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
