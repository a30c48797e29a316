"""The jobs: one file each, run as `python -m ray_jobs JOB …`, on one machine or under `ray job submit`."""
