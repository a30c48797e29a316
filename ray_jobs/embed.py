"""`embed`: distinct names → vectors, by a pool of Ray Data actors, one part after another."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from threading import Lock
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from biomodels import shuffle, storage
from biomodels.artifacts import Artifact, ArtifactBuilder, FileEntry, Manifest
from biomodels.errors import InputError, UsageError
from biomodels.models.spec import Pooling, Precision, model_digest, read_spec, resolve_model
from ray_jobs.config import JobConfig
from ray_jobs.fan_out import Item, fan_out, guarded, result_table, results
from ray_jobs.progress import bar, say
from ray_jobs.session import session
from ray_jobs.tasks import kept_files

if TYPE_CHECKING:
    from biomodels.inference.name_sources import NameSource
    from biomodels.inference.text_encoder import TextEncoder

EXAMPLE = "python -m ray_jobs embed --model models/m1 --names data/hpo/names --out data/hpo/embeddings"
CORES_PER_ACTOR = 8
PARTS_AT_ONCE = 2
"""Parts that an actor has at hand: while the model has one, another is read, tokenised or written."""
PARTS_TOGETHER = 4
"""Parts whose new strings are encoded together when most vectors are reused: a few strings make poor batches."""


class Config(JobConfig):
    """Options of `embed`."""

    # The names, and the model with its pooling, length and normalisation, are in the inputs by their digests.
    placement: ClassVar[frozenset[str]] = JobConfig.placement | {
        "model", "names", "pooling", "max_length", "normalise", "actors", "gpus_per_actor", "reuse", "max_reject_rate",
    }  # fmt: skip

    model: str = Field(description="model directory in Hugging Face layout, or a name on its Hub")
    names: str = Field(
        description="`names` artifact, as `shard terminology` writes it, or a text file of names, one a line (plain "
        "or gzip), each of which is then a concept of its own"
    )
    out: str = Field(description="directory or URI of the embeddings; the same command goes on where it was stopped")
    reuse: str | None = Field(
        default=None,
        description="embeddings of an earlier version of the names, by the same model: only strings that are not in "
        "there are encoded; the result is the same",
    )
    precision: Precision = Field(
        default="float32",
        description="of the model's weights. bf16 (cosine to float32 at least 0.9998 with MiniLM) is 2 to 5 times as "
        "fast on GPUs and CPUs with AVX-512 BF16 or AMX, slower on others; fp16 is for GPUs; int8 (cosine about 0.997) "
        "is for CPUs with VNNI but no bf16",
    )
    compiled: bool = Field(
        default=False,
        description="let torch.compile fuse the model's layers: needs a C++ compiler and a minute at the start; "
        "float32 vectors differ by rounding (1e-6)",
    )
    lowercase: bool = Field(default=True, description="lower the case of a text file's names; artifacts record theirs")
    max_reject_rate: float = Field(
        default=0.01, ge=0, le=1, description="share of malformed lines of a text file above which the job fails"
    )
    storage: Literal["float16", "float32"] = Field(default="float16", description="how the vectors are stored")
    pooling: Pooling | None = Field(default=None, description="instead of the one that the model directory records")
    max_length: int | None = Field(default=None, ge=3, description="tokens, instead of the model directory's")
    normalise: bool | None = Field(
        default=None, description="whether vectors are scaled to length 1, instead of what the model directory records"
    )
    token_budget: int | None = Field(
        default=None, ge=1, description="tokens in a batch, at most; by default 2048 on a CPU and 32768 on a GPU"
    )
    part_rows: int = Field(
        default=65_536,
        ge=1,
        description="rows of a part, at most about: a killed encoder loses two; small ones are slower",
    )
    actors: int | None = Field(
        default=None, ge=1, description="encoders at work; by default one per GPU, else one per 8 cores of each node"
    )
    gpus_per_actor: float | None = Field(
        default=None, ge=0, description="share of a GPU for each encoder; by default 1 where the cluster has GPUs"
    )


class Pool(NamedTuple):
    """The encoders and what each may use."""

    actors: int
    threads: int
    cpus: float
    gpus: float


def main(config: Config) -> Manifest:
    """Encode each distinct name of a `names` artifact, or of a text file, once.

    The result carries its names along, so that `index` needs nothing else. A part is a range of name_ids; it is done
    by one encoder, and its vectors are the same however many encoders there are.
    """
    from biomodels.inference import parts
    from biomodels.inference.name_sources import open_names

    source = open_names(config.names, lowercase=config.lowercase)
    directory = resolve_model(config.model)
    spec = read_spec(directory, pooling=config.pooling, max_length=config.max_length, normalise=config.normalise)
    model = {
        "model_digest": model_digest(directory, spec),
        "normaliser": source.normaliser.name,
        **{key: getattr(config, key) for key in ("storage", "precision", "compiled")},
    }
    reuse = Artifact.open(storage.absolute(config.reuse), parts.KIND) if config.reuse else None
    if reuse:
        parts.check_reusable(reuse, model)
    inputs = {"names": source.digest, "model": model["model_digest"]}
    builder = ArtifactBuilder.begin(config.out, parts.KIND, config=config.byte_config(), inputs=inputs)
    if builder.finished:
        say(f"{config.out}: finished before, nothing to do")
        return builder.finished
    bits = shuffle.part_bits(source.rows, config.part_rows, parts.MOST_BITS)
    started = time.time()
    with session(config.num_cpus):
        strings = _split(builder, source, bits, config.max_reject_rate)
        if not any(entry.rows for entry in strings):
            raise InputError(f"{config.names}: has no names; nothing can be encoded")
        split = time.time()
        counts, ready = _encode(builder, strings, config, reuse)
        encoded = time.time()
    facts = model | {
        "spec": spec.model_dump(),
        "dimension": _dimension(builder),
        "parts": 1 << bits,
        "names": sum(entry.rows or 0 for entry in builder.entries() if entry.path.startswith("names/")),
        "strings": sum(entry.rows or 0 for entry in strings),
    }
    marks = {"split": (started, split), "load": (split, ready), "encode": (ready, encoded)}
    seconds = {name: round(end - start, 2) for name, (start, end) in marks.items()}
    run = {"seconds": seconds, "model": _where(config.model), "strings": counts}
    manifest = builder.commit(facts, run=run)
    shown = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    say(f"{config.out}: {facts['strings']:,} strings ({shown}) of {facts['names']:,} names, "
        f"{facts['dimension']} dimensions in {config.storage}")  # fmt: skip
    return manifest


def _where(model: str) -> str:
    """Return a model's absolute path, or its Hub name, for those who look for it later."""
    return os.path.abspath(os.path.expanduser(model)) if os.path.isdir(os.path.expanduser(model)) else model


