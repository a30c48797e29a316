"""Job `shard terminology`: a MRCONSO.RRF, an OBO file or a TSV becomes the datasets `names` and `pairs`."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field, model_validator

from biomodels import storage
from biomodels.artifacts import MANIFEST, Artifact, ArtifactBuilder
from biomodels.errors import InputError
from biomodels.schemas import SCHEMA_VERSION
from biomodels.terminology.dictionary_text import write_dictionary_text
from biomodels.terminology.filters import NameFilter
from biomodels.terminology.normalise import Normaliser
from biomodels.terminology.pairs import EqualNames, PairRecipe
from biomodels.terminology.pairs_text import write_pairs_text
from biomodels.terminology.tradenames import Tradenames
from ray_jobs.config import CommaList, JobConfig
from ray_jobs.shard.presets import PRESETS, Preset, describe
from ray_jobs.shard.report import export, report

if TYPE_CHECKING:
    from ray_jobs.shard.pair_parts import PairSpills
    from ray_jobs.shard.tradename_parts import TradenameSource

EXAMPLE = (
    "python -m ray_jobs shard terminology --mrconso MRCONSO.RRF.gz --mrsty MRSTY.RRF.gz --languages ENG --out data/umls"
)


class Config(JobConfig):
    """Options of `shard terminology`."""

    placement: ClassVar[frozenset[str]] = JobConfig.placement | {
        *("preset", "mrconso", "mrsty", "mrrel", "obo", "tsv", "dictionary", "block_size", "max_reject_rate"),
        *("export_pairs", "export_dictionary"),
    }
    pairs_only: ClassVar[frozenset[str]] = frozenset({"max_pairs", "equal_names", "tradenames"})
    """Options that change the pairs, not the names."""

    preset: Preset | None = Field(
        None,
        description=f"options of a published recipe, over which those given win. {describe()}. Without a preset: names "
        "in use alone, in NFC and with white space folded",
    )
    mrconso: str | None = Field(None, description="MRCONSO.RRF of a UMLS release, plain or gzip")
    mrsty: str | None = Field(None, description="MRSTY.RRF beside it: the concepts' semantic types")
    mrrel: str | None = Field(None, description="MRREL.RRF beside it, for --tradenames")
    obo: str | None = Field(None, description="OBO file, plain or gzip")
    tsv: str | None = Field(
        None,
        description="TSV file with a header: concept_id, name; optional language, source, term_type, preferred, "
        "semantic_types (joined by |)",
    )
    dictionary: str | None = Field(
        None, description="file of concept||name lines, such as a data set to fine-tune on (see --max-pairs 0)"
    )
    out: str = Field(description="directory of the datasets: OUT/names, OUT/pairs")
    languages: CommaList = Field((), description="languages to keep, UMLS or ISO codes such as ENG,de; default all")
    sources: CommaList = Field((), description="sources to keep (SAB, or prefix of OBO ids); default all")
    term_types: CommaList = Field(
        (), description="term types to keep: TTY of MRCONSO; LABEL,EXACT,NARROW,BROAD,RELATED of OBO; default all"
    )
    keep_suppressed: bool = Field(False, description="keep MRCONSO rows with SUPPRESS=E or Y; default: dropped")
    keep_obsolete: bool = Field(False, description="keep obsolete names: SUPPRESS=O, OBO is_obsolete; default: dropped")
    min_length: int = Field(0, ge=0, description="least number of characters of a name")
    max_length: int = Field(0, ge=0, description="most characters of a name; 0 for no limit")
    lowercase: bool = Field(True, description="lower the case of the strings that pairs hold and models read")
    tidy: bool = Field(True, description="bring those strings to Unicode NFC and fold their white space")
    max_pairs: int = Field(50, ge=0, description="most pairs of one concept, chosen by the seed; 0 for no cap")
    equal_names: EqualNames = Field(
        "none",
        description="pairs of a name with itself, beside the cap: none; single, of a concept that has no other name; "
        "repeated, of names that several rows of a concept bear, in other case or from other sources",
    )
    tradenames: Tradenames | None = Field(
        None,
        description="concepts borrow the names of their trade names in MRREL, and back, for the pairs: from the last "
        "relation alone, as the reference recipe, or from all",
    )
    seed: int = Field(13, description="decides which pairs and held-out synonyms are chosen, and the pairs' order")
    hold_out: int = Field(
        0, ge=0, description="hold out this many synonyms for evaluation: OUT/heldout/queries.txt (id||mention)"
    )
    export_pairs: str | None = Field(None, description="also write the pairs to this file, as id||name_1||name_2 lines")
    export_dictionary: str | None = Field(
        None, description="also write each concept's distinct names to this file, as id||name lines"
    )
    max_reject_rate: float = Field(0.01, ge=0, le=1, description="share of malformed rows above which the job fails")
    block_size: float = Field(8.0, gt=0, le=256, description="MiB of text that a parsing task gets")

    @model_validator(mode="before")
    @classmethod
    def _fill_in_preset(cls, values: Any) -> Any:
        preset = values.get("preset") if isinstance(values, dict) else None
        return {**PRESETS[preset], **values} if preset in PRESETS else values

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [role for role in ("mrconso", "obo", "tsv", "dictionary") if getattr(self, role)]
        if len(given) != 1:
            raise ValueError("give exactly one of --mrconso, --obo, --tsv, --dictionary")
        if self.mrsty and not self.mrconso:
            raise ValueError("--mrsty goes with --mrconso only")
        if (self.mrrel is None) != (self.tradenames is None):
            raise ValueError("--mrrel and --tradenames go together")
        return self

    def names_config(self) -> dict[str, Any]:
        """Return what decides the names."""
        config = {key: value for key, value in self.byte_config().items() if key not in self.pairs_only}
        return config | {"seed": self.seed if self.hold_out else None}

    def name_filter(self) -> NameFilter:
        """Return which names are kept."""
        return NameFilter.of(
            self.languages,
            self.sources,
            self.term_types,
            keep_suppressed=self.keep_suppressed,
            keep_obsolete=self.keep_obsolete,
            min_length=self.min_length,
            max_length=self.max_length,
        )


@dataclass(frozen=True)
class Result:
    """The finished datasets."""

    names: Artifact
    pairs: Artifact
    held_out: Artifact | None


def main(config: Config) -> Result:
    """Read a terminology into the names and pairs datasets.

    Malformed rows go to OUT/names/rejects. Suppressed and obsolete names are dropped unless asked for. The manifests
    hold what the closing report shows: how many rows each filter removed, homonyms, and what the cap left out;
    OUT/names/homonyms.jsonl lists the homonyms. Run again, the job goes on where it stopped.
    """
    config = config.model_copy(update=_absolute(config))
    names_uri, pairs_uri = storage.join(config.out, "names"), storage.join(config.out, "pairs")
    chosen = config.name_filter()
    digests = _digests(config)
    mrrel = digests.pop("mrrel", None)
    builder = ArtifactBuilder.begin(
        names_uri, "names", config=config.names_config(), inputs=digests, schema_version=SCHEMA_VERSION
    )
    from ray_jobs.session import session
    from ray_jobs.shard.pair_parts import PairSpills, make_pairs

    spills = PairSpills(
        pairs_uri,
        Normaliser(config.lowercase, config.tidy),
        PairRecipe(config.max_pairs, config.seed, config.equal_names),
        _tradenames(config, mrrel),
    )
    idle = all(storage.exists(storage.join(uri, MANIFEST)) for uri in (names_uri, pairs_uri))
    with contextlib.nullcontext() if idle else session(config.num_cpus or _cpus()):
        if builder.finished is None:
            _make_names(config, builder, chosen, spills)
        names = Artifact.open(names_uri, "names")
        pairs = make_pairs(names, spills)
    held_out = Artifact.open(storage.join(config.out, "heldout"), "queries") if config.hold_out else None
    print(report(names, pairs, held_out))
    if config.export_pairs:
        export("pairs", config.export_pairs, partial(write_pairs_text, pairs))
    if config.export_dictionary:
        export("dictionary", config.export_dictionary, partial(write_dictionary_text, names))
    return Result(names, pairs, held_out)


def _cpus() -> int:
    """Return the logical CPUs of a local Ray for this job: it has no actors that hold CPUs, so the cores are enough."""
    return max(2, len(os.sched_getaffinity(0)))


def _tradenames(config: Config, digest: str | None) -> TradenameSource | None:
    from ray_jobs.shard.tradename_parts import TradenameSource

    if config.tradenames is None or config.mrrel is None or digest is None:
        return None
    return TradenameSource(
        config.mrrel, digest, config.tradenames, int(config.block_size * (1 << 20)), config.max_reject_rate
    )


def _make_names(config: Config, builder: ArtifactBuilder, chosen: NameFilter, pairs: PairSpills) -> None:
    """Read, filter, hold out, and publish the names."""
    from ray_jobs.shard.held_out import hold_out, mentions
    from ray_jobs.shard.name_parts import SpilledNames, make_parts
    from ray_jobs.shard.source_blocks import Plan, check_rejects, parse_sources, publish_rejects

    sources = _sources(config)
    work = builder.work("spill")
    plan = Plan(tuple(sources), work, int(config.block_size * (1 << 20)), chosen)
    summaries = parse_sources(plan)
    check_rejects(plan, summaries, config.max_reject_rate)
    spilled = SpilledNames.of(summaries, work)
    removed: Counter[str] = Counter()
    for summary in summaries:
        removed.update(summary.removed)
    if spilled.rows == 0:
        shown = ", ".join(f"{name} {count}" for name, count in removed.items() if count)
        raise InputError(
            f"no name passes the filters (removed: {shown}); widen --languages, --sources, --term-types or the lengths"
        )
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
    rejects = publish_rejects(builder, [plan.path(summary.rejects) for summary in summaries if summary.rejects])
    counts["removed"] = dict(removed) | counts["removed"]
    read = {
        source.role: sum(summary.rows for summary in summaries if summary.source == number)
        for number, source in enumerate(sources)
    }
    builder.commit(counts | {"rows": read, "rejects": rejects, "normaliser": pairs.normaliser.name})


_INPUTS = ("mrconso", "mrsty", "mrrel", "obo", "tsv", "dictionary")


def _absolute(config: Config) -> dict[str, str]:
    """Return the paths in a form that workers in other directories understand."""
    paths = {role: getattr(config, role) for role in ("out", *_INPUTS)}
    return {role: storage.absolute(path) for role, path in paths.items() if path}


def _sources(config: Config) -> list[Any]:
    """Return the input files with their formats."""
    from biomodels.terminology.dictionary_text import DictionaryFormat
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
    if config.dictionary:
        found.append(Source("dictionary", config.dictionary, DictionaryFormat()))
    return found


def _digests(config: Config) -> dict[str, str]:
    """Return the SHA-256 of each input file."""
    digests = {}
    for role in _INPUTS:
        uri = getattr(config, role)
        if uri:
            try:
                digests[role] = storage.sha256(uri)
            except OSError as error:
                raise InputError.at(uri, None, f"cannot be read ({error})", f"check --{role}") from error
    return digests
