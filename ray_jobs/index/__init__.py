"""Jobs on an index: `index` builds it; `index update`, `verify`, `compact`, `reshard` and `prune` work on one."""

from ray_jobs.index.build import EXAMPLE, Config, main

__all__ = ["EXAMPLE", "Config", "main"]
