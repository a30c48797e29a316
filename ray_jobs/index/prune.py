"""`index prune`: the files of old versions of an index, deleted."""

from __future__ import annotations

from pydantic import Field

from biomodels import storage
from biomodels.artifacts import MANIFEST, VERSIONS, WORK, Artifact
from biomodels.errors import UsageError
from ray_jobs.config import CommaList, JobConfig
from ray_jobs.progress import say

EXAMPLE = "python -m ray_jobs index prune --index data/umls/index --keep 3f9a2c01"
BESIDE = ("run.json", "recall.png", "latency.json")


class Config(JobConfig):
    """Options of the job."""

    index: str = Field(description="directory or URI of the index")
    keep: CommaList = Field(default=(), description="digests, or how they begin, of older versions to keep")


def main(config: Config) -> int:
    """Delete the files that belong only to older versions of an index; return how many.

    The current version is kept, and those that `--keep` names. Whoever still reads another one must stop first.
    """
    from biomodels.index.manifest import KIND

    if storage.exists(storage.join(config.index, WORK, "plan.json")):
        raise UsageError(f"{config.index}: another version is being made, or was begun; bring that to its end first")
    current, *older = Artifact.versions(config.index, KIND)
    for prefix in config.keep:
        if not any(version.digest.startswith(prefix) for version in [current, *older]):
            raise UsageError(f"--keep {prefix}: {config.index} has no such version")
    kept = [current, *(one for one in older if one.digest.startswith(config.keep or "-"))]
    wanted = {entry.path for version in kept for entry in version.manifest.files} | {MANIFEST, *BESIDE}
    wanted |= {f"{VERSIONS}/{version.digest}.json" for version in kept}
    found = [name for name in storage.list_files(config.index, recursive=True) if not name.startswith(f"{WORK}/")]
    doomed = [name for name in found if name not in wanted]
    for name in sorted(doomed, key=lambda name: not name.startswith(VERSIONS)):  # manifests first, then what they list
        storage.remove_file(storage.join(config.index, name))
    gone = len(older) + 1 - len(kept)
    say(f"{config.index}: older versions deleted: {gone}, files: {len(doomed)}; versions kept: {len(kept)}")
    return len(doomed)
