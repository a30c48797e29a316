"""The job `evaluate cross-encoder`: every measure of one or more models, from files of their scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from biomodels import storage
from biomodels.artifacts import Artifact, ArtifactBuilder
from biomodels.errors import InputError, UsageError
from biomodels.schemas import SCHEMA_VERSION
from ray_jobs.config import CommaList, JobConfig
from ray_jobs.inputs import input_digest

if TYPE_CHECKING:
    from biomodels.evaluation.cross_encoder import Answers, Evaluation, Pairs
    from biomodels.evaluation.deployment import Corpus, Truth
    from biomodels.evaluation.pair_scores import PairScores

EXAMPLE = "python -m ray_jobs evaluate cross-encoder --scores data/scores --labelled data/labelled --out report/"

ROLES = ("threads", "candidates", "truth", "sample", "answers")
DEFAULT_MODEL = "model"


def _split(value: Any) -> Any:
    return [item for item in value.split(",") if item.strip()] if isinstance(value, str) else value


Thresholds = Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], BeforeValidator(_split), Field(min_length=1)]
Depths = Annotated[tuple[Annotated[int, Field(ge=1)], ...], BeforeValidator(_split), Field(min_length=1)]


class Config(JobConfig):
    """Options of the job."""

    placement: ClassVar[frozenset[str]] = JobConfig.placement | {"scores", "labelled", *ROLES}

    scores: CommaList = Field(
        min_length=1,
        description="scores of one or more runs: `scores` datasets, Parquet or JSON lines (pmid, g2p_ids, scores); "
        "NAME=PATH names a model, and runs of one name are its seeds",
    )
    labelled: str = Field(description="`labelled_pairs` dataset")
    out: str = Field(description="directory of the report: report.html, report.json, CSV tables, PNG plots")
    split: Literal["test", "dev", "train"] = Field("test", description="labelled pairs that are measured")
    threads: str | None = Field(None, description="`threads` dataset: the panel, and which entries are siblings")
    candidates: str | None = Field(
        None, description="`candidates` dataset of the gate; by default what was scored counts as the candidates"
    )
    truth: str | None = Field(
        None,
        description="frozen truth, JSON lines or CSV: pmid, g2p_id; optional source, in_scope (or scope_category)",
    )
    sample: str | None = Field(None, description="`articles` dataset of sampled abstracts, for the fire rate")
    answers: str | None = Field(
        None, description="judged answers, JSON lines or CSV: pmid, g2p_id, right; optional second, stratum"
    )
    thresholds: Thresholds = Field((0.5, 0.7, 0.8, 0.9, 0.95), description="fixed thresholds")
    main_threshold: float = Field(0.5, ge=0, le=1, description="threshold of intervals, tests and provenances")
    answers_threshold: float = Field(0.9, ge=0, le=1, description="threshold of the audit")
    ks: Depths = Field((1, 3, 5), description="depths of top-k")
    sweep_step: float = Field(0.01, ge=0.001, le=0.45, description="step of the sweep from 0.05 to 0.95")
    bins: int = Field(15, ge=1, description="bins of the reliability curve")
    resamples: int = Field(2000, ge=100, description="resamples of the bootstrap")
    seed: int = Field(13, description="of the bootstrap")
    unscored: Literal["error", "negative"] = Field(
        "error", description="what a labelled pair without a score is: an error, or one that does not pass"
    )
    folds: bool = Field(
        False, description="the scores of the training split are out of fold: report F1 per fold, and Friedman's test"
    )


def main(config: Config) -> Artifact:
    """Measure cross-encoders from their scores, and write tables, plots and one HTML page.

    Always: precision, recall, F1, F0.5 and average precision at fixed thresholds, intervals by bootstrap of articles,
    the threshold sweep, top-k, calibration. With --truth and --sample: recall, fire rate and the choice of a
    threshold. With several models: McNemar, Cochran's Q and Holm. With --answers: an audit.
    """
    runs = _runs(config.scores)
    inputs = {
        f"scores-{name}-{i}": input_digest(uri, "scores") for name, uris in runs.items() for i, uri in enumerate(uris)
    }
    inputs["labelled"] = input_digest(config.labelled, "labelled")
    inputs |= {role: input_digest(uri, role) for role in ROLES if (uri := getattr(config, role))}
    builder = ArtifactBuilder.begin(
        storage.absolute(config.out),
        "cross_encoder_evaluation",
        config=config.byte_config() | {"models": list(runs)},
        inputs=inputs,
        schema_version=SCHEMA_VERSION,
    )
    if builder.finished is None:
        _publish(builder, _evaluate(config, runs))
    report = Artifact.open(builder.uri, builder.kind)
    _show(report)
    return report


def _runs(given: tuple[str, ...]) -> dict[str, list[str]]:
    """Return model → its seeds' scores, in the given order.

    Raises:
        UsageError: one path is given twice.
    """
    runs: dict[str, list[str]] = {}
    for item in given:
        name, separator, uri = item.partition("=")
        runs.setdefault(name if separator else DEFAULT_MODEL, []).append(storage.absolute(uri if separator else item))
    uris = [uri for mine in runs.values() for uri in mine]
    if len(set(uris)) < len(uris):
        raise UsageError(f"--scores: {max(uris, key=uris.count)} is given twice")
    return runs


def _evaluate(config: Config, runs: dict[str, list[str]]) -> Evaluation:
    """Read everything and make all tables."""
    import numpy as np

    from biomodels.evaluation import cross_encoder, deployment
    from biomodels.evaluation.score_files import read_scores
    from biomodels.literature.dataset_inputs import read_panel
    from ray_jobs.progress import bar

    labelled = Artifact.open(config.labelled, "labelled_pairs")
    test, dev = _pairs(labelled, config.split), _pairs(labelled, "dev")
    if not len(test.labels):
        raise InputError(f"{config.labelled}: has no labelled pair in the {config.split} split; give another --split")
    folds = _pairs(labelled, "train")
    folds = folds.where(folds.folds >= 0)
    if config.folds and not len(folds.labels):
        raise InputError(f"{config.labelled}: has no folds; build it with --folds")
    truth = _truth(config.truth) if config.truth else None
    corpus = _corpus(config.sample) if config.sample else None
    answers = _answers(config.answers, config.answers_threshold) if config.answers else None
    parts = [test, dev, truth, corpus, answers, folds if config.folds else None]
    wanted = np.unique(np.concatenate([part.pmids for part in parts if part is not None]))
    gate = deployment.Gate(_candidates(config.candidates, wanted) if config.candidates else None)
    models: dict[str, list[PairScores]] = {name: [] for name in runs}
    with bar("scores", sum(map(len, runs.values())), "runs") as progress:
        for name, uris in runs.items():
            for uri in uris:
                models[name].append(read_scores(uri, wanted))
                progress.update()
    step = config.sweep_step
    report = cross_encoder.Evaluation(
        models,
        cross_encoder.Settings(
            thresholds=config.thresholds,
            main=config.main_threshold,
            grid=[round(0.05 + i * step, 6) for i in range(int(0.9 / step + 1e-9) + 1)],
            ks=sorted(set(config.ks)),
            bins=config.bins,
            resamples=config.resamples,
            seed=config.seed,
            unscored=config.unscored,
        ),
    )
    report.facts |= {
        "split": config.split,
        "pairs": len(test.labels),
        "positive": int(test.labels.sum()),
        "articles": len(np.unique(test.pmids)),
    }
    entries = read_panel(Artifact.open(config.threads, "threads"))[0].entries if config.threads else None
    cross_encoder.classify(report, test)
    cross_encoder.compare(report, test)
    if config.folds:
        cross_encoder.compare_folds(report, folds)
    deployment.rank(report, test, entries, gate)
    deployment.benchmark(report, truth, corpus, gate)
    cross_encoder.calibrate(report, test, dev)
    if answers is not None:
        cross_encoder.audit_answers(report, answers)
    return report


def _pairs(labelled: Artifact, split: str) -> Pairs:
    """Return a split's labelled pairs, without negatives that were made."""
    import numpy as np
    import pyarrow as pa

    from biomodels.artifacts import batches
    from biomodels.evaluation.cross_encoder import Pairs
    from biomodels.literature.pairs import POSITIVE
    from biomodels.schemas import LABELLED_PAIRS

    columns = ["pmid", "g2p_id", "label", "provenance", "fold"]
    schema = pa.schema([LABELLED_PAIRS.field(name) for name in columns])
    table = pa.Table.from_batches(batches(labelled, columns, f"{split}/"), schema=schema)
    provenance = np.array(table["provenance"].to_pylist(), dtype=np.str_)
    pairs = Pairs(
        table["pmid"].to_numpy(),
        np.array(table["g2p_id"].to_pylist(), dtype=np.str_),
        table["label"].to_numpy() >= POSITIVE,
        provenance,
        table["fold"].fill_null(-1).to_numpy().astype(np.int64),
    )
    return pairs.where(~np.isin(provenance, ["corpus", "sibling", "mined"]))


