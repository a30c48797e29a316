"""Measure systems on a benchmark: every part, every protocol, and the tests between systems."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from biomodels.artifacts import digest_json
from biomodels.errors import InputError
from biomodels.evaluation.entity_linking.benchmark import Benchmark, Part
from biomodels.evaluation.entity_linking.figures import comparisons, figures, hardest, mean_figures
from biomodels.evaluation.entity_linking.protocols import (
    Found,
    Mode,
    Task,
    answer,
    fair_task,
    reference_task,
)
from biomodels.evaluation.entity_linking.rankers import ExactMatch, Mixture, Ranker, TfIdf
from biomodels.evaluation.exact import Metric
from biomodels.terminology.normalise import Normaliser

EXACT, SPARSE = "exact match", "TF-IDF"
SATURATED = 0.7
"""From this share on that string equality finds, a figure says little about a model."""


class System(NamedTuple):
    """A way to answer a task: the model it uses, if any, and how it scores."""

    name: str
    model: str | None
    score: str
    ranker: Callable[[], Ranker]


@dataclass(frozen=True)
class Plan:
    """What is measured and how.

    Attributes:
        ks: depths of acc@k and recall@k.
        dense: model label → function of (task, metric) → its ranker.
        digests: model label → digest.
        mixture: weight of TF-IDF where it is mixed with a model; 0 for no mixture.
        exact_limit: names of a dictionary up to which rankers are exact; larger ones have no mixture, which needs the
            vectors of any name at hand.
        seed, resamples: of the bootstrap.
        errors: of a model, how many to list for each part and mode.
    """

    ks: Sequence[int]
    dense: Mapping[str, Callable[[Task, Metric], Any]]
    digests: Mapping[str, str]
    mixture: float
    exact_limit: int
    seed: int
    resamples: int
    errors: int


def tasks_of(benchmark: Benchmark, modes: Sequence[Mode], normalise: Normaliser) -> Iterator[tuple[Part, Task]]:
    """Yield every part under every protocol.

    Raises:
        InputError: `fair` was asked for where no dictionary is free of training mentions.
    """
    for part in benchmark.parts:
        for mode in modes:
            if mode == "fair" and part.terminology is None:
                raise InputError(
                    f"{benchmark.name}, part {part.name}: {part.dictionary.uri} holds training mentions, and beside it "
                    "is no train_dictionary.txt for the fair protocol; give one by --dictionary, or --mode reference"
                )
            yield part, reference_task(part) if mode == "reference" else fair_task(part, normalise)


def evaluate(
    benchmark: Benchmark, tasks: Sequence[tuple[Part, Task]], plan: Plan, on_progress: Callable[[str], object]
) -> dict[str, Any]:
    """Measure all systems.

    Args:
        benchmark: for its name.
        tasks: its parts under their protocols, see `tasks_of`.
        plan: what is measured.
        on_progress: told the part and system that was done.

    Returns:
        `entries`, one for each (benchmark, part, mode, system); `comparisons`; `errors`; `parts`, which describe the
        data.
    """
    entries: list[dict[str, Any]] = []
    tests: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    kept: dict[tuple[Mode, str], list[tuple[dict[str, Any], Task, list[Found]]]] = {}
    for part, task in tasks:
        where = {"benchmark": benchmark.name, "part": part.name, "mode": task.mode}
        answers: dict[str, list[Found]] = {}
        for system in _systems(task, plan):
            answers[system.name] = answer(task, system.ranker(), max(*plan.ks, 5))
            entry = where | _described(part, task, system, plan)
            entry |= figures(task, answers[system.name], plan.ks, seed=plan.seed, resamples=plan.resamples)
            entries.append(entry)
            kept.setdefault((task.mode, system.name), []).append((entry, task, answers[system.name]))
            on_progress(f"{part.name} {system.name}")
            if system.model:
                wrong = hardest(task, answers, system.name, plan.errors)
                errors += [where | {"system": system.name} | row for row in wrong]
        tests += [where | row for row in comparisons(answers)]
    if len(benchmark.parts) > 1:
        for rows in kept.values():
            first = rows[0][0]
            entry = {key: first[key] for key in ("benchmark", "mode", "system", "score", "unit", "model")}
            entry |= {"part": "mean", "data": digest_json([row[0]["data"] for row in rows])}
            answered = [(task, found) for _, task, found in rows]
            entries.append(
                entry | mean_figures([row[0] for row in rows], answered, seed=plan.seed, resamples=plan.resamples)
            )
    _mark_saturated(entries)
    return {"entries": entries, "comparisons": tests, "errors": errors, "parts": _parts(tasks)}


def _systems(task: Task, plan: Plan) -> Iterator[System]:
    """Yield the baselines, then each model. In the reference protocol a model scores by inner product, and once more
    by cosine, which tells how much of a figure is the score alone."""
    yield System(EXACT, None, "equality", lambda: ExactMatch(task.names))
    sparse = TfIdf(task.names, ties="last" if task.mode == "reference" else "first")
    yield System(SPARSE, None, "cosine", lambda: sparse)
    for label, dense in plan.dense.items():
        if task.mode == "reference":
            yield System(label, label, "ip", partial(dense, task, "ip"))
            yield System(f"{label}, cosine", label, "cosine", partial(dense, task, "cosine"))
        else:
            yield System(label, label, "cosine", partial(dense, task, "cosine"))
        if plan.mixture and len(task.names) <= plan.exact_limit:
            yield System(
                f"{SPARSE} + {label}",
                label,
                f"{plan.mixture:g} {SPARSE} + {1 - plan.mixture:g} cosine",
                partial(_mixture, sparse, dense, task, plan.mixture),
            )


def _mixture(sparse: TfIdf, dense: Callable[[Task, Metric], Any], task: Task, weight: float) -> Mixture:
    return Mixture(sparse, dense(task, "cosine"), weight)


def _described(part: Part, task: Task, system: System, plan: Plan) -> dict[str, Any]:
    return {
        "system": system.name,
        "score": system.score,
        "unit": "concept" if task.mode == "fair" else "name",
        "model": plan.digests[system.model] if system.model else None,
        "data": digest_json({"mentions": part.digest, "dictionary": task.dictionary.sha256}),
    }


def _mark_saturated(entries: list[dict[str, Any]]) -> None:
    """Say of every entry whether string equality alone already answers most of its queries, and why."""
    exact = {(e["part"], e["mode"]): e["acc@1"] for e in entries if e["system"] == EXACT}
    for entry in entries:
        share = exact[entry["part"], entry["mode"]]
        entry["saturated"] = None
        if share >= SATURATED:
            fair = exact.get((entry["part"], "fair"))
            without = "" if entry["mode"] == "fair" or fair is None else f"; {fair:.1%} under the fair protocol"
            entry["saturated"] = f"string equality alone finds {share:.1%}{without}"


def _parts(tasks: Sequence[tuple[Part, Task]]) -> list[dict[str, Any]]:
    rows = []
    for part, task in tasks:
        known = frozenset().union(*set(task.dictionary.ids))
        names = set(task.names)
        reachable = [not known.isdisjoint(frozenset().union(*query.gold)) for query in task.queries]
        rows.append(
            {
                "part": part.name,
                "mode": task.mode,
                "mentions": len(part.mentions),
                "queries": len(task.queries),
                "composite": sum(len(query.parts) > 1 for query in task.queries),
                "unseen": int(task.unseen.sum()) if task.unseen is not None else None,
                "gold_in_dictionary": sum(reachable),
                "in_dictionary": sum(all(text in names for text in query.parts) for query in task.queries),
                "mentions_digest": part.digest,
                "dictionary": {
                    "sha256": task.dictionary.sha256,
                    "lines": len(task.dictionary.texts),
                    "names": len(task.names),
                    "concepts": len(set(task.dictionary.ids)),
                },
            }
        )
    return rows