def _split(builder: ArtifactBuilder, source: NameSource, bits: int, max_reject_rate: float) -> list[FileEntry]:
    """Cut the names into parts, each with its distinct strings; return the entries of the strings, by part."""
    from biomodels.inference import parts

    numbers = range(1 << bits)
    rows = kept_files(builder, [parts.names_part(part) for part in numbers])
    strings = dict(enumerate(kept_files(builder, [parts.strings_part(part) for part in numbers])))
    todo = [part for part in numbers if not (rows[part] and strings[part])]
    if todo:
        spills = _spill(builder, source, bits, max_reject_rate)

        def write(item: Item) -> Item:
            _, written = parts.write_strings(builder, item["part"], spills, source.normaliser, once=source.once)
            return {"part": item["part"], "entry": written.model_dump()}

        with bar("distinct strings", len(numbers), "parts", done=len(numbers) - len(todo)) as progress:
            for result in fan_out(write, [{"part": part} for part in todo], short=True):
                strings[result["part"]] = FileEntry.model_validate(result["entry"])
                progress.update(1)
    return [entry for part in numbers if (entry := strings[part])]


def _spill(builder: ArtifactBuilder, source: NameSource, bits: int, max_reject_rate: float) -> list[str]:
    """Cut every file of the source by part; return the spill files in the order of the source."""
    from biomodels.inference import parts
    from biomodels.terminology.rejects import EXAMPLES, Reject, check_reject_rate, rejects_table

    def spill(item: Item) -> Item:
        rejects: list[Reject] = []
        uris = parts.spill_names(builder, source.tables(item["file"], rejects), item["file"], bits)
        if rejects:
            builder.publish_table("rejects/rejects.parquet", rejects_table(rejects))
        return {"spills": uris, "rejects": len(rejects), "examples": [asdict(row) for row in rejects[:EXAMPLES]]}

    spills, rejected = [], 0
    for result in fan_out(spill, [{"file": file} for file in range(source.files)]):
        examples = [Reject(**row) for row in result["examples"]]
        check_reject_rate(result["rejects"], source.rows, max_reject_rate, examples)
        spills += result["spills"]
        rejected += result["rejects"]
    if rejected:
        say(f"malformed lines left out: {rejected:,}; see {storage.join(builder.uri, 'rejects')}")
    return sorted(spills)


