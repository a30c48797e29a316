"""`index`: embeddings → FAISS shards under one coarse quantizer, names and concepts beside them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import ByteSize, Field

from biomodels import shuffle, storage
from biomodels.artifacts import Artifact, ArtifactBuilder, FileEntry, Manifest, canonical_json
from biomodels.errors import CompatibilityError, InputError, UsageError
from ray_jobs.config import JobConfig
from ray_jobs.progress import bar, say
from ray_jobs.session import session
from ray_jobs.tasks import each, publish_each, timed

if TYPE_CHECKING:
    from biomodels.index.build import Plan
    from biomodels.index.choice import Sizes

EXAMPLE = "python -m ray_jobs index --embeddings data/hpo/embeddings --out data/hpo/index --shards 4"
RECALL = "recall.json"
CONCEPTS_PER_FILE = 1 << 20


class Config(JobConfig):
    """Options of `index`."""

    # What `--memory-budget` leads to is in the factory.
    placement: ClassVar[frozenset[str]] = JobConfig.placement | {"embeddings", "memory_budget", "plan", "template"}

    embeddings: str = Field(description="`embeddings` artifact, as `embed` writes it")
    out: str | None = Field(
        default=None, description="directory or URI of the index; the same command goes on where it was stopped"
    )
    factory: str = Field(
        default="auto",
        description="FAISS factory string, such as IVF4096,SQ8. auto: Flat below 10,000 names, else IVF with a "
        "power of two of lists below 8·√N, as Flat below a million names and SQ8 above, or what --memory-budget allows",
    )
    memory_budget: ByteSize | None = Field(
        default=None, description="memory for vectors, such as 8GB: auto takes the most exact codec that fits"
    )
    plan: bool = Field(
        default=False, description="only say what would be built, and its memory, disk, expected recall and time"
    )
    template: str | None = Field(
        default=None, description="another index, whose trained lists and codec are taken instead of training"
    )
    shards: int = Field(default=4, ge=1, le=999, description="files that the vectors are cut into")
    metric: Literal["cosine", "ip"] = Field(default="cosine", description="cosine scales vectors and queries to 1")
    target_recall: float = Field(default=0.99, gt=0, le=1, description="recall@10 that decides the default nprobe")
    recall_queries: int = Field(default=1000, ge=1, description="stored vectors by which recall is measured, about")
    seed: int = Field(default=13, ge=0, lt=1 << 31, description="of the samples and of k-means")
    train_sample: int | None = Field(
        default=None, ge=1, description="vectors to train on, about; by default 64 per list, at least 65,536"
    )


def main(config: Config) -> Manifest | None:
    """Build a sharded FAISS index of an `embeddings` artifact.

    The coarse quantizer is trained once and shared, so that the shards answer as one index. The number of lists that
    a search visits is chosen by measuring recall against exact search.
    """
    from biomodels.index import build, choice
    from biomodels.index.factory import check_size, new_index
    from biomodels.index.manifest import KIND, SCHEMA_VERSION
    from biomodels.inference import parts

    embeddings = Artifact.open(config.embeddings, parts.KIND)
    facts = embeddings.facts
    if not facts["strings"]:
        raise InputError(f"{config.embeddings}: has no vectors; nothing can be indexed")
    sizes = choice.Sizes(facts["strings"], facts["dimension"], facts["names"], _name_bytes(embeddings))
    factory, template = _factory(config, sizes)
    check_size(new_index(factory, facts["dimension"]), factory, facts["strings"])
    if config.plan:
        show_plan(config, factory, sizes)
        return None
    if config.out is None:
        raise UsageError("--out is required; or give --plan, which writes nothing")
    builder = ArtifactBuilder.begin(
        config.out,
        KIND,
        config=config.byte_config() | {"factory": factory},
        inputs={"embeddings": embeddings.digest} | ({"template": template.sha256} if template else {}),
        schema_version=SCHEMA_VERSION,
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
        shards = _build(plan, config.template, seconds)
        recall = _measure(plan, shards, config, seconds)
    point = next(point for point in recall["curve"] if point["nprobe"] == recall["nprobe"])
    manifest = build.commit(plan, point, run={"seconds": seconds, **_model_of(config.embeddings)})
    say(
        f"{config.out}: {factory} in {config.shards} shards; nprobe {point['nprobe']} finds "
        f"{point['recall_at_10']:.4f} of the 10 nearest (curve in {storage.join(config.out, 'recall.png')})"
    )
    return manifest


def _factory(config: Config, sizes: Sizes) -> tuple[str, FileEntry | None]:
    """Return the factory string, and the trained index of another index if one is to be taken."""
    from biomodels.index import choice
    from biomodels.index.manifest import open_index, template_file

    if config.template is None:
        chosen = choice.choose(sizes, config.memory_budget) if config.factory == "auto" else config.factory
        return chosen, None
    given = {"--factory": config.factory != "auto", "--memory-budget": config.memory_budget is not None}
    for option in (name for name, present in given.items() if present):
        raise UsageError(f"{option}: the trained index of --template has its factory already; drop one of the two")
    artifact, facts = open_index(config.template)
    if (facts.dimension, facts.metric) != (sizes.dimension, config.metric):
        raise CompatibilityError(
            f"--template {config.template}: has {facts.dimension} dimensions and metric {facts.metric}, "
            f"not {sizes.dimension} and {config.metric}"
        )
    return facts.factory, artifact.entry(template_file(facts.base))


def show_plan(config: Config, factory: str, sizes: Sizes) -> None:
    """Print what each factory would cost, and why one is taken."""
    from rich.console import Console
    from rich.table import Table

    from biomodels.index import choice
    from biomodels.index.engine import cores

    flops = choice.measured_flops(sizes.dimension)
    title = f"{sizes.strings:,} vectors of {sizes.dimension} dimensions, {sizes.names:,} names; {cores()} cores here"
    table = Table(title=title, title_justify="left")
    for heading in ("factory", "bytes/vector", "memory", "disk", "recall@10", "minutes", "of which training"):
        table.add_column(heading, justify="left" if heading == "factory" else "right", no_wrap=True)
    for option in dict.fromkeys([factory, *choice.candidates(sizes)]):
        costs = choice.estimate(
            option,
            sizes,
            queries=config.recall_queries,
            train_sample=config.train_sample,
            flops=flops,
            workers=min(cores(), config.shards),
        )
        recall = "measured when built" if costs.recall is None else f"≤ {costs.recall:.3f}"
        minutes = [f"{value / 60:.1f}" for value in (sum(costs.seconds.values()), costs.seconds["training"])]
        size = [str(ByteSize(value).human_readable(decimal=True)) for value in (costs.memory, costs.disk)]
        mark = "→ " if option == factory else "  "
        table.add_row(mark + option, str(costs.vector_bytes), *size, recall, *minutes)
    Console().print(table)
    chosen = "as --factory says" if config.factory != "auto" else "as --template says" if config.template else None
    print(f"{factory}: {chosen or choice.reason(factory, sizes, config.memory_budget)}.")
    print(f"nprobe is then chosen by measurement so that recall@10 reaches {config.target_recall}, if the codec can.")


def _name_bytes(embeddings: Artifact) -> int:
    """Return about how many bytes the names take in an index, where they are not compressed."""
    return 5 * sum(entry.bytes for entry in embeddings.files("names/"))


def _model_of(embeddings: str) -> dict[str, str]:
    """Return where the model of the embeddings was, so that the service finds it without being told."""
    path = storage.join(embeddings, "run.json")
    record = storage.read_json(path) if storage.exists(path) else {}
    return {"model": record["model"]} if "model" in record else {}


def _build(plan: Plan, template: str | None, seconds: dict[str, float]) -> list[FileEntry]:
    """Write every file but the measurements; return the files of vectors."""
    from biomodels.index import build
    from biomodels.index.manifest import concepts_file, names_file, shard_file, template_file

    def stage(
        label: str, unit: str, path: Callable[[int], str], count: int, write: Callable[[int], FileEntry]
    ) -> list[FileEntry]:
        with timed(label, seconds):
            return publish_each(plan.builder, label, unit, [path(number) for number in range(count)], write)

    def trained(_: int) -> FileEntry:
        return build.train(plan) if template is None else build.copy_template(plan, template)

    entry = stage("training", "files", lambda _: template_file(""), 1, trained)[0]
    shards = stage(
        "vectors", "strings", lambda i: shard_file("", i), plan.shards, lambda i: build.fill_shard(plan, entry, i)
    )
    stage("names", "names", lambda i: names_file("", i), plan.shards, lambda i: build.write_names(plan, i))
    buckets = 1 << plan.concept_bits
    stage("concepts", "concepts", lambda i: concepts_file("", i), buckets, lambda i: build.write_concepts(plan, i))
    return shards


def _measure(plan: Plan, shards: list[FileEntry], config: Config, seconds: dict[str, float]) -> dict[str, Any]:
    """Measure recall over nprobe, choose nprobe, and write `recall.json` and, outside the identity, `recall.png`."""
    import ray

    from biomodels.index import build, recall

    builder = plan.builder
    target = storage.join(builder.uri, RECALL)
    if builder.kept(RECALL):
        kept: dict[str, Any] = storage.read_json(target)
        return kept
    with timed("recall", seconds):
        queries = ray.put(next(each(build.sample, [(plan, config.recall_queries, 1)])))
        truths = []
        with bar("exact neighbours", plan.shards, "shards") as progress:
            for truth in each(
                lambda given, shard: recall.exact(given, build.read_shard(plan, shard)),
                [(queries, shard) for shard in range(plan.shards)],
            ):
                truths.append(truth)
                progress.update(1)
        measured, latency = next(each(_calibrate, [(plan, shards, queries, truths, config.target_recall)]))
    builder.publish(RECALL, lambda local: Path(local).write_bytes(canonical_json(measured)) and None)
    plot = recall.plot(measured, latency, plan.factory)
    storage.publish_bytes(plot, storage.join(builder.uri, "recall.png"))
    storage.publish_bytes(canonical_json(latency), storage.join(builder.uri, "latency.json"))
    if not measured["reached"]:
        say(f"recall@10 of {config.target_recall} is out of reach for {plan.factory}: see {target}")
    return measured


def _calibrate(
    plan: Plan, files: list[FileEntry], queries: Any, truths: list[Any], target: float
) -> tuple[dict[str, Any], dict[int, float]]:
    """Search the new shards as `ShardedIndex` does, with more and more lists."""
    from biomodels.index import recall
    from biomodels.index.cache import local_file
    from biomodels.index.factory import lists_of, new_index
    from biomodels.index.shards import Shards, merge_topk

    paths = [local_file(plan.builder.uri, entry) for entry in files]
    lists = lists_of(new_index(plan.factory, plan.dimension))
    truth = merge_topk(truths, recall.WIDTH)
    return recall.calibrate(Shards(paths, plan.dimension).search, queries, truth, lists=lists, target=target)
