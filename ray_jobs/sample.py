"""Job `sample`: a seeded sample of articles, equally many of each decade if wanted, itself a dataset of articles."""

from __future__ import annotations

import os
from collections import Counter
from functools import partial
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field, field_validator

from biomodels import storage
from biomodels.artifacts import Artifact, ArtifactBuilder, canonical_json
from biomodels.errors import InputError, UsageError
from biomodels.literature.articles import parse_languages, parse_pmid
from biomodels.literature.merge import MOST_BITS, ROWS_PER_PART
from biomodels.literature.sample import ALL
from biomodels.schemas import SCHEMA_VERSION
from biomodels.shuffle import part_bits
from biomodels.terminology.blocks import read_blocks
from biomodels.terminology.pairs import part_name
from ray_jobs.config import CommaList, JobConfig
from ray_jobs.fan_out import Item, fan_out
from ray_jobs.progress import bar, say

EXAMPLE = (
    "python -m ray_jobs sample --articles data/articles --n 87600 --per-decade --exclude pmids.txt --out data/sample"
)
PMIDS = "pmids.txt"
_COLUMNS = ["pmid", "abstract", "retracted", "languages", "year"]

Integers = npt.NDArray[np.int64]


class Config(JobConfig):
    """Options of `sample`."""

    placement: ClassVar[frozenset[str]] = JobConfig.placement | {"articles", "exclude", "disjoint_from", "threads"}

    articles: str = Field(description="dataset of articles")
    n: int = Field(ge=1, description="size of the sample; it is smaller where there are not so many")
    out: str = Field(description="directory of the sample, a dataset of articles with the list pmids.txt")
    per_decade: bool = Field(False, description="take equally many of each decade that has any")
    exclude: CommaList = Field((), description="files of PMIDs to leave out, one a line")
    disjoint_from: CommaList = Field((), description="other samples, or any articles, to leave out")
    threads: str | None = Field(None, description="dataset of threads whose cited publications are left out")
    languages: CommaList = Field(("en",), description="languages of an article: these and no others")
    after: int = Field(1980, description="articles of later years only")
    seed: int = Field(13, description="decides which articles are chosen")

    @field_validator("languages")
    @classmethod
    def _iso(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        found = parse_languages(given)
        if not found or "und" in found:
            raise ValueError("give language codes such as en")
        return tuple(found)


def main(config: Config) -> Artifact:
    """Choose articles that have an abstract, are not retracted, and are in the given language alone.

    The choice is a function of the seed and the PMIDs: the same articles are chosen whatever else the dataset holds
    that is not eligible, and two samples are made disjoint by naming one to the other.
    """
    out = storage.absolute(config.out)
    articles = Artifact.open(storage.absolute(config.articles), "articles")
    others = {f"disjoint-{number}": Artifact.open(uri, "articles") for number, uri in enumerate(config.disjoint_from)}
    threads = {"threads": Artifact.open(config.threads, "threads")} if config.threads else {}
    left_out = {f"exclude-{number}": _read_pmids(uri) for number, uri in enumerate(config.exclude)}
    builder = ArtifactBuilder.begin(
        out,
        "articles",
        config=config.byte_config(),
        inputs={role: artifact.digest for role, artifact in {"articles": articles, **others, **threads}.items()}
        | {f"exclude-{number}": storage.sha256(uri) for number, uri in enumerate(config.exclude)},
        schema_version=SCHEMA_VERSION,
    )
    if builder.finished is None:
        known = [_column(artifact, "pmid") for artifact in others.values()]
        known += [_cited(artifact) for artifact in threads.values()]
        excluded = np.unique(np.concatenate([np.empty(0, np.int64), *left_out.values(), *known]))
        from ray_jobs.session import session

        with session(config.num_cpus or max(2, len(os.sched_getaffinity(0)))):
            _make(config, builder, articles, excluded)
    sample = Artifact.open(out, "articles")
    print(_summary(sample))
    return sample


def _make(config: Config, builder: ArtifactBuilder, articles: Artifact, excluded: Integers) -> None:
    parts = articles.files("part-")
    items = [{"part": number} for number in range(len(parts))]
    eligible: Counter[str] = Counter()
    skipped = 0
    with bar("scanning", sum(entry.rows or 0 for entry in parts), "articles") as progress:
        for result in fan_out(partial(_scan, config, builder, articles, excluded), items):
            eligible.update(result["decades"])
            skipped += result["excluded"]
            progress.update(parts[result["part"]].rows or 0)
    quotas = _quotas(config.n, {int(decade): count for decade, count in eligible.items()})
    chosen = _choose(builder, len(parts), quotas, {int(decade): count for decade, count in eligible.items()})
    if not len(chosen):
        raise UsageError("no article can be sampled; see --languages, --after, --exclude and what the articles hold")
    storage.publish_bytes(chosen.tobytes(), builder.work("chosen.int64"))
    bits = min(part_bits(len(chosen), ROWS_PER_PART, MOST_BITS), len(parts).bit_length() - 1)
    from ray_jobs.shard.article_parts import add_counts

    total: dict[str, Counter[str]] = {}
    with bar("sampling", len(chosen), "articles") as progress:
        for result in fan_out(
            partial(_make_part, builder, articles, bits), [{"part": part} for part in range(1 << bits)]
        ):
            progress.update(add_counts(total, result["counts"]))
    lines = "".join(f"{pmid}\n" for pmid in np.sort(chosen).tolist())
    builder.publish(PMIDS, lambda local: _write(local, lines))
    plain = total.pop("plain")
    counts = {name: dict(sorted(found.items())) for name, found in total.items()}
    builder.commit(
        {
            **plain,
            **counts,
            "eligible": {"all" if decade == str(ALL) else decade: found for decade, found in sorted(eligible.items())},
            "asked": config.n,
            "excluded": skipped,
        }
    )


def _scan(config: Config, builder: ArtifactBuilder, articles: Artifact, excluded: Integers, item: Item) -> Item:
    """Write a part's eligible articles, with their hashes."""
    from biomodels.literature import sample

    table = articles.read_table(articles.files("part-")[item["part"]], _COLUMNS)
    fit = sample.eligible(table, config.after, list(config.languages))
    keep = ~np.isin(fit["pmid"].to_numpy(), excluded)
    found = sample.choices(fit.filter(pa.array(keep)), config.seed, per_decade=config.per_decade)
    with (
        storage.writing(_choices_uri(builder, item["part"])) as local,
        pa.OSFile(local, "wb") as sink,
        pa.ipc.new_file(sink, found.schema) as writer,
    ):
        writer.write_table(found)
    decades = Counter(map(str, found["decade"].to_pylist()))
    return {"part": item["part"], "decades": decades, "excluded": int((~keep).sum())}


def _quotas(n: int, eligible: dict[int, int]) -> dict[int, int]:
    """Return how many articles of each decade are wanted: as equal as n allows, the earlier ones one more."""
    decades = sorted(eligible)
    return {decade: n // len(decades) + (place < n % len(decades)) for place, decade in enumerate(decades)}


def _choose(builder: ArtifactBuilder, parts: int, quotas: dict[int, int], eligible: dict[int, int]) -> Integers:
    """Return the PMIDs of the smallest hashes of each decade.

    Hashes are uniform, so a bound a little above quota / eligible finds enough of them at the first or second reading,
    and the rest need not be held.
    """
    slack = 1.2
    while True:
        bounds = {decade: min(1.0, slack * (quotas[decade] + 50) / eligible[decade]) for decade in quotas}
        found = {decade: [np.empty((2, 0), np.uint64)] for decade in quotas}
        for part in range(parts):
            files, path = storage.filesystem(_choices_uri(builder, part))
            with files.open_input_file(path) as handle, pa.ipc.open_file(handle) as reader:
                table = reader.read_all()
            pmids, decades, hashes = (table[name].to_numpy() for name in ("pmid", "decade", "hash"))
            for decade, bound in bounds.items():
                low = (decades == decade) & (hashes / 2.0**64 <= bound)
                found[decade].append(np.stack([hashes[low], pmids[low].astype(np.uint64)]))
        joined = {decade: np.concatenate(pieces, axis=1) for decade, pieces in found.items()}
        if all(joined[decade].shape[1] >= min(quotas[decade], eligible[decade]) for decade in quotas):
            kept = [rows[1, np.argsort(rows[0])[: quotas[decade]]] for decade, rows in joined.items()]
            return np.concatenate([np.empty(0, np.int64), *kept]).astype(np.int64)
        slack *= 2


def _make_part(builder: ArtifactBuilder, articles: Artifact, bits: int, item: Item) -> Item:
    from ray_jobs.shard.article_parts import count_articles

    path, stats = part_name(item["part"]), builder.work("counts", f"{item['part']:05d}.json")
    if builder.kept(path) is not None:
        kept: Item = storage.read_json(stats)
        return kept
    chosen = np.frombuffer(storage.read_bytes(builder.work("chosen.int64")), dtype=np.int64)
    parts = articles.files("part-")
    width = len(parts) >> bits
    tables = []
    for entry in parts[item["part"] * width : (item["part"] + 1) * width]:
        table = articles.read_table(entry)
        tables.append(table.filter(pa.array(np.isin(table["pmid"].to_numpy(), chosen))))
    sample = pa.concat_tables(tables)
    result = {"counts": count_articles(sample)}
    storage.publish_bytes(canonical_json(result), stats)  # before the ledger's entry, so that a kept part has counts
    builder.publish_table(path, sample)
    return result


def _choices_uri(builder: ArtifactBuilder, part: int) -> str:
    return builder.work("choices", f"{part:05d}.arrow")


def _read_pmids(uri: str) -> Integers:
    """Read a file of PMIDs, one a line; blank lines and comments (#) are passed over.

    Raises:
        InputError: a line holds no PMID.
    """
    found = []
    for block in read_blocks(uri):
        for number, raw in enumerate(block.data.split(b"\n"), start=block.first_line):
            text = raw.decode("utf-8", errors="replace").partition("#")[0].strip()
            if text:
                pmid = parse_pmid(text)
                if pmid is None:
                    raise InputError.at(
                        uri, number, f"has {text[:40]!r} where a PMID is needed", "write one PMID a line"
                    )
                found.append(pmid)
    return np.array(found, dtype=np.int64)


def _column(artifact: Artifact, name: str) -> Integers:
    tables = [artifact.read_table(entry, [name]) for entry in artifact.files("part-")]
    return np.concatenate([np.empty(0, np.int64), *(table[name].to_numpy() for table in tables)])


def _cited(threads: Artifact) -> Integers:
    tables = [threads.read_table(entry, ["publications"]) for entry in threads.files("part-")]
    return np.array([pmid for table in tables for row in table["publications"].to_pylist() for pmid in row], np.int64)


def _write(local: str, text: str) -> int:
    with open(local, "w", encoding="utf-8", newline="\n") as sink:
        sink.write(text)
    return text.count("\n")


def _summary(sample: Artifact) -> str:
    """Return what was chosen, for people."""
    facts = sample.facts
    decades = ", ".join(f"{decade}s {count:,}" for decade, count in facts["decades"].items())
    if facts["articles"] < facts["asked"]:
        why = "no more are eligible" if "all" in facts["eligible"] else "a decade holds fewer than its share"
        say(f"note: {facts['articles']:,} of the {facts['asked']:,} asked for: {why}")
    return (
        f"sample  {facts['articles']:>12,}   of {sum(facts['eligible'].values()):,} eligible articles, "
        f"{facts['excluded']:,} excluded; {decades}"
    )
