"""`index verify`: digests, counts, and that every vector finds itself."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ray_jobs.config import JobConfig
from ray_jobs.progress import bar, say
from ray_jobs.session import session
from ray_jobs.tasks import each

EXAMPLE = "python -m ray_jobs index verify --index data/umls/index"


class Config(JobConfig):
    """Options of the job."""

    index: str = Field(description="directory or URI of the index, or DIRECTORY@DIGEST for one of its versions")
    share: float = Field(default=1.0, gt=0, le=1, description="of the vectors that are searched for")


def main(config: Config) -> dict[str, Any]:
    """Check an index from its bytes to its answers.

    Every file is compared with its SHA-256; vectors, names, removals and concepts must fit together and be as many
    as the manifest says; and every vector must find itself.
    """
    import ray

    from biomodels.index import verify
    from biomodels.index.manifest import open_index

    artifact, facts = open_index(config.index)
    files = artifact.manifest.files
    counts = {"strings": 0, "names": 0}
    searched = hidden = 0
    with session(config.num_cpus):
        with bar("digests", sum(entry.bytes for entry in files), "bytes") as progress:
            for size in each(verify.check_file, [(artifact, entry) for entry in files]):
                progress.update(size)
        shards = range(facts.shards)
        with bar("counts", facts.shards, "shards") as progress:
            for found in each(verify.check_shard, [(config.index, shard) for shard in shards]):
                counts = {field: counts[field] + found[field] for field in counts}
                progress.update(1)
        verify.check_counts(config.index, counts)
        search = ray.remote(num_cpus=1, num_returns="streaming")(verify.find_themselves)
        streams = [search.remote(config.index, shard, config.share) for shard in shards]
        with bar("vectors that find themselves", round(facts.strings * config.share), "vectors") as progress:
            for stream in streams:
                for block in stream:
                    many, late = ray.get(block)
                    searched, hidden = searched + many, hidden + late
                    progress.update(many)
    say(
        f"{config.index}: {len(files)} files, {counts['strings']:,} strings, {counts['names']:,} names: in order; "
        f"{searched:,} vectors find themselves, {hidden:,} of them beyond the {facts.nprobe} lists that a search visits"
    )
    return {**counts, "searched": searched, "hidden": hidden}
