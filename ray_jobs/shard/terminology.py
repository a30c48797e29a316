"""Job `shard terminology`: a MRCONSO.RRF, an OBO file or a TSV becomes the datasets `names` and `pairs`."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field, model_validator

from biomodels import storage
from biomodels.artifacts import MANIFEST, Artifact, ArtifactBuilder
from biomodels.errors import InputError
from biomodels.schemas import SCHEMA_VERSION
from biomodels.terminology.filters import NameFilter
from biomodels.terminology.normalise import Normaliser
from ray_jobs.config import CommaList, JobConfig

if TYPE_CHECKING:
    from ray_jobs.shard.pair_parts import PairSpills

EXAMPLE = (
    "python -m ray_jobs shard terminology --mrconso MRCONSO.RRF.gz --mrsty MRSTY.RRF.gz --languages ENG --out data/umls"
)


class Config(JobConfig):
    """Options of `shard terminology`."""

    placement: ClassVar[frozenset[str]] = JobConfig.placement | {
        *("mrconso", "mrsty", "obo", "tsv", "block_size", "max_reject_rate", "export_dictionary"),
    }

    mrconso: str | None = Field(None, description="MRCONSO.RRF of a UMLS release, plain or gzip")
    mrsty: str | None = Field(None, description="MRSTY.RRF beside it: the concepts' semantic types")
    obo: str | None = Field(None, description="OBO file, plain or gzip")
    tsv: str | None = Field(
        None,
        description="TSV file with a header: concept_id, name; optional language, source, term_type, preferred, "
        "semantic_types (joined by |)",
    )
    out: str = Field(description="directory of the datasets: OUT/names, OUT/pairs")
    languages: CommaList = Field((), description="languages to keep, UMLS or ISO codes such as ENG,de; default all")
    sources: CommaList = Field((), description="sources to keep (SAB, or prefix of OBO ids); default all")
    term_types: CommaList = Field(
        (), description="term types to keep: TTY of MRCONSO; LABEL,EXACT,NARROW,BROAD,RELATED of OBO; default all"
    )
    keep_suppressed: bool = Field(False, description="keep MRCONSO rows with SUPPRESS=E or Y; default: dropped")
    keep_obsolete: bool = Field(False, description="keep obsolete names: SUPPRESS=O, OBO is_obsolete; default: dropped")
    lowercase: bool = Field(True, description="lower the case of the strings that pairs hold and models read")
    max_pairs: int = Field(50, ge=0, description="most pairs of one concept, chosen by the seed; 0 for no cap")
    seed: int = Field(13, description="decides which pairs and held-out synonyms are chosen, and the pairs' order")
    hold_out: int = Field(
        0, ge=0, description="hold out this many synonyms for evaluation: OUT/heldout/queries.txt (id||mention)"
    )
    export_dictionary: bool = Field(
        False, description="also write the names as OUT/dictionary/dictionary.txt (id||name) for evaluation"
    )
    max_reject_rate: float = Field(0.01, ge=0, le=1, description="share of malformed rows above which the job fails")
    block_size: float = Field(8.0, gt=0, le=256, description="MiB of text that a parsing task gets")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [role for role in ("mrconso", "obo", "tsv") if getattr(self, role)]
        if len(given) != 1:
            raise ValueError("give exactly one of --mrconso, --obo, --tsv")
        if self.mrsty and not self.mrconso:
            raise ValueError("--mrsty goes with --mrconso only")
        return self

    def names_config(self) -> dict[str, Any]:
        """Return what decides the names."""
        return self.byte_config() | {"max_pairs": None, "seed": self.seed if self.hold_out else None}


@dataclass(frozen=True)
class Result:
    """The finished datasets."""

    names: Artifact
    pairs: Artifact
    held_out: Artifact | None
    dictionary: Artifact | None


def main(config: Config) -> Result:
    """Read a terminology into the names and pairs datasets.

    Malformed rows go to OUT/names/rejects. Suppressed and obsolete names are dropped unless asked for; the manifest
    says how many rows each filter removed. Run again, it goes on where it stopped.
    """
    config = config.model_copy(update=_absolute(config))
    names_uri, pairs_uri = storage.join(config.out, "names"), storage.join(config.out, "pairs")
    chosen = NameFilter.of(
        config.languages,
        config.sources,
        config.term_types,
        keep_suppressed=config.keep_suppressed,
        keep_obsolete=config.keep_obsolete,
    )
    builder = ArtifactBuilder.begin(
        names_uri,
        "names",
        config=config.names_config(),
        inputs=_digests(config),
        schema_version=SCHEMA_VERSION,
    )
    from ray_jobs.session import session
    from ray_jobs.shard.dictionary import export_dictionary
    from ray_jobs.shard.pair_parts import PairSpills, make_pairs

    spills = PairSpills(pairs_uri, Normaliser(config.lowercase), config.max_pairs, config.seed)
    idle = all(storage.exists(storage.join(uri, MANIFEST)) for uri in (names_uri, pairs_uri))
    with contextlib.nullcontext() if idle else session(config.num_cpus or _cpus()):
        if builder.finished is None:
            _make_names(config, builder, chosen, spills)
        names = Artifact.open(names_uri, "names")
        pairs = make_pairs(names, spills)
    result = Result(
        names,
        pairs,
        Artifact.open(storage.join(config.out, "heldout"), "queries") if config.hold_out else None,
        export_dictionary(names, storage.join(config.out, "dictionary")) if config.export_dictionary else None,
    )
    print(_summary(result))
    return result


def _cpus() -> int:
    """Return the logical CPUs of a local Ray for this job: it has no actors that hold CPUs, so the cores are enough."""
    return max(2, len(os.sched_getaffinity(0)))


def _make_names(config: Config, builder: ArtifactBuilder, chosen: NameFilter, pairs: PairSpills) -> None:
    """Read, filter, hold out, and publish the names."""
    from biomodels.terminology.rejects import check_reject_rate
    from ray_jobs.shard.held_out import hold_out, mentions
    from ray_jobs.shard.name_parts import SpilledNames, make_parts
    from ray_jobs.shard.source_blocks import Plan, parse_sources, read_rejects

    sources = _sources(config)
    work = builder.work("spill")
    summaries = parse_sources(Plan(tuple(sources), work, int(config.block_size * (1 << 20)), chosen))
    for number, source in enumerate(sources):
        mine = [summary for summary in summaries if summary.source == number]
        rows, rejected = sum(item.rows for item in mine), sum(item.rejected for item in mine)
        check_reject_rate(
            rejected, rows, config.max_reject_rate, [example for item in mine for example in item.examples]
        )
        if rows == rejected:
            raise InputError.at(source.uri, None, "holds no usable row", f"check that it is what --{source.role} needs")
    spilled = SpilledNames.of(summaries, work)
    removed: Counter[str] = Counter()
    for summary in summaries:
        removed.update(summary.removed)
    if spilled.rows == 0:
        shown = ", ".join(f"{name} {count}" for name, count in removed.items() if count)
        raise InputError(f"no name passes the filters (removed: {shown}); widen --languages, --sources, --term-types")
    held_out: list[str] = []
    if config.hold_out:
        queries = hold_out(
            storage.join(config.out, "heldout"),
            spilled,
            config.hold_out,
            config.seed,
            config=config.names_config(),
            inputs=builder.inputs,
        )
        held_out = mentions(queries)
    counts = make_parts(builder, spilled, pairs, held_out)
    rejects = read_rejects(summaries, work)
    if rejects.num_rows and builder.kept("rejects/rejects.parquet") is None:
        builder.publish_table("rejects/rejects.parquet", rejects)
    counts["removed"] = dict(removed) | counts["removed"]
    read = {
        source.role: sum(summary.rows for summary in summaries if summary.source == number)
        for number, source in enumerate(sources)
    }
    builder.commit(counts | {"rows": read, "rejects": rejects.num_rows, "normaliser": pairs.normaliser.name})


def _absolute(config: Config) -> dict[str, str]:
    """Return the paths in a form that workers in other directories understand."""
    paths = {role: getattr(config, role) for role in ("out", "mrconso", "mrsty", "obo", "tsv")}
    return {role: storage.absolute(path) for role, path in paths.items() if path}


def _sources(config: Config) -> list[Any]:
    """Return the input files with their formats."""
    from biomodels.terminology.mrconso import MrconsoFormat, MrstyFormat
    from biomodels.terminology.obo import OboFormat
    from biomodels.terminology.tsv import TsvFormat
    from ray_jobs.shard.source_blocks import Source

    found = []
    if config.mrconso:
        found.append(Source("mrconso", config.mrconso, MrconsoFormat()))
    if config.mrsty:
        found.append(Source("mrsty", config.mrsty, MrstyFormat()))
    if config.obo:
        found.append(Source("obo", config.obo, OboFormat.of(config.obo)))
    if config.tsv:
        found.append(Source("tsv", config.tsv, TsvFormat.of(config.tsv)))
    return found


def _digests(config: Config) -> dict[str, str]:
    """Return the SHA-256 of each input file."""
    digests = {}
    for role in ("mrconso", "mrsty", "obo", "tsv"):
        uri = getattr(config, role)
        if uri:
            try:
                digests[role] = storage.sha256(uri)
            except OSError as error:
                raise InputError.at(uri, None, f"cannot be read ({error})", f"check --{role}") from error
    return digests


def _summary(result: Result) -> str:
    """Return what was made, for people."""
    facts = result.names.facts
    removed = ", ".join(f"{count:,} {name}" for name, count in facts["removed"].items() if count) or "none"
    rows = sum(facts["rows"].values())
    lines = [
        f"names   {facts['names']:>12,}   of {facts['concepts']:,} concepts; languages: {len(facts['languages'])}",
        f"pairs   {result.pairs.facts['pairs']:>12,}",
        f"rows    {rows:>12,}   read, of which removed: {removed}; malformed: {facts['rejects']:,}",
    ]
    if result.held_out is not None:
        lines.append(f"queries {result.held_out.facts['queries']:>12,}   held out: {result.held_out.uri}/queries.txt")
    if result.dictionary is not None:
        written, left_out = (result.dictionary.facts[key] for key in ("names", "left_out"))
        lines.append(
            f"entries {written:>12,}   in {result.dictionary.uri}/dictionary.txt; left out for ||: {left_out:,}"
        )
    return "\n".join(lines)
