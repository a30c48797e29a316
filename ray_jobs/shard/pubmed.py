"""Job `shard pubmed`: files of PubMed records become the dataset `articles`, with one row per PMID."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from biomodels import storage
from biomodels.artifacts import Artifact, ArtifactBuilder
from biomodels.errors import ArtifactError, InputError, UsageError
from biomodels.schemas import SCHEMA_VERSION
from ray_jobs.config import JobConfig

if TYPE_CHECKING:
    from ray_jobs.shard.article_files import SourceFile

EXAMPLE = "python -m ray_jobs shard pubmed pubmed26n0001.xml.gz pubmed26n0002.xml.gz --out data/articles"
REJECTS_FILE = "rejects/rejects.parquet"


class Config(JobConfig):
    """Options of `shard pubmed`."""

    placement: ClassVar[frozenset[str]] = JobConfig.placement | {
        *("files", "update", "max_reject_rate", "require_md5"),
    }

    files: list[str] = Field(
        min_length=1,
        description="PubMed XML of baseline and updates, JSON lines, or PubTator; plain or gzip",
        json_schema_extra={"positional": True},
    )
    out: str = Field(description="directory of the dataset")
    update: str | None = Field(
        None, description="an older dataset that the files are added to; the result is that of a build from all files"
    )
    format: Literal["auto", "xml", "jsonl", "pubtator"] = Field("auto", description="format of the files")
    require_md5: bool = Field(False, description="fail where a FILE.md5 is missing; those that are there are checked")
    max_reject_rate: float = Field(0.01, ge=0, le=1, description="share of malformed records above which the job fails")


def main(config: Config) -> Artifact:
    """Read PubMed records into the dataset of articles, one row per PMID.

    Of a PMID the highest version counts, and of that the last record; deletions apply where they stand. Files named as
    NLM names them come in the order of their numbers, others in the given order. A file that cannot be read fails the
    job after all others were read; run again, the job goes on where it stopped.
    """
    from biomodels.literature.sources import in_order

    out = storage.absolute(config.out)
    older = Artifact.open(storage.absolute(config.update), "articles") if config.update else None
    files = _sources([storage.absolute(uri) for uri in in_order(config.files)])
    new = files if older is None else _not_in(older, files)
    _check_order(older, new, config)
    before = _files_of(older)
    builder = ArtifactBuilder.begin(
        out,
        "articles",
        config=config.byte_config() | {"order": [*before, *(file.name for file in new)]},
        inputs=(older.manifest.inputs if older else {}) | {file.name: file.sha256 for file in new},
        schema_version=SCHEMA_VERSION,
    )
    if builder.finished is None:
        from ray_jobs.session import session

        with session(config.num_cpus or max(2, len(os.sched_getaffinity(0)))):
            _make(config, builder, older, new)
    from ray_jobs.shard.article_files import FOLDER

    storage.remove_tree(storage.join(out, FOLDER))
    articles = Artifact.open(out, "articles")
    print(_summary(articles))
    return articles


def _make(config: Config, builder: ArtifactBuilder, older: Artifact | None, new: list[SourceFile]) -> None:
    """Read the new files, merge them after the older ones, and publish."""
    import pyarrow as pa

    from biomodels.terminology.rejects import check_reject_rate
    from ray_jobs.shard.article_files import Reading, read_files
    from ray_jobs.shard.article_parts import Spilled, make_parts

    read = read_files(Reading(builder.uri, config.format, config.require_md5), new)
    events = sum(item.records + item.deletions + item.rejects for item in read)
    examples = [example for item in read for example in item.examples]
    check_reject_rate(sum(item.rejects for item in read), events, config.max_reject_rate, examples)
    spilled = Spilled(
        tuple(uri for item in read for uri in item.uris("events")),
        tuple(uri for item in read for uri in item.uris("keys")),
        older,
    )
    counts = make_parts(builder, spilled)
    found = [older.read_table(entry) for entry in older.files(REJECTS_FILE)] if older else []
    rejects = pa.concat_tables([*found, *(item.read_rejects() for item in read)]) if found or read else None
    if rejects is not None and rejects.num_rows:
        builder.publish_table(REJECTS_FILE, rejects)
    per_file = [*(older.facts["files"] if older else []), *(item.counts for item in read)]
    builder.commit(counts | _totals(per_file) | {"files": per_file})


def _totals(per_file: list[dict[str, Any]]) -> dict[str, int]:
    return {key: sum(counts[key] for counts in per_file) for key in ("records", "rejects")}


def _sources(uris: list[str]) -> list[SourceFile]:
    """Return the files with their digests."""
    from ray_jobs.progress import bar
    from ray_jobs.shard.article_files import SourceFile

    def describe(uri: str) -> SourceFile:
        try:
            files, path = storage.filesystem(uri)
            size = files.get_file_info(path).size or 0
            return SourceFile(uri, os.path.basename(uri), storage.sha256(uri), size)
        except OSError as error:
            raise InputError.at(uri, None, f"cannot be read ({error})", "check the path") from error

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool, bar("checking", len(uris), "files") as progress:
        found = []
        for file in pool.map(describe, uris):
            found.append(file)
            progress.update()
    return found


def _files_of(articles: Artifact | None) -> list[str]:
    """Return the names of the files that a dataset was made from, in their order."""
    return [counts["name"] for counts in articles.facts.get("files", [])] if articles else []


def _not_in(older: Artifact, files: list[SourceFile]) -> list[SourceFile]:
    """Return the files that a dataset does not hold yet.

    Raises:
        ArtifactError: it holds a file of the same name and another content.
    """
    known = older.manifest.inputs
    for file in files:
        if known.get(file.name, file.sha256) != file.sha256:
            raise ArtifactError(
                f"{older.uri}: holds {file.name} with another content (SHA-256 {known[file.name]}, now {file.sha256}); "
                "build the dataset anew from all files"
            )
    return [file for file in files if file.name not in known]


def _check_order(older: Artifact | None, new: list[SourceFile], config: Config) -> None:
    """See that an update comes after what is there, and tell of files of several years."""
    from biomodels.literature.sources import in_order, nlm_number
    from ray_jobs.progress import say

    names = [*_files_of(older), *(file.name for file in new)]
    if older is not None:
        if "files" not in older.facts:
            raise UsageError(f"--update: {older.uri} is a sample; give a dataset that `shard pubmed` made")
        if storage.absolute(config.out) == older.uri:
            raise UsageError("--out is the dataset of --update, which stays as it is; choose another directory")
        if older.manifest.config["format"] != config.format:
            raise UsageError(f"--format {config.format}: {older.uri} was read as {older.manifest.config['format']}")
        if in_order(names) != names:
            raise UsageError(
                f"--update: {new[0].name} comes before files that {older.uri} holds; build anew from all files"
            )
    years = sorted({number[0] for name in names if (number := nlm_number(name))})
    if len(years) > 1:
        shown = ", ".join(f"pubmed{year:02d}" for year in years)
        say(f"note: files of several years ({shown}); each year's baseline replaces all that came before it")


def _summary(articles: Artifact) -> str:
    """Return what was made, for people."""
    facts = articles.facts
    return "\n".join(
        [
            f"articles {facts['articles']:>12,}   {facts['without_abstract']:,} without abstract; "
            f"{facts['retracted']:,} retracted or flagged; {facts['books']:,} books",
            f"deleted  {facts['deleted']:>12,}   PMIDs",
            f"records  {facts['records']:>12,}   in {len(facts['files']):,} files; malformed: {facts['rejects']:,}",
        ]
    )
