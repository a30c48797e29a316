"""The job `evaluate relations`: scores of relation extraction, with the split and its leakage always stated."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from biomodels import storage
from biomodels.artifacts import Artifact, ArtifactBuilder, digest_json
from biomodels.errors import InputError
from biomodels.evaluation.relation_predictions import Missing
from ray_jobs.config import CommaList, JobConfig

EXAMPLE = (
    "python -m ray_jobs evaluate relations --relations data/aimed --baseline bag-of-words --folds document --out report"
)

BASELINE = "bag-of-words"
MODEL, OTHER = "model", "other"


class Config(JobConfig):
    """Options of `evaluate relations`."""

    placement: ClassVar[frozenset[str]] = JobConfig.placement | {"predictions", "against", "relations", "train"}

    relations: str = Field(description="dataset of `shard relations`: the gold")
    out: str = Field(description="directory of the report: report.json, report.html, and the baseline's predictions")
    predictions: CommaList = Field(
        (),
        description="files of predictions (parquet, jsonl, csv, tsv): pair_id, score or label, optional relation_type "
        "and fold; several are taken together",
    )
    against: CommaList = Field((), description="predictions of another model, to test the difference")
    baseline: Literal["bag-of-words"] | None = Field(
        None, description="also train and score a logistic regression on words, and test the difference"
    )
    folds: str | None = Field(
        None,
        description="cross-validation: document, sentence or instance (what a fold does not cut), or published folds: "
        "a directory of test_N.json, or a table of id and fold [default: the predictions' column fold; without one, "
        "and without --train, the baseline uses document]",
    )
    k: int = Field(10, ge=2, description="number of folds that --folds makes")
    train: str | None = Field(
        None, description="dataset that was trained on: for the leakage report, and for the baseline instead of folds"
    )
    threshold: float = Field(0.5, description="a pair is found related if its score is at least this")
    missing: Missing = Field("refuse", description="what a pair without a prediction means: an error, or an answer no")
    resamples: int = Field(1000, ge=0, description="resamples of the interval of F1, by document; 0 for none")
    seed: int = Field(13, description="decides folds and resamples")

    @model_validator(mode="after")
    def _something_to_score(self) -> Self:
        if not self.predictions and not self.baseline:
            raise ValueError("give --predictions, --baseline bag-of-words, or both")
        if self.against and not self.predictions:
            raise ValueError("--against goes with --predictions")
        if self.train and self.folds:
            raise ValueError("give one of --train (a fixed split) and --folds")
        return self


def main(config: Config) -> dict[str, Any]:
    """Score predictions of related pairs, pooled and by fold, by type and by what makes pairs hard.

    The report says how the split was made, which sentences training and test part share, and the scores without them.
    The baseline needs no model: it is the floor.
    """
    relations = Artifact.open(config.relations, "relations")
    train = Artifact.open(config.train, "relations") if config.train else None
    builder = ArtifactBuilder.begin(
        storage.absolute(config.out),
        "relation_report",
        config=config.byte_config() | {"folds": None if _is_path(config.folds) else config.folds},
        inputs=_inputs(config, relations, train),
    )
    if builder.finished is None:
        _make(config, builder, relations, train)
    report: dict[str, Any] = storage.read_json(storage.join(builder.uri, "report.json"))
    from ray_jobs.evaluate.relation_report import show

    show(report)
    print(f"report     {builder.uri}/report.html")
    return report


def _make(config: Config, builder: ArtifactBuilder, relations: Artifact, train: Artifact | None) -> None:
    from biomodels.evaluation.relation_predictions import align, read_predictions
    from biomodels.relations.gold import Gold
    from ray_jobs.evaluate.relation_report import build, html_report
    from ray_jobs.evaluate.relation_split import Split, baseline_predictions

    gold = Gold.read(relations)
    if not len(gold):
        raise InputError(f"{config.relations}: holds no pair; there is nothing to score")
    tables = {
        name: read_predictions(uris) for name, uris in ((MODEL, config.predictions), (OTHER, config.against)) if uris
    }
    split = Split.of(
        gold, tables.get(MODEL), folds=config.folds, k=config.k, seed=config.seed, train=train, always=config.baseline
    )
    if config.baseline:
        tables[BASELINE] = baseline_predictions(builder, relations, train, gold, split, num_cpus=config.num_cpus)
    models = {
        name: align(table, gold.pair_ids, threshold=config.threshold, missing=config.missing, left_out=gold.left_out)
        for name, table in tables.items()
    }
    report = build(gold, models, split, seed=config.seed, resamples=config.resamples, threshold=config.threshold)
    text = json.dumps(report, indent=1, sort_keys=True, allow_nan=False) + "\n"
    _publish(builder, "report.json", text)
    _publish(builder, "report.html", html_report(report, gold, models))
    builder.commit({"f1": {name: scores["pooled"]["f1"] for name, scores in report["models"].items()}})


def _publish(builder: ArtifactBuilder, path: str, text: str) -> None:
    def write(local: str) -> None:
        with open(local, "w", encoding="utf-8", newline="\n") as sink:
            sink.write(text)

    builder.publish(path, write)


def _is_path(folds: str | None) -> bool:
    from biomodels.relations.folds import UNITS, check_unit

    return folds is not None and check_unit(folds) not in UNITS


def _inputs(config: Config, relations: Artifact, train: Artifact | None) -> dict[str, str]:
    """Return the digests of all that is read."""
    inputs = {"relations": relations.digest} | ({"train": train.digest} if train else {})
    for role, uris in (("predictions", config.predictions), ("against", config.against)):
        if uris:
            inputs[role] = digest_json([_sha256(uri) for uri in uris])
    if config.folds and _is_path(config.folds):
        from biomodels.relations.folds import read_folds

        inputs["folds"] = digest_json(read_folds(config.folds))
    return inputs


def _sha256(uri: str) -> str:
    try:
        return storage.sha256(uri)
    except OSError as error:
        raise InputError.at(uri, None, f"cannot be read ({error})", "check --predictions and --against") from error
