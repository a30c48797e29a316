"""Job `shard sentences`: text, CSV, JSON lines and NLI corpora become the dataset `sentences`."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any, ClassVar, Literal

from pydantic import Field

from biomodels import storage
from biomodels.artifacts import Artifact, ArtifactBuilder, digest_json
from biomodels.errors import InputError
from biomodels.schemas import SCHEMA_VERSION
from ray_jobs.config import JobConfig
from ray_jobs.fan_out import Item

EXAMPLE = "python -m ray_jobs shard sentences nli_for_simcse.csv --out data/sentences"
KIND = "sentences"


class Config(JobConfig):
    """Options of the job."""

    placement: ClassVar[frozenset[str]] = JobConfig.placement | {"files", "block_size", "max_reject_rate"}

    files: tuple[str, ...] = Field(
        min_length=1, description="files of sentences, plain or gzip", json_schema_extra={"positional": True}
    )
    out: str = Field(description="directory of the dataset")
    format: Literal["auto", "text", "csv", "tsv", "jsonl", "nli"] = Field(
        "auto",
        description="text: a sentence a line; csv, tsv: one sentence, a pair, or a pair and hard negatives a row; "
        "nli: SNLI or MNLI, as JSON lines or table, to triples; auto decides by suffix and first line",
    )
    header: Literal["auto", "yes", "no"] = Field(
        "auto", description="whether CSV and TSV start with names of columns; auto: if all are different single words"
    )
    sample: int | None = Field(None, ge=1, description="keep so many examples, chosen by the seed; by default all")
    keep_duplicates: bool = Field(False, description="keep equal examples; default: one of them")
    seed: int = Field(13, description="decides the order, the sample, and which contradiction meets which entailment")
    max_reject_rate: float = Field(0.01, ge=0, le=1, description="share of malformed rows above which the job fails")
    block_size: float = Field(32.0, gt=0, le=1024, description="MiB of a file that a task reads")


def main(config: Config) -> Artifact:
    """Read sentences for training into the dataset `sentences`.

    Examples come out in an order that the seed and their content decide. Blank lines are passed over, malformed rows
    go to OUT/rejects. All files must have the same columns. Run again, it goes on where it stopped.
    """
    config = config.model_copy(
        update={"out": storage.absolute(config.out), "files": tuple(map(storage.absolute, config.files))}
    )
    sources = [_source(config, uri) for uri in config.files]
    digests = sorted(storage.sha256(uri) for uri in config.files)
    builder = ArtifactBuilder.begin(
        config.out,
        KIND,
        config=config.byte_config(),
        inputs={f"file_{i:03d}": digest for i, digest in enumerate(digests)},
        schema_version=SCHEMA_VERSION,
    )
    if builder.finished is None:
        from ray_jobs.session import session

        with session(config.num_cpus):
            _make(config, builder, sources)
    artifact = Artifact.open(config.out, KIND)
    print(_summary(artifact))
    return artifact


def _source(config: Config, uri: str) -> Any:
    from biomodels.sentences.readers import open_source

    header = {"auto": None, "yes": True, "no": False}[config.header]
    return open_source(uri, None if config.format == "auto" else config.format, header)


def _make(config: Config, builder: ArtifactBuilder, sources: list[Any]) -> None:
    from biomodels.terminology.rejects import Reject, check_reject_rate, rejects_table
    from ray_jobs.fan_out import fan_out
    from ray_jobs.progress import bar
    from ray_jobs.shard.sentence_parts import NLI_BITS, pair_bucket, read_piece, write_parts

    pieces = _pieces(config, sources)
    shared = {
        "work": builder.work(),
        "seed": config.seed,
        "sample": config.sample,
        "distinct": not config.keep_duplicates,
        "plan": digest_json([piece["source"] | {"start": piece["start"]} for piece in pieces]),
    }
    with bar("read", sum(piece["bytes"] for piece in pieces), "bytes") as progress:
        read = []
        for result in fan_out(read_piece, [piece | shared for piece in pieces]):
            read.append(result)
            progress.update(pieces[result["piece"]]["bytes"])
    read.sort(key=lambda result: int(result["piece"]))
    rejects = [
        Reject.of(result["uri"], reject["line"] + offset, reject["reason"], reject["content"])
        for result in read
        if result["rejects"]
        for offset in [_line_offset(pieces[result["piece"]])]
        for reject in result["rejects"]
    ]
    counts: Counter[str] = Counter()
    for result in read:
        counts.update(result["counts"])
    check_reject_rate(counts["rejects"], counts["rows"], config.max_reject_rate, rejects)
    spills = [spill for result in read for spill in result["spills"]]
    nli = [spill for result in read for spill in result["nli_spills"]]
    columns = [(column, result["uri"]) for result in read for column in result["columns"]]
    if nli:
        for result in fan_out(pair_bucket, [shared | {"bucket": i, "nli": nli} for i in range(1 << NLI_BITS)]):
            spills += result["spills"]
            counts.update(result["counts"])
            columns += [(3, "the NLI files")] * bool(result["counts"].get("examples"))
    width = _one_width(columns)
    parts = write_parts(builder, shared, sorted(spills), counts["examples"])
    if rejects and builder.kept("rejects/rejects.parquet") is None:
        builder.publish_table("rejects/rejects.parquet", rejects_table(rejects))
    rows = sum(part["rows"] for part in parts)
    if not rows:
        raise InputError(f"{config.files[0]}: no example can be made of the files; see `--help` for what they need")
    builder.commit(
        {
            "examples": rows,
            "columns": width,
            "read": counts["rows"],
            "rejects": counts["rejects"],
            "duplicates": None if config.sample else sum(part["duplicates"] for part in parts),
            "without_gold_label": counts["unlabelled"],
            "premises_without_triple": counts["lacking"],
        }
    )


def _pieces(config: Config, sources: list[Any]) -> list[Item]:
    size = max(1, int(config.block_size * (1 << 20)))
    pieces: list[Item] = []
    for source in sources:
        starts = range(0, max(1, source.bytes), size) if source.divisible else [0]
        for start in starts:
            end = min(start + size, source.bytes) if source.divisible else None
            pieces.append(
                {
                    "piece": len(pieces),
                    "source": asdict(source),
                    "start": start,
                    "end": end,
                    "bytes": (end or source.bytes) - start,
                }
            )
    return pieces


def _line_offset(piece: Item) -> int:
    """Return how many lines of a file begin before a piece of it."""
    wanted, lines = piece["start"] - 1, 1
    if wanted < 0:
        return 0
    for chunk in storage.chunks(piece["source"]["uri"]):
        lines += chunk[:wanted].count(b"\n")
        wanted -= len(chunk)
        if wanted <= 0:
            break
    return lines


def _one_width(columns: list[tuple[int, str]]) -> int:
    """Return how many sentences an example has: 1, 2, or 3 for pairs with hard negatives.

    Raises:
        InputError: the files differ in that.
    """
    kinds = {min(width, 3): uri for width, uri in columns}
    if len(kinds) > 1:
        (one, first), (other, second) = sorted(kinds.items())[:2]
        raise InputError(
            f"{second}: has {other} sentences in a row, but {first} has {one}; a dataset holds one kind of example"
        )
    return next(iter(kinds), 0)


def _summary(artifact: Artifact) -> str:
    """Return what was made, for people."""
    facts = artifact.facts
    kind = {1: "single sentences", 2: "pairs", 3: "pairs with hard negatives"}[facts["columns"]]
    left_out = "" if facts["duplicates"] is None else f"; equal examples left out: {facts['duplicates']:,}"
    lines = [
        f"examples {facts['examples']:>12,}   {kind}",
        f"rows     {facts['read']:>12,}   read; malformed: {facts['rejects']:,}{left_out}",
    ]
    if facts["without_gold_label"] or facts["premises_without_triple"]:
        lines.append(
            f"NLI      {facts['without_gold_label']:>12,}   rows without gold label; premises without entailment or "
            f"contradiction: {facts['premises_without_triple']:,}"
        )
    return "\n".join(lines)
