"""Job `build-dataset`: labelled pairs, articles, threads and gate candidates become the cross-encoder's dataset."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field, model_validator

from biomodels import storage
from biomodels.artifacts import Artifact, ArtifactBuilder, canonical_json
from biomodels.errors import InputError
from biomodels.literature.training_set import GroupBy
from biomodels.schemas import LABELLED_PAIRS, SCHEMA_VERSION
from ray_jobs.config import CommaList, JobConfig
from ray_jobs.inputs import input_digest

if TYPE_CHECKING:
    import pyarrow as pa

    from biomodels.literature.dataset_inputs import Labelled
    from biomodels.literature.training_set import Material, Plan, Row, TrainingSet

EXAMPLE = (
    "python -m ray_jobs build-dataset --pairs pairs.jsonl --articles data/articles --threads data/threads "
    "--candidates data/candidates --out data/labelled"
)
ROWS_PER_PART = 1 << 16
REPORT = "report.json"


class Config(JobConfig):
    """Options of `build-dataset`."""

    placement: ClassVar[frozenset[str]] = JobConfig.placement | {
        *("pairs", "articles", "threads", "candidates", "sample", "ranked", "exclude", "frozen", "max_reject_rate"),
    }

    pairs: CommaList = Field(
        min_length=1,
        description="files of labelled pairs, JSON lines or CSV: pmid, g2p_id (or g2p_lgmde), label; optional "
        "label_source, split (train, dev, test), title and abstract",
    )
    articles: str = Field(description="`articles` dataset: the texts")
    threads: str = Field(description="`threads` dataset: the entries")
    candidates: str | None = Field(None, description="`candidates` dataset of the gate; it gives the corpus negatives")
    sample: str | None = Field(
        None, description="dataset whose PMIDs may become corpus negatives; by default all of --candidates"
    )
    ranked: str | None = Field(
        None, description="ranked entries per article for hard negatives: a `scores` dataset, or JSON lines"
    )
    exclude: CommaList = Field((), description="files or datasets of PMIDs that corpus negatives must not come from")
    frozen: CommaList = Field(
        (), description="files or datasets of PMIDs of benchmarks; the job fails if a pair shares a PMID or text"
    )
    out: str = Field(description="directory of the dataset")
    group_by: GroupBy = Field("abstract", description="what no split cuts, besides texts and PMIDs")
    test: float = Field(0.2, ge=0, lt=1, description="share of the labelled pairs for the test split")
    dev: float = Field(0.1, ge=0, lt=1, description="share for the development split, which calibration is fitted on")
    folds: int = Field(0, ge=0, description="cross-validation folds of the training split")
    seed: int = Field(13, description="decides splits, folds, the corpus abstracts, and the order of rows")
    corpus_abstracts: int = Field(
        20_000, ge=0, description="corpus abstracts looked at; those that pass the gate become negatives"
    )
    siblings: bool = Field(True, description="make pairs of a positive's article and the other entries of its gene")
    sibling_label: float = Field(
        0.1, ge=0, lt=0.5, description="their label: above 0, since an unlabelled sibling may be true"
    )
    hard_negatives: int = Field(5, ge=0, description="hard negatives of an article with a positive pair")
    mining_skip: int = Field(
        5, ge=0, description="ranked entries, after the filters, that are too near to be negatives"
    )
    mining_depth: int = Field(50, ge=1, description="ranked entries, after the filters, that are looked at")
    mining_max_score: float = Field(0.95, description="ranked entries with a higher score are no negatives")
    mining_margin: float = Field(
        0.01, ge=0, lt=1, description="ranked entries within this share of the positive's score are no negatives"
    )
    max_reject_rate: float = Field(0.01, ge=0, le=1, description="share of malformed rows above which the job fails")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.test + self.dev >= 1:
            raise ValueError("--test and --dev together must leave something for training")
        if self.sample and not self.candidates:
            raise ValueError("--sample goes with --candidates only")
        return self

    def plan(self) -> Plan:
        """Return how the dataset is made."""
        from biomodels.literature.pairs import MiningRule
        from biomodels.literature.training_set import Plan

        return Plan(
            group_by=self.group_by,
            dev=self.dev,
            test=self.test,
            folds=self.folds,
            seed=self.seed,
            sibling_label=self.sibling_label if self.siblings else None,
            mining=MiningRule(
                self.hard_negatives, self.mining_skip, self.mining_depth, self.mining_max_score, self.mining_margin
            ),
        )


def main(config: Config) -> Artifact:
    """Build the dataset that a cross-encoder is trained and tested on.

    Labelled pairs are split by group; rows whose labels contradict each other are dropped on both sides. Negatives are
    made for the training split alone: same-gene siblings, hard negatives from ranked candidates, and corpus abstracts
    with their gate candidates. The job fails if a text or PMID were in two splits. report.json counts everything,
    rejects/ holds every row that was not used.
    """
    from biomodels.literature.dataset_inputs import read_labelled

    out = storage.absolute(config.out)
    articles = Artifact.open(storage.absolute(config.articles), "articles")
    threads = Artifact.open(storage.absolute(config.threads), "threads")
    candidates = Artifact.open(storage.absolute(config.candidates), "candidates") if config.candidates else None
    inputs = {"articles": articles.digest, "threads": threads.digest}
    if candidates is not None:
        inputs["candidates"] = candidates.digest
    for role in ("pairs", "exclude", "frozen"):
        inputs |= {f"{role}-{i}": input_digest(uri, role) for i, uri in enumerate(getattr(config, role))}
    inputs |= {role: input_digest(uri, role) for role in ("sample", "ranked") if (uri := getattr(config, role))}
    builder = ArtifactBuilder.begin(
        out, "labelled_pairs", config=config.byte_config(), inputs=inputs, schema_version=SCHEMA_VERSION
    )
    if builder.finished is None:
        labelled = read_labelled(config.pairs, threads, config.max_reject_rate)
        material, corpus = _material(config, builder, labelled, articles, candidates)
        _publish(config, builder, labelled, material, corpus)
    dataset = Artifact.open(out, "labelled_pairs")
    print(_summary(dataset))
    return dataset


def _material(
    config: Config, builder: ArtifactBuilder, labelled: Labelled, articles: Artifact, candidates: Artifact | None
) -> tuple[Material, dict[str, int]]:
    """Choose the corpus abstracts, read the ranked candidates, and fetch the texts of all.

    Returns:
        What the dataset is made of, and how many corpus abstracts were looked at, pass the gate, and are usable.
    """
    from biomodels.literature import dataset_inputs
    from biomodels.literature.pair_files import read_pmids, read_ranked
    from biomodels.literature.training_set import Material
    from ray_jobs.article_texts import fetch
    from ray_jobs.session import session

    named = {pair.pmid for pair in labelled.pairs}
    frozen = {pmid for uri in config.frozen for pmid in read_pmids(uri)}
    ranked = {row.pmid: row for row in (read_ranked(config.ranked) if config.ranked else ()) if row.pmid in named}
    dataset_inputs.check_entries((row.g2p_ids for row in ranked.values()), labelled.panel, "--ranked")
    chosen: set[int] = set()
    gated: dict[int, dataset_inputs.Gated] = {}
    if candidates is not None and config.corpus_abstracts:
        barred = {pmid for uri in config.exclude for pmid in read_pmids(uri)}
        barred |= frozen | named | {pair.pmid for pair in labelled.unknown} | labelled.cited
        sample = read_pmids(config.sample) if config.sample else None
        chosen = dataset_inputs.choose_corpus(candidates, sample, barred, config.corpus_abstracts, config.seed)
        gated = dataset_inputs.passing(candidates, chosen)
        dataset_inputs.check_entries((row.g2p_ids for row in gated.values()), labelled.panel, "--candidates")
    with session(config.num_cpus or max(2, len(os.sched_getaffinity(0)))):
        texts = dataset_inputs.read_texts(fetch(builder, articles, named | gated.keys() | frozen))
    frozen_texts = dataset_inputs.check_frozen(labelled, texts, frozen)
    usable = dataset_inputs.corpus_negatives_of(gated, texts, frozen_texts)
    material = Material(
        labelled.with_own_texts(texts.articles),
        labelled.panel,
        usable,
        {pmid: (row.g2p_ids, row.scores) for pmid, row in ranked.items()},
    )
    return material, {"abstracts": len(chosen), "passing_gate": len(gated), "usable": len(usable)}


def _publish(
    config: Config, builder: ArtifactBuilder, labelled: Labelled, material: Material, corpus: dict[str, int]
) -> None:
    """Build the rows, write them and the report, and commit."""
    from biomodels.literature.training_set import build, groups_of, table_of
    from biomodels.terminology.rejects import rejects_table

    usable = [pair for pair in labelled.pairs if pair.pmid in material.articles]
    made = build(usable, material, config.plan())
    _check_splits(config, made)
    rejects = rejects_table(labelled.rejects(material.articles, made.resolved))
    for split in ("train", "dev", "test"):
        rows = [row for row in made.rows if row.split == split]
        for part, table in enumerate(_parts(rows, material, config.seed)):
            path = f"{split}/part-{part:05d}.parquet"
            if builder.kept(path) is None:
                builder.publish_table(path, table)
    if rejects.num_rows:
        builder.publish_table("rejects/rejects.parquet", rejects)
    facts = {
        "rows": len(made.rows),
        "counts": table_of(made.rows),
        "groups": groups_of(made.rows),
        "given": labelled.given,
        "malformed": len(labelled.malformed),
        "not_used": {
            "unknown_entry": len(labelled.unknown),
            "no_text": len(labelled.pairs) - len(usable),
            "repeated": len(made.resolved.duplicates),
            "conflict": len(made.resolved.conflicts),
        },
        "conflicting_pairs": len({(material.digest_of[row.pmid], row.g2p_id) for row in made.resolved.conflicts}),
        "corpus": corpus,
        **made.counts,
    }
    builder.publish_bytes(REPORT, canonical_json({"group_by": config.group_by, "seed": config.seed, **facts}))
    builder.commit(facts)


def _check_splits(config: Config, made: TrainingSet) -> None:
    """See that no split came out empty."""
    present = {row.split for row in made.rows if row.pair.file}
    for split, share in (("train", 1.0), ("dev", config.dev), ("test", config.test)):
        if share and split not in present:
            raise InputError(f"no labelled pair is left for the {split} split; give more pairs or other shares")


def _parts(rows: list[Row], material: Material, seed: int) -> Iterator[pa.Table]:
    """Yield tables of at least ROWS_PER_PART rows, the last apart: lists in the order of a hash, none of them cut."""
    import pyarrow as pa

    from biomodels.terminology.normalise import keyed_hash

    order = {pmid: keyed_hash(seed, "order", pmid) for pmid in {row.pair.pmid for row in rows}}
    rows = sorted(rows, key=lambda row: (order[row.pair.pmid], row.pair.pmid, row.pair.g2p_id))
    start = 0
    for end in range(1, len(rows) + 1):
        last = end == len(rows)
        if last or (end - start >= ROWS_PER_PART and rows[end].pair.pmid != rows[end - 1].pair.pmid):
            yield pa.Table.from_pylist([_columns(row, material) for row in rows[start:end]], schema=LABELLED_PAIRS)
            start = end


def _columns(row: Row, material: Material) -> dict[str, Any]:
    pair = row.pair
    return {
        "text_a": material.articles[pair.pmid].text,
        "text_b": material.panel.threads[pair.g2p_id],
        "label": pair.label,
        "group": row.group,
        "list_id": str(pair.pmid),
        "split": row.split,
        "fold": row.fold,
        "provenance": pair.provenance,
        "pmid": pair.pmid,
        "g2p_id": pair.g2p_id,
    }


def _summary(dataset: Artifact) -> str:
    """Return what was made, for people."""
    facts = dataset.facts
    lines = []
    for split, provenances in facts["counts"].items():
        shown = ", ".join(
            f"{provenance} {'+'.join(f'{n:,} {label}' for label, n in labels.items())}"
            for provenance, labels in provenances.items()
        )
        total = sum(n for labels in provenances.values() for n in labels.values())
        lines.append(f"{split:<6}{total:>10,}   {shown}; groups: {facts['groups'][split]:,}")
    dropped = ", ".join(f"{n:,} {why.replace('_', ' ')}" for why, n in facts["not_used"].items() if n) or "none"
    lines.append(f"given {facts['given']:>10,}   labelled rows; malformed: {facts['malformed']:,}; not used: {dropped}")
    return "\n".join(lines)
