"""`index compact`: the latest update folded into the files of an index."""

from __future__ import annotations

from pydantic import Field

from biomodels.artifacts import Artifact, Manifest
from ray_jobs.config import JobConfig
from ray_jobs.index.runs import carried
from ray_jobs.progress import say
from ray_jobs.session import session
from ray_jobs.tasks import publish_each, timed

EXAMPLE = "python -m ray_jobs index compact --index data/umls/index"


class Config(JobConfig):
    """Options of the job."""

    index: str = Field(description="directory or URI of the index")


def main(config: Config) -> Manifest:
    """Fold the latest update of an index into its files, as a new version.

    Codes are copied, and nothing is trained or encoded: every answer stays as it is, and searches no longer look
    into two files for each shard. Older versions stay until `index prune`.
    """
    return rewrite_index(config.index, None, config.num_cpus)


def rewrite_index(index: str, shards: int | None, num_cpus: int | None) -> Manifest:
    """Write an index anew with its update folded in, in so many shards, as a new version of it."""
    from biomodels.index import rewrite
    from biomodels.index.manifest import concepts_file, names_file, shard_file, template_file

    made = rewrite.begin(index, shards)
    if made is None:
        say(f"{index}: has no update to fold in and as many shards as asked for; nothing to do")
        return Artifact.open(index).manifest
    builder, folder = made.builder, made.folder
    seconds: dict[str, float] = {}
    with session(num_cpus):
        numbers, buckets = range(made.shards), range(1 << made.facts.concept_bits)
        publish_each(builder, "lists", "files", [template_file(folder)], lambda _: rewrite.write_template(made))
        with timed("vectors", seconds):
            paths = [shard_file(folder, i) for i in numbers]
            publish_each(builder, "vectors", "strings", paths, lambda i: rewrite.write_vectors(made, i))
        with timed("names", seconds):
            paths = [names_file(folder, i) for i in numbers]
            publish_each(builder, "names", "names", paths, lambda i: rewrite.write_names(made, i))
        with timed("concepts", seconds):
            paths = [concepts_file(folder, i) for i in buckets]
            publish_each(builder, "concepts", "concepts", paths, lambda i: rewrite.write_concepts(made, i))
    manifest = rewrite.commit(made, run={"seconds": seconds, **carried(index)})
    strings = manifest.facts["strings"]
    say(f"{index}: {strings:,} strings in {made.shards} shards; version {manifest.digest[:12]}")
    return manifest
