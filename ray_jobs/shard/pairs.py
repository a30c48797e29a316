"""Job `shard pairs`: pairs of several sources are mixed by weight into one dataset."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from biomodels import storage
from biomodels.artifacts import Artifact, ArtifactBuilder, canonical_json, write_parquet
from biomodels.errors import InputError, UsageError
from biomodels.schemas import SCHEMA_VERSION
from biomodels.terminology.languages import UNKNOWN_LANGUAGE, to_iso
from biomodels.terminology.normalise import Normaliser
from biomodels.terminology.pairs_text import PairsTextFormat, TitlesFormat, write_pairs_text
from biomodels.terminology.rejects import EXAMPLES, Reject, check_reject_rate, rejects_table
from ray_jobs.config import CommaList, JobConfig
from ray_jobs.fan_out import Item, cluster_cpus, fan_out
from ray_jobs.progress import bar
from ray_jobs.shard.pair_parts import shuffle_pairs
from ray_jobs.shard.report import export
from ray_jobs.shard.source_blocks import publish_rejects

EXAMPLE = (
    "python -m ray_jobs shard pairs --pairs data/umls/pairs --titles en-de:muse.txt@2,en-zh:wiki.tsv@0.5 "
    "--no-lowercase --out data/mixed"
)

MOST_WEIGHT = 1000.0

_SOURCE = re.compile(
    r"(?:(?P<one>[A-Za-z]{2,3})-(?P<two>[A-Za-z]{2,3}):)?(?P<uri>.+?)(?:@(?P<weight>\d+\.?\d*|\.\d+))?"
)


class Config(JobConfig):
    """Options of `shard pairs`."""

    placement: ClassVar[frozenset[str]] = JobConfig.placement | {
        *("pairs", "titles", "block_size", "max_reject_rate", "export_pairs"),
    }

    pairs: CommaList = Field(
        (), description="pairs datasets, or text files of id||name_1||name_2 lines, each with @WEIGHT if it is not 1"
    )
    titles: CommaList = Field(
        (),
        description="bilingual files, a pair a line (two texts around a tab, or two words), written as "
        "en-de:FILE@WEIGHT; without a weight, 1",
    )
    out: str = Field(description="directory of the pairs dataset")
    lowercase: bool = Field(True, description="lower the case of names in text files; datasets must have the same form")
    tidy: bool = Field(True, description="bring names in text files to Unicode NFC and fold their white space")
    title_concepts: Literal["text", "line"] = Field(
        "text", description="what is one concept: all lines with the same first text, or each line, as in SapBERT"
    )
    equal_names: bool = Field(False, description="keep pairs of two equal names in text files, as SapBERT's files do")
    seed: int = Field(13, description="decides which pairs are drawn for fractions of a weight, and the pairs' order")
    export_pairs: str | None = Field(None, description="also write the pairs to this file, as id||name_1||name_2 lines")
    max_reject_rate: float = Field(0.01, ge=0, le=1, description="share of malformed rows above which the job fails")
    block_size: float = Field(8.0, gt=0, le=256, description="MiB of text that is parsed at once")

    @model_validator(mode="after")
    def _some_source(self) -> Self:
        if not (self.pairs or self.titles):
            raise ValueError("give --pairs, --titles or both")
        return self


@dataclass(frozen=True)
class Source:
    """Where pairs come from; `form` is None for a dataset."""

    role: str
    uri: str
    weight: float
    form: PairsTextFormat | TitlesFormat | None
    digest: str


@dataclass(frozen=True)
class Plan:
    """What all tasks share."""

    sources: tuple[Source, ...]
    work: str
    seed: int
    block_bytes: int
    equal_names: bool


def main(config: Config) -> Artifact:
    """Mix pairs of several sources by weight into one dataset, such as UMLS synonyms and bilingual titles.

    A weight is how often, on average, an epoch meets each pair of a source: 2 writes each pair twice, 0.5 draws half of
    them. Copies are shuffled apart, so training reads the dataset like any other. A pair in two sources counts with
    the larger weight. Run again, the job goes on where it stopped.
    """
    normaliser = Normaliser(config.lowercase, config.tidy)
    sources = _sources(config, normaliser)
    described = [{"role": s.role, "weight": s.weight, "languages": s.form and s.form.languages} for s in sources]
    builder = ArtifactBuilder.begin(
        storage.absolute(config.out),
        "pairs",
        config=config.byte_config() | {"sources": described},
        inputs={f"{source.role}-{number}": source.digest for number, source in enumerate(sources)},
        schema_version=SCHEMA_VERSION,
    )
    if builder.finished is None:
        from ray_jobs.session import session

        block_bytes = int(config.block_size * (1 << 20))
        plan = Plan(tuple(sources), builder.work("spill"), config.seed, block_bytes, config.equal_names)
        with session(config.num_cpus):
            _make(builder, plan, config.max_reject_rate, normaliser)
    result = Artifact.open(builder.uri, "pairs")
    for source, counts in zip(sources, result.facts["sources"], strict=True):
        share = 100 * counts["drawn"] / max(1, sum(row["drawn"] for row in result.facts["sources"]))
        print(f"{source.uri}: {counts['pairs']:,} pairs × {source.weight:g} = {counts['drawn']:,} ({share:.1f} %)")
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in result.facts["dropped"].items())
    print(f"{config.out}: {result.facts['pairs']:,} pairs; dropped: {dropped}; malformed: {result.facts['rejects']:,}")
    if config.export_pairs:
        export("pairs", config.export_pairs, partial(write_pairs_text, result))
    return result


def _sources(config: Config, normaliser: Normaliser) -> list[Source]:
    """Return the sources, in the order of the options.

    Raises:
        UsageError: a source is not of the form that the option needs.
    """
    found = []
    for role, text in [*(("pairs", text) for text in config.pairs), *(("titles", text) for text in config.titles)]:
        match = _SOURCE.fullmatch(text)
        uri = storage.absolute(match["uri"]) if match else ""
        weight = float(match["weight"] or 1) if match else 0.0
        if not match or not 0 < weight <= MOST_WEIGHT or (role == "pairs" and match["one"]):
            wanted = "FILE@WEIGHT" if role == "pairs" else "en-de:FILE@WEIGHT"
            raise UsageError(f"--{role} {text}: is not of the form {wanted} with a weight above 0 and up to 1000")
        try:
            languages = tuple(to_iso(match[side] or UNKNOWN_LANGUAGE) for side in ("one", "two"))
        except ValueError as error:
            raise UsageError(f"--{role} {text}: {error}") from error
        if role == "pairs" and not storage.is_file(uri):
            artifact = Artifact.open(uri, "pairs")
            if artifact.facts["normaliser"] != normaliser.name:
                raise UsageError(
                    f"--pairs {text}: its names are {artifact.facts['normaliser']}, this command's {normaliser.name}; "
                    "set --lowercase or --no-lowercase, and --tidy or --no-tidy"
                )
            found.append(Source(role, uri, weight, None, artifact.digest))
            continue
        if not storage.is_file(uri):
            raise InputError.at(uri, None, "is not there", f"check --{role}")
        form: PairsTextFormat | TitlesFormat = PairsTextFormat(normaliser)
        if role == "titles":
            form = TitlesFormat(normaliser, (languages[0], languages[1]), config.title_concepts)
        found.append(Source(role, uri, weight, form, storage.sha256(uri)))
    return found


def _make(builder: ArtifactBuilder, plan: Plan, max_reject_rate: float, normaliser: Normaliser) -> None:
    totals: list[Counter[str]] = [Counter() for _ in plan.sources]
    found: list[Item] = []
    items = _items(plan)
    with bar("drawing pairs", len(items), "shares") as progress:
        for result in fan_out(partial(_draw_share, plan), items):
            totals[result["source"]].update(result["counts"])
            found.append(result)
            progress.update()
    found.sort(key=lambda result: (result["source"], result["share"]))
    rejects = _publish_rejects(builder, plan, found, totals, max_reject_rate)
    drawn = sum(total["drawn"] for total in totals)
    if not drawn:
        raise InputError("no pair is left; check the sources and their weights")
    kept = shuffle_pairs(builder, [uri for result in found for uri in result["spills"]], drawn)
    builder.commit(
        {
            "pairs": kept,
            "normaliser": normaliser.name,
            "rejects": rejects,
            "sources": [{key: total[key] for key in ("pairs", "drawn")} for total in totals],
            "dropped": {"identical": sum(total["identical"] for total in totals), "duplicate": drawn - kept},
        }
    )


def _items(plan: Plan) -> list[Item]:
    """Return the tasks: a part of a dataset each, or a share of a text file's blocks."""
    items: list[Item] = []
    for number, source in enumerate(plan.sources):
        if source.form is None:
            count = len(Artifact.open(source.uri, "pairs").files("part-"))
        else:
            files, path = storage.filesystem(source.uri)
            count = min(cluster_cpus(), 8, 1 + int(files.get_file_info(path).size or 0) // plan.block_bytes)
        items += [{"source": number, "share": share, "shares": count} for share in range(count)]
    return items


def _draw_share(plan: Plan, item: Item) -> Item:
    """Spill the pairs of a task; its summary, written last, marks it finished."""
    from biomodels.terminology.blocks import read_blocks
    from biomodels.terminology.pairs import spill_pairs
    from biomodels.terminology.pairs_import import draw, hashed, oriented, unequal

    source = plan.sources[item["source"]]
    name = storage.join(plan.work, f"{item['source']}-{item['share']}of{item['shares']}-{plan.block_bytes}")
    if storage.exists(f"{name}.json"):
        kept: Item = storage.read_json(f"{name}.json")
        return kept
    counts: Counter[str] = Counter()
    spills: list[str] = []
    rejects: list[str] = []
    examples: list[Reject] = []

    def take(table: Any) -> None:
        drawn = draw(table, source.weight, plan.seed)
        spills.append(f"{name}-{len(spills):05d}.arrow")
        spill_pairs(drawn, spills[-1])
        counts.update(pairs=table.num_rows, drawn=drawn.num_rows)

    if source.form is None:
        dataset = Artifact.open(source.uri, "pairs")
        take(hashed(dataset.read_table(dataset.files("part-")[item["share"]]), plan.seed))
    else:
        for block in read_blocks(source.uri, plan.block_bytes):
            if block.index % item["shares"] == item["share"]:
                parsed = source.form.parse(block, source.uri)
                rows = parsed.rows if plan.equal_names else unequal(parsed.rows)
                take(oriented(rows, source.form.languages, plan.seed))
                counts.update(identical=len(parsed.rows) - len(rows), rejected=len(parsed.rejects))
                if parsed.rejects:
                    rejects.append(f"{name}-{block.index:06d}.rejects.parquet")
                    with storage.writing(rejects[-1]) as local:
                        write_parquet(rejects_table(parsed.rejects), local)
                    examples = sorted([*examples, *parsed.rejects])[:EXAMPLES]
    shown = [asdict(example) for example in examples]
    result = {**item, "counts": dict(counts), "spills": spills, "rejects": rejects, "examples": shown}
    storage.publish_bytes(canonical_json(result), f"{name}.json")
    return result


def _publish_rejects(
    builder: ArtifactBuilder, plan: Plan, found: list[Item], totals: list[Counter[str]], max_reject_rate: float
) -> int:
    """Publish the rejected lines (schema REJECTS), if there are any; return how many.

    Raises:
        RejectRateError: a source has more than `max_reject_rate` allows.
        InputError: a text file holds no pair.
    """
    for number, (source, total) in enumerate(zip(plan.sources, totals, strict=True)):
        examples = [Reject(**row) for result in found if result["source"] == number for row in result["examples"]]
        rows = total["pairs"] + total["identical"] + total["rejected"]
        check_reject_rate(total["rejected"], rows, max_reject_rate, examples)
        if not total["pairs"]:
            raise InputError.at(source.uri, None, "holds no pair", f"check that it is what --{source.role} needs")
    return publish_rejects(builder, [uri for result in found for uri in result["rejects"]])
