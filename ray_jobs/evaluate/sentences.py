"""The job `evaluate sentences`: a model on the benchmarks of sentence embeddings, as SimCSE's evaluation does it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from biomodels import storage
from biomodels.errors import UsageError
from biomodels.sentences.benchmarks import MissingBenchmarkError
from biomodels.sentences.poolers import POOLERS, Pooler
from ray_jobs.config import CommaList, JobConfig

EXAMPLE = "python -m ray_jobs evaluate sentences --model models/m1 --data data --task-set sts --out report.json"
LENGTH = 512  # SentEval cuts nothing; BERT's positions end here


class Config(JobConfig):
    """Options of the job."""

    placement: ClassVar[frozenset[str]] = JobConfig.placement | {"model", "data"}

    model: str | None = Field(None, description="model directory or Hugging Face Hub name")
    baseline: Literal["tf-idf"] | None = Field(None, description="instead of a model; for similarity only")
    data: str = Field(description="directory that holds the benchmarks, in SentEval's layout or another")
    out: str = Field(description="where the JSON report goes")
    task_set: Literal["sts", "transfer", "full", "na"] | None = Field(
        None, description="a table of the SimCSE paper, both, or na for --tasks alone; sts unless --tasks is given"
    )
    tasks: CommaList = Field(
        (),
        description="tasks to run: STS12 to STS16, STSBenchmark, SICKRelatedness, MR, CR, SUBJ, MPQA, SST2, TREC, "
        "MRPC; BIOSSES, negation, antonym (probes), alignment (and uniformity), STSBenchmark-de and other languages",
    )
    mode: Literal["test", "dev", "fasttest"] = Field(
        "test",
        description="test as in the paper; dev: development sets; fasttest: test sets, classifiers fitted faster",
    )
    pooler: Pooler | None = Field(None, description="instead of what the model records; cls if it records nothing")
    max_length: int | None = Field(None, ge=3, description=f"tokens per text; what the model records, else {LENGTH}")
    precision: Literal["float32", "bf16", "fp16"] = Field("float32", description="of the forward pass")
    resamples: int = Field(1000, ge=0, description="of the bootstrap intervals; 0 for none")
    seed: int = Field(0, description="of the bootstrap intervals")
    num_cpus: int | None = Field(None, ge=1, description="threads of the encoder; by default one per core")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        from biomodels.evaluation.sentences import EXTRAS, STS, TRANSFER

        if (self.model is None) == (self.baseline is None):
            raise ValueError("give exactly one of --model, --baseline")
        if self.task_set == "na" and not self.tasks:
            raise ValueError("--task-set na needs --tasks")
        if self.tasks and self.task_set not in (None, "na"):
            raise ValueError(f"--tasks goes with --task-set na, not with {self.task_set}")
        known = {*STS, *TRANSFER, *EXTRAS[:-1]}
        for task in self.tasks:
            if task not in known and not re.fullmatch(r"STSBenchmark-[a-z]{2,3}(-[A-Za-z]+)?", task):
                raise ValueError(f"--tasks: there is no {task!r}; there are {', '.join([*STS, *TRANSFER, *EXTRAS])}")
        return self

    @property
    def chosen(self) -> tuple[str, ...]:
        """The tasks to run, in the order of SimCSE's tables."""
        from biomodels.evaluation.sentences import STS, TASK_SETS, TRANSFER

        if self.tasks:
            rank = {task: place for place, task in enumerate((*STS, *TRANSFER))}
            return tuple(sorted(dict.fromkeys(self.tasks), key=lambda task: rank.get(task, len(rank))))
        return TASK_SETS[self.task_set or "sts"]


def main(config: Config) -> dict[str, Any]:
    """Measure a model on STS and transfer benchmarks with the protocol of SimCSE's evaluation.

    Prints the tables of the paper, and writes all figures to a JSON report. STS12 to STS16 are scored over their
    subsets together. A benchmark whose files are not there is n/a, and left out of the average.
    """
    from biomodels.evaluation import sentences
    from ray_jobs.progress import bar, say

    if Path(config.out).is_dir():
        raise UsageError(f"--out {config.out}: is a directory; give the name of the report file")
    storage.make_parent(config.out)
    files = sentences.data_files(config.data)
    model, encoded = _model(config)
    results: dict[str, dict[str, Any]] = {}
    with bar("evaluate", len(config.chosen), "tasks") as progress:
        for task in config.chosen:
            try:
                results[task] = _evaluate(config, files, task, encoded)
            except MissingBenchmarkError as error:
                results[task] = {"kind": "n/a", "reason": str(error)}
                say(f"{task}: n/a: {error}")
            for warning in results[task].get("warnings", ()):
                say(f"warning: {warning}; results may not compare")
            progress.update()
    report = {
        "kind": "sentence_evaluation",
        "model": model,
        "config": config.byte_config() | {"tasks": list(config.chosen)},
        "files": files.digests(),
        "results": results,
        "averages": {
            name: _average(results, tasks) for name, tasks in (("sts", sentences.STS), ("transfer", sentences.TRANSFER))
        },
    }
    storage.publish_bytes((json.dumps(_plain(report), indent=1, sort_keys=True) + "\n").encode(), config.out)
    _show(config, report)
    return report


