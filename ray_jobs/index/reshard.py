"""`index reshard`: an index cut into another number of shards."""

from __future__ import annotations

from pydantic import Field

from biomodels.artifacts import Manifest
from ray_jobs.config import JobConfig
from ray_jobs.index.compact import rewrite_index

EXAMPLE = "python -m ray_jobs index reshard --index data/umls/index --shards 16"


class Config(JobConfig):
    """Options of the job."""

    index: str = Field(description="directory or URI of the index")
    shards: int = Field(ge=1, le=999, description="files that the vectors are cut into")


def main(config: Config) -> Manifest:
    """Cut an index into another number of shards, as a new version of it.

    Codes are copied, and nothing is trained or encoded: every answer stays as it is. An update is folded in.
    """
    return rewrite_index(config.index, config.shards, config.num_cpus)