def _truth(uri: str) -> Truth:
    import numpy as np

    from biomodels.evaluation.deployment import Truth
    from biomodels.literature.pair_files import TruthPair, read_all

    rows = list(dict.fromkeys((row.pmid, row.g2p_id, row.source, row.scope) for _, row in read_all(uri, TruthPair)))
    pmids, ids, sources, scopes = zip(*rows, strict=True)
    told = any(scope is not None for scope in scopes)
    return Truth(
        np.array(pmids, dtype=np.int64),
        np.array(ids, dtype=np.str_),
        np.array(sources, dtype=np.str_),
        np.array([bool(scope) for scope in scopes]) if told else None,
    )


def _corpus(uri: str) -> Corpus:
    import numpy as np

    from biomodels.artifacts import batches
    from biomodels.evaluation.deployment import Corpus

    tables = list(batches(Artifact.open(uri, "articles"), ["pmid", "year"], "part-"))
    pmids = [pmid for batch in tables for pmid in batch["pmid"].to_pylist()]
    return Corpus(np.array(pmids, dtype=np.int64), [year for batch in tables for year in batch["year"].to_pylist()])


def _answers(uri: str, threshold: float) -> Answers:
    import numpy as np

    from biomodels.evaluation.cross_encoder import Answers
    from biomodels.literature.pair_files import Answer, read_all

    rows = [row for _, row in read_all(uri, Answer)]
    return Answers(
        np.array([row.pmid for row in rows], dtype=np.int64),
        np.array([row.g2p_id for row in rows], dtype=np.str_),
        np.array([row.right for row in rows]),
        [row.second for row in rows],
        [row.stratum for row in rows],
        threshold,
    )


