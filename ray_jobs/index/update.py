"""`index update`: the changed names of a dictionary, laid over an index as a new version of it."""

from __future__ import annotations

from pydantic import Field

from biomodels.artifacts import Artifact, Manifest
from ray_jobs.config import JobConfig
from ray_jobs.index.runs import carried
from ray_jobs.progress import say
from ray_jobs.session import session
from ray_jobs.tasks import each, publish_each, timed

EXAMPLE = "python -m ray_jobs index update --index data/umls/index --embeddings data/umls-2026AB/embeddings"
COMPACT_FROM = 0.2


class Config(JobConfig):
    """Options of the job."""

    index: str = Field(description="directory or URI of the index")
    embeddings: str = Field(description="`embeddings` artifact of the whole dictionary as it is now, by the same model")


def main(config: Config) -> Manifest:
    """Add, replace and remove concepts without building an index again.

    The dictionary is compared with the one that the index was built from; what differs becomes a new version in the
    same directory, which then is the current one, all at once. The version before stays readable as
    `DIRECTORY@DIGEST`. The lists and the number of them that a search visits stay as they are.
    """
    import ray

    from biomodels.index import update
    from biomodels.index.manifest import concepts_file, removed_file, shard_file
    from biomodels.inference import parts

    made = update.begin(config.index, Artifact.open(config.embeddings, parts.KIND))
    builder = made.plan.builder
    if builder.finished:
        say(f"{config.index}: is up to date with {config.embeddings}, nothing to do")
        return builder.finished
    numbers = range(made.facts.shards)
    seconds: dict[str, float] = {}
    with session(config.num_cpus):
        shared = ray.put(made)
        with timed("changes", seconds):
            paths = [removed_file(made.folder, shard) for shard in numbers]
            publish_each(builder, "changes", "removed", paths, lambda i: update.write_changes(ray.get(shared), i))
        with timed("vectors", seconds):
            paths = [shard_file(made.folder, shard) for shard in numbers]
            publish_each(builder, "vectors", "strings", paths, lambda i: update.write_vectors(ray.get(shared), i))
        with timed("concepts", seconds):
            if not builder.kept(concepts_file(made.folder, 0)):
                chosen = ray.put(update.concerned(made))
                list(each(update.spill_candidates, [(shared, shard, chosen) for shard in numbers]))
                list(each(update.write_concepts, [(shared, chosen)]))
    manifest = update.commit(made, run={"seconds": seconds, **carried(config.index)})
    facts = manifest.facts
    say(
        f"{config.index}: {facts['strings']:,} strings of {facts['concepts']:,} concepts; {facts['added']:,} more and "
        f"{facts['removed']:,} fewer than in its base; version {manifest.digest[:12]}"
    )
    if facts["added"] + facts["removed"] > COMPACT_FROM * facts["strings"]:
        say("so much has changed that the index should be built again, for lists that fit; `index compact` saves time")
    return manifest
