"""Job `gate`: which entries of a panel each article may be about, found by the names of their genes."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator

from biomodels import storage
from biomodels.artifacts import Artifact, ArtifactBuilder
from biomodels.errors import InputError
from biomodels.schemas import SCHEMA_VERSION
from ray_jobs.config import CommaList, JobConfig

if TYPE_CHECKING:
    from ray_jobs.gate_parts import Outcome

EXAMPLE = (
    "python -m ray_jobs gate --articles data/articles --threads data/threads --genes hgnc.tsv --out data/candidates"
)

_TIERS = ("symbol", "name", "alias", "previous")
_FILTERS = ("definition", "acronym", "frequency")


class Config(JobConfig):
    """Options of `gate`."""

    placement: ClassVar[frozenset[str]] = JobConfig.placement | {
        *("articles", "threads", "genes", "diseases", "pubtator", "statistics", "max_reject_rate"),
    }

    articles: str = Field(description="dataset of articles")
    threads: str = Field(description="dataset of threads: the panel")
    genes: CommaList = Field(
        min_length=1, description="gene tables: HGNC's complete set or custom download, NCBI's gene_info; united"
    )
    out: str = Field(description="directory of the dataset of candidates")
    tiers: CommaList = Field(
        _TIERS, description="strings to search for: approved symbols, names, aliases, previous ones"
    )
    filters: CommaList = Field(
        _FILTERS,
        description="what a string that may mean something else is judged by; none for a plain search. definition: the "
        "text says what it stands for; acronym: the corpus mostly does; frequency: an alias too common for a gene",
    )
    max_share: float = Field(
        1e-3, gt=0, le=1, description="share of articles above which an alias, or a name of one word, is too common"
    )
    diseases: CommaList = Field(
        (), description="datasets of names (shard terminology): a gene's name that is a disease's too is not searched"
    )
    pubtator: str | None = Field(
        None, description="gene2pubtator3 file: its genes count where the text has the mention"
    )
    statistics: str | None = Field(
        None, description="dataset of candidates whose corpus tells which strings are ambiguous, in place of this one"
    )
    max_reject_rate: float = Field(0.01, ge=0, le=1, description="share of malformed lines of --pubtator to accept")

    @field_validator("tiers")
    @classmethod
    def _tiers(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        return _chosen(given, _TIERS)

    @field_validator("filters")
    @classmethod
    def _filters(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        return _chosen(() if given == ("none",) else given, _FILTERS)


def _chosen(given: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    if unknown := set(given) - set(known):
        raise ValueError(f"there is no {', '.join(sorted(unknown))}; choose among {', '.join(known)}")
    return tuple(name for name in known if name in given)


def main(config: Config) -> Artifact:
    """Find the candidate entries of each article.

    Genes are told apart by their HGNC ids. An article without candidates stays, with empty lists. OUT/strings.csv is
    the audit: how many articles hold each string, what they define it as, whether it is in doubt, how often it counted.
    """
    from ray_jobs.gate_parts import Plan, decide, learn, search
    from ray_jobs.gate_strings import learned_from, publish_audit
    from ray_jobs.session import session

    config = config.model_copy(update=_absolute(config))
    articles, threads = Artifact.open(config.articles, "articles"), Artifact.open(config.threads, "threads")
    earlier = Artifact.open(config.statistics, "candidates") if config.statistics else None
    diseases = {f"diseases-{number}": Artifact.open(uri, "names") for number, uri in enumerate(config.diseases)}
    files = {f"genes-{number}": uri for number, uri in enumerate(config.genes)}
    files |= {"pubtator": config.pubtator} if config.pubtator else {}
    named = {"articles": articles, "threads": threads, **diseases} | ({"statistics": earlier} if earlier else {})
    builder = ArtifactBuilder.begin(
        config.out,
        "candidates",
        config=config.byte_config(),
        inputs={role: artifact.digest for role, artifact in named.items()} | _digests(files),
        schema_version=SCHEMA_VERSION,
    )
    if builder.finished is None:
        plan = Plan.of(
            builder, articles, threads, tables=config.genes, diseases=list(diseases.values()), tiers=config.tiers
        )
        with session(config.num_cpus or max(2, len(os.sched_getaffinity(0)))):
            if config.pubtator:
                from ray_jobs.gate_annotations import spill_annotations

                plan = plan.with_annotations(spill_annotations(builder, plan, config.pubtator, config.max_reject_rate))
            search(plan)
            own = learn(plan)
            learned = learned_from(earlier, plan.lexicon) if earlier else own
            judge = plan.judge(config.filters, config.max_share, learned)
            outcome = decide(plan, judge)
        publish_audit(builder, plan, judge, own, outcome.passed)
        builder.commit(_facts(plan, outcome) | {"learned_from_articles": learned.articles})
    candidates = Artifact.open(config.out, "candidates")
    print(_summary(candidates))
    return candidates


def _absolute(config: Config) -> dict[str, Any]:
    """Return the paths in a form that workers in other directories understand."""
    single = {role: getattr(config, role) for role in ("articles", "threads", "out", "pubtator", "statistics")}
    several = {role: tuple(map(storage.absolute, getattr(config, role))) for role in ("genes", "diseases")}
    return {role: storage.absolute(uri) for role, uri in single.items() if uri} | several


def _digests(files: dict[str, str]) -> dict[str, str]:
    found = {}
    for role, uri in files.items():
        try:
            found[role] = storage.sha256(uri)
        except OSError as error:
            option = role.split("-")[0]
            raise InputError.at(uri, None, f"cannot be read ({error})", f"check --{option}") from error
    return found


def _facts(plan: Any, outcome: Outcome) -> dict[str, Any]:
    """Return the counts of the manifest."""
    passing = Counter({int(size): count for size, count in outcome.sizes.items() if int(size)})
    articles = sum(outcome.sizes.values())
    return {
        "articles": articles,
        "passing": passing.total(),
        "pairs": sum(size * count for size, count in passing.items()),
        "median_candidates": _quantile(passing, 0.5),
        "p95_candidates": _quantile(passing, 0.95),
        "passing_by_tier": dict(sorted(outcome.tiers.items())),
        "genes": len(plan.entries),
        "genes_not_in_tables": plan.not_in_tables,
        "strings": len(plan.lexicon.strings),
    }


def _quantile(sizes: Counter[int], share: float) -> int:
    """Return the least size that at least this share of the passing articles does not exceed."""
    seen = 0
    for size in sorted(sizes):
        seen += sizes[size]
        if seen >= share * sizes.total():
            return size
    return 0


def _summary(candidates: Artifact) -> str:
    """Return what was found, for people."""
    facts = candidates.facts
    tiers = ", ".join(f"{name} {count:,}" for name, count in facts["passing_by_tier"].items())
    mean = facts["pairs"] / facts["passing"] if facts["passing"] else 0
    return "\n".join(
        [
            f"passing {facts['passing']:>12,}   of {facts['articles']:,} articles "
            f"({facts['passing'] / max(1, facts['articles']):.2%}); by tier: {tiers or 'none'}",
            f"pairs   {facts['pairs']:>12,}   {mean:.2f} candidates per passing article, "
            f"median {facts['median_candidates']}, 95 % at most {facts['p95_candidates']}",
            f"strings {facts['strings']:>12,}   of {facts['genes']:,} genes; audit in {candidates.uri}/strings.csv",
        ]
    )
