"""`index`: embeddings → FAISS shards under one coarse quantizer, names and concepts beside them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from biomodels import shuffle, storage
from biomodels.artifacts import Artifact, ArtifactBuilder, FileEntry, Manifest, canonical_json
from biomodels.errors import InputError
from ray_jobs.config import JobConfig
from ray_jobs.progress import bar, say
from ray_jobs.session import session
from ray_jobs.tasks import each, kept_files

if TYPE_CHECKING:
    from biomodels.index.build import Plan

EXAMPLE = "python -m ray_jobs index --embeddings data/hpo/embeddings --out data/hpo/index --shards 4"
RECALL = "recall.json"
CONCEPTS_PER_FILE = 1 << 20


class Config(JobConfig):
    """Options of `index`."""

    placement: ClassVar[frozenset[str]] = JobConfig.placement | {"embeddings"}

    embeddings: str = Field(description="`embeddings` artifact, as `embed` writes it")
    out: str = Field(description="directory or URI of the index; the same command goes on where it was stopped")
    factory: str | None = Field(
        default=None,
        description="FAISS factory string, such as IVF4096,SQ8; by default Flat below 10,000 names, else IVF with a "
        "power of two of lists below 8·√N, as Flat below a million names and SQ8 above",
    )
    shards: int = Field(default=4, ge=1, le=999, description="files that the vectors are cut into")
    metric: Literal["cosine", "ip"] = Field(default="cosine", description="cosine scales vectors and queries to 1")
    target_recall: float = Field(default=0.99, gt=0, le=1, description="recall@10 that decides the default nprobe")
    recall_queries: int = Field(default=1000, ge=1, description="stored vectors by which recall is measured, about")
    seed: int = Field(default=13, ge=0, lt=1 << 31, description="of the samples and of k-means")
    train_sample: int | None = Field(
        default=None, ge=1, description="vectors to train on, about; by default 64 per list, at least 65,536"
    )


def main(config: Config) -> Manifest:
    """Build a sharded FAISS index of an `embeddings` artifact.

    The coarse quantizer is trained once and shared, so that the shards answer as one index. The number of lists that
    a search visits is chosen by measuring recall against exact search.
    """
    from biomodels.index import build
    from biomodels.index.factory import check_size, default_factory, new_index
    from biomodels.index.sharded import KIND
    from biomodels.inference import parts

    embeddings = Artifact.open(config.embeddings, parts.KIND)
    facts = embeddings.facts
    if not facts["strings"]:
        raise InputError(f"{config.embeddings}: has no vectors; nothing can be indexed")
    factory = config.factory or default_factory(facts["strings"])
    check_size(new_index(factory, facts["dimension"]), factory, facts["strings"])
    builder = ArtifactBuilder.begin(
        config.out,
        KIND,
        config=config.byte_config() | {"factory": factory},
        inputs={"embeddings": embeddings.digest},
    )
    if builder.finished:
        say(f"{config.out}: finished before, nothing to do")
        return builder.finished
    plan = build.Plan(
        embeddings=embeddings,
        builder=builder,
        factory=factory,
        metric=config.metric,
        shards=config.shards,
        seed=config.seed,
        train_sample=config.train_sample,
        concept_bits=shuffle.part_bits(facts["names"], CONCEPTS_PER_FILE, 10),
    )
    seconds: dict[str, float] = {}
    with session(config.num_cpus):
        files = _build(plan, seconds)
        recall = _measure(plan, files["strings"], config, seconds)
    point = next(point for point in recall["curve"] if point["nprobe"] == recall["nprobe"])
    copied = ("model_digest", "spec", "dimension", "normaliser")
    manifest = builder.commit(
        {
            **{key: facts[key] for key in copied},
            **{key: sum(entry.rows or 0 for entry in entries) for key, entries in files.items()},
            **point,
            "metric": config.metric,
            "factory": factory,
            "shards": config.shards,
            "concept_bits": plan.concept_bits,
        },
        run={"seconds": seconds, **_model_of(config.embeddings)},
    )
    say(
        f"{config.out}: {factory} in {config.shards} shards; nprobe {point['nprobe']} finds "
        f"{point['recall_at_10']:.4f} of the 10 nearest (curve in {storage.join(config.out, 'recall.png')})"
    )
    return manifest


def _model_of(embeddings: str) -> dict[str, str]:
    """Return where the model of the embeddings was, so that the service finds it without being told."""
    path = storage.join(embeddings, "run.json")
    record = storage.read_json(path) if storage.exists(path) else {}
    return {"model": record["model"]} if "model" in record else {}


def _build(plan: Plan, seconds: dict[str, float]) -> dict[str, list[FileEntry]]:
    """Write every file but the measurements; return the files of strings (vectors), names and concepts."""
    from biomodels.index import build
    from biomodels.index.sharded import concepts_file, names_file, shard_file

    def stage(
        label: str, unit: str, path: Callable[[int], str], count: int, write: Callable[[int], FileEntry]
    ) -> list[FileEntry]:
        started = time.monotonic()
        paths = [path(number) for number in range(count)]
        entries = kept_files(plan.builder, paths)
        done = [entry for entry in entries if entry]
        todo = [(number,) for number, entry in enumerate(entries) if not entry]
        rows = sum(entry.rows or 0 for entry in done)
        if done:
            say(f"kept {len(done)} of {count} files of {label}: {rows:,} {unit} not done again")
        with bar(label, count, "files", done=len(done)) as progress:
            for entry in each(write, todo):
                done.append(entry)
                progress.update(1)
        seconds[label] = round(time.monotonic() - started, 2)
        return sorted(done, key=lambda entry: entry.path)

    template = stage("training", "files", lambda _: build.TEMPLATE, 1, lambda _: build.train(plan))[0]
    return {
        "strings": stage("vectors", "strings", shard_file, plan.shards, lambda i: build.fill_shard(plan, template, i)),
        "names": stage("names", "names", names_file, plan.shards, lambda i: build.write_names(plan, i)),
        "concepts": stage(
            "concepts", "concepts", concepts_file, 1 << plan.concept_bits, lambda i: build.write_concepts(plan, i)
        ),
    }


def _measure(plan: Plan, shards: list[FileEntry], config: Config, seconds: dict[str, float]) -> dict[str, Any]:
    """Measure recall over nprobe, choose nprobe, and write `recall.json` and, outside the identity, `recall.png`."""
    import ray

    from biomodels.index import build, recall

    builder = plan.builder
    target = storage.join(builder.uri, RECALL)
    if builder.kept(RECALL):
        kept: dict[str, Any] = storage.read_json(target)
        return kept
    started = time.monotonic()
    queries = ray.put(next(each(build.sample, [(plan, config.recall_queries, 1)])))
    truths = []
    with bar("exact neighbours", plan.shards, "shards") as progress:
        for truth in each(
            lambda given, shard: recall.exact(given, build.read_shard(plan, shard)),
            [(queries, shard) for shard in range(plan.shards)],
        ):
            truths.append(truth)
            progress.update(1)
    measured = next(each(_calibrate, [(plan, shards, queries, truths, config.target_recall)]))
    builder.publish(RECALL, lambda local: Path(local).write_bytes(canonical_json(measured)) and None)
    storage.publish_bytes(recall.plot(measured, plan.factory), storage.join(builder.uri, "recall.png"))
    if not measured["reached"]:
        say(f"recall@10 of {config.target_recall} is out of reach for {plan.factory}: see {target}")
    seconds["recall"] = round(time.monotonic() - started, 2)
    return measured


def _calibrate(plan: Plan, files: list[FileEntry], queries: Any, truths: list[Any], target: float) -> dict[str, Any]:
    """Search the new shards as `ShardedIndex` does, with more and more lists."""
    from biomodels.index import recall
    from biomodels.index.cache import local_file
    from biomodels.index.factory import lists_of, new_index
    from biomodels.index.shards import Shards, merge_topk

    paths = {number: local_file(plan.builder.uri, entry) for number, entry in enumerate(files)}
    lists = lists_of(new_index(plan.factory, plan.dimension))
    truth = merge_topk(truths, recall.WIDTH)
    return recall.calibrate(Shards(paths, plan.dimension).search, queries, truth, lists=lists, target=target)