def _model(config: Config) -> tuple[dict[str, Any], Any]:
    """Return what is reported of the model, and the model."""
    from biomodels.evaluation.sentences import Encoded

    if config.model is None:
        return {"baseline": config.baseline}, None
    from biomodels.inference.text_encoder import TextEncoder
    from biomodels.models.spec import most_tokens, records_pooling, resolve_model
    from ray_jobs.progress import say

    directory = resolve_model(config.model)
    recorded = records_pooling(directory)
    pooler = config.pooler or (None if recorded else "cls")
    if not (recorded or config.pooler):
        say(f"{config.model} records no pooler; cls is used. --pooler chooses another")
    length = config.max_length or (None if recorded else LENGTH)
    encoder = TextEncoder(
        config.model,
        precision=config.precision,
        pooling=None if pooler is None else POOLERS[pooler],
        max_length=None if length is None else min(length, most_tokens(directory)),
        threads=config.num_cpus,
    )
    return {"digest": encoder.digest, **encoder.spec.model_dump()}, Encoded(encoder.encode)


def _evaluate(config: Config, files: Any, task: str, encoded: Any) -> dict[str, Any]:
    from biomodels.evaluation import sentences
    from biomodels.evaluation.similarity import tfidf_cosines
    from ray_jobs.progress import bar

    cosines = tfidf_cosines if encoded is None else encoded.cosines
    if task in sentences.PROBES:
        return sentences.evaluate_probe(files, task, cosines)
    if task in sentences.TRANSFER or task == "alignment":
        if encoded is None:
            raise MissingBenchmarkError("the baseline makes no vectors, only similarities")
        if task == "alignment":
            return sentences.evaluate_alignment(files, config.mode, encoded)
        with bar(task, sentences.expected_fits(task, config.mode), "fits") as progress:
            return sentences.evaluate_transfer(files, task, config.mode, encoded, progress.update)
    return sentences.evaluate_sts(files, task, config.mode, cosines, seed=config.seed, resamples=config.resamples)


def _average(results: dict[str, dict[str, Any]], tasks: Sequence[str]) -> dict[str, Any] | None:
    """Return the mean of the scores that there are, and which they are; None if there are none."""
    found = [task for task in tasks if "score" in results.get(task, {})]
    return {"score": sum(results[task]["score"] for task in found) / len(found), "over": found} if found else None


def _plain(value: Any) -> Any:
    """Return a report in which figures that are undefined (NaN) are null, as JSON needs."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _show(config: Config, report: dict[str, Any]) -> None:
    """Print the tables of the original's evaluation, and what there is beside them."""
    from biomodels.evaluation.sentences import STS, TRANSFER

    results = report["results"]
    print(f"------ {config.mode} ------")
    for name, tasks in (("sts", STS), ("transfer", TRANSFER)):
        shown = [task for task in tasks if task in results]
        if shown:
            average = report["averages"][name]
            cells = [_cell(results[task].get("score")) for task in shown] + [_cell(average and average["score"])]
            _print_table([*shown, "Avg."], cells)
            missing = [task for task in shown if "score" not in results[task]]
            if missing and average:
                print(f"Avg. is over {len(average['over'])} tasks; n/a: {', '.join(missing)}")
    for task, result in results.items():
        if result["kind"] == "probe":
            print(
                f"{task}: contrary pairs have a mean cosine of {result['cosine']:.3f}, paraphrases "
                f"{result['paraphrase_cosine']:.3f}; {100 * result['fooled']:.0f} % of {result['pairs']} are above that"
            )
        elif result["kind"] == "alignment":
            print(f"alignment {result['alignment']:.3f}, uniformity {result['uniformity']:.3f} (lower is better)")
        elif task not in STS + TRANSFER:
            print(f"{task}: {_cell(result.get('score'))}")
    print(f"report: {config.out}")


def _cell(score: float | None) -> str:
    return "n/a" if score is None or math.isnan(score) else f"{score:.2f}"


def _print_table(headings: Sequence[str], cells: Sequence[str]) -> None:
    widths = [max(len(heading), len(cell)) + 2 for heading, cell in zip(headings, cells, strict=True)]
    rule = "+" + "+".join("-" * width for width in widths) + "+"
    rows = [
        "|" + "|".join(text.center(width) for text, width in zip(row, widths, strict=True)) + "|"
        for row in (headings, cells)
    ]
    print("\n".join([rule, rows[0], rule, rows[1], rule]))