def _encode(
    builder: ArtifactBuilder, strings: Sequence[FileEntry], config: Config, reuse: Artifact | None
) -> tuple[dict[str, int], float]:
    """Encode the parts that are not done.

    Returns:
        How many strings were encoded, reused, and kept; and when the first actor was ready to encode.
    """
    import ray.data

    from biomodels.inference import parts

    paths = [parts.embeddings_part(part) for part in range(len(strings))]
    kept = kept_files(builder, paths)
    done = sum(entry.rows or 0 for entry in kept if entry)
    counts = {"encoded": 0, "reused": 0, "kept": done}
    ready = time.time()
    if done:
        say(f"kept {sum(map(bool, kept))} of {len(kept)} parts: {done:,} names not encoded again")
    todo = [{"part": part} for part, entry in enumerate(kept) if not entry]
    if todo:
        pool = plan_pool(config.actors, config.gpus_per_actor)
        if config.precision == "bf16":
            _say_if_slow(pool)
        together = PARTS_TOGETHER if reuse else 1
        dataset = ray.data.from_items(todo, override_num_blocks=-(-len(todo) // together)).map_batches(
            PartEncoder,
            fn_constructor_args=(builder, config, pool, reuse),
            batch_size=together,
            batch_format="pyarrow",
            compute=ray.data.ActorPoolStrategy(
                size=min(pool.actors, len(todo)),
                max_tasks_in_flight_per_actor=2 * PARTS_AT_ONCE,
                max_concurrent_calls_per_actor=PARTS_AT_ONCE,
                enable_true_multi_threading=True,
            ),
            num_cpus=pool.cpus,
            num_gpus=pool.gpus,
        )
        with bar("encode", sum(entry.rows or 0 for entry in strings), "names", done=done) as progress:
            for number, result in enumerate(results(dataset)):
                ready = result["ready"] if number == 0 else min(ready, result["ready"])
                progress.update(result["rows"])
                counts["reused"] += result["reused"]
                counts["encoded"] += result["rows"] - result["reused"]
    return counts, ready


def _dimension(builder: ArtifactBuilder) -> int:
    """Return the columns of the vectors."""
    from biomodels.inference.parts import embeddings_part

    files, path = storage.filesystem(storage.join(builder.uri, embeddings_part(0)))
    return int(pq.read_schema(path, filesystem=files).field("embedding").type.list_size)


def _say_if_slow(pool: Pool) -> None:
    from biomodels.inference.text_encoder import has_fast_bf16

    if not pool.gpus and not has_fast_bf16("cpu"):
        say("--precision bf16: this CPU has no AVX-512 BF16 or AMX; float32 would be faster")


class PartEncoder:
    """An actor's work: encode the strings of a part and publish their vectors; only counts travel back."""

    def __init__(self, builder: ArtifactBuilder, config: Config, pool: Pool, reuse: Artifact | None) -> None:
        self._builder = builder
        self._config = config
        self._pool = pool
        self._reuse = reuse
        self._encoder: TextEncoder | None = None
        self._ready = time.time()
        self._loading = Lock()

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Encode the parts in `batch["part"]`; a user's error is a result too."""
        return result_table([guarded(self._encode, batch["part"].to_pylist())])

    def _encode(self, numbers: list[int]) -> Item:
        from biomodels.inference.parts import encode_parts

        done = encode_parts(self._builder, numbers, self._load, self._config.storage, self._reuse)
        counts = {"rows": sum(part.entry.rows or 0 for part in done), "reused": sum(part.reused for part in done)}
        return counts | {"ready": self._ready}

    def _load(self) -> TextEncoder:
        """Load the model at the first part: an error in an actor's constructor could not be a result."""
        from biomodels.inference.text_encoder import TextEncoder

        with self._loading:
            if self._encoder is not None:
                return self._encoder
            config = self._config
            encoder = TextEncoder(
                config.model,
                precision=config.precision,
                compiled=config.compiled,
                device="cuda" if self._pool.gpus else "cpu",
                threads=self._pool.threads,
                token_budget=config.token_budget,
                pooling=config.pooling,
                max_length=config.max_length,
                normalise=config.normalise,
            )
            if encoder.digest != self._builder.inputs["model"]:
                raise InputError(f"{config.model}: is another model on this node than where the job was started")
            self._encoder = encoder
            self._ready = time.time()
        return encoder


def plan_pool(actors: int | None, gpus_per_actor: float | None) -> Pool:
    """Share the cluster among encoders so that no core has two threads, and every encoder fits on some node.

    A local Ray has more logical CPUs than cores (see `session`), so an encoder's CPUs there may be fewer than its
    threads; the rest is left to the tasks that feed it.
    """
    import ray

    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    here = len(os.sched_getaffinity(0))
    cores = [int(node["CPU"]) if os.environ.get("RAY_ADDRESS") else min(here, int(node["CPU"])) for node in nodes]
    gpus = sum(node.get("GPU", 0) for node in nodes)
    if gpus_per_actor is None:
        gpus_per_actor = 1.0 if gpus else 0.0
    if gpus_per_actor > gpus:
        raise UsageError(f"--gpus-per-actor {gpus_per_actor}: this cluster has {gpus:g} GPUs")
    if actors is None:
        by_cores = sum(max(1, count // CORES_PER_ACTOR) for count in cores)
        actors = int(gpus // gpus_per_actor) if gpus_per_actor else by_cores
    threads = max(1, min(sum(cores) // actors, *cores))
    share = 0.75 * sum(node["CPU"] for node in nodes) / actors
    return Pool(actors, threads, cpus=min(float(threads), max(0.01, round(share, 2))), gpus=gpus_per_actor)