def _candidates(uri: str, pmids: Any) -> dict[int, list[str]]:
    from biomodels.literature.dataset_inputs import passing

    found = passing(Artifact.open(uri, "candidates"), pmids.tolist())
    return {pmid: gated.g2p_ids for pmid, gated in found.items()}


def _publish(builder: ArtifactBuilder, report: Evaluation) -> None:
    """Write the report in all its forms, and commit."""
    from biomodels.evaluation.cross_encoder_plots import draw
    from biomodels.evaluation.report import finite, to_csv, to_html, to_json

    plots = draw(report.tables)
    files = {f"{table.name}.csv": to_csv(table) for table in report.tables}
    files |= {f"{plot.name}.png": plot.png for plot in plots}
    files["report.json"] = to_json(report.facts | {"skipped": report.skipped}, report.tables)
    files["report.html"] = to_html("Cross-encoder", report.facts, report.skipped, report.tables, plots)
    for path, content in files.items():
        builder.publish_bytes(path, content)
    builder.commit({"facts": finite(report.facts), "skipped": report.skipped, "metrics": finite(_main_rows(report))})


def _main_rows(report: Evaluation) -> list[dict[str, Any]]:
    return [dict(row) for table in report.tables if table.name == "metrics" for row in table.rows]


def _show(report: Artifact) -> None:
    """Print the main table, and where the rest is."""
    from rich.console import Console
    from rich.table import Table

    shown = ("model", "seed", "threshold", "precision", "recall", "f1", "f05", "ap")
    facts = report.facts["facts"]
    title = (
        f"{facts['split']}: {facts['pairs']:,} pairs, {facts['positive']:,} positive, of {facts['articles']:,} articles"
    )
    table = Table(title=title)
    for name in shown:
        table.add_column(name, justify="left" if name == "model" else "right")
    for row in report.facts["metrics"]:
        cells = (row[name] for name in shown)
        table.add_row(
            *("–" if cell is None else f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in cells)
        )
    console = Console()
    console.print(table)
    for note in report.facts["skipped"]:
        console.print(f"skipped: {note}", markup=False)
    console.print(f"report: {storage.join(report.uri, 'report.html')}", markup=False)
