"""The command line: `python -m ray_jobs JOB …`."""

from __future__ import annotations

import importlib

import typer

from ray_jobs.command import add_job

JOBS = (
    "shard terminology",
    "shard pairs",
    "shard relations",
    "shard pubmed",
    "shard threads",
    "gate",
    "sample",
    "shard sentences",
    "train",
    "embed",
    "index",
    "index update",
    "index verify",
    "index compact",
    "index reshard",
    "index prune",
    "build-dataset",
    "evaluate linking",
    "evaluate similarity",
    "evaluate sentences",
    "evaluate cross-encoder",
    "evaluate relations",
    "link",
    "convert simcse",
    "demo",
)
"""Every job: `shard terminology` lives in `ray_jobs/shard/terminology.py`, which has `Config`, `main` and `EXAMPLE`; a
dash is an underscore there."""

GROUPS = {
    "shard": "Read source files into Parquet datasets.",
    "evaluate": "Measure a model on a benchmark.",
    "index": "Build an index, or work on one.",
    "convert": "Turn models of other systems into ours, and back.",
}
"""Groups of jobs. A group that is a job itself runs it when no job of the group is named."""


def build_app() -> typer.Typer:
    """Return the command line with all jobs."""
    app = typer.Typer(
        name="python -m ray_jobs",
        help="Jobs of the biomedical text-mining system. They connect to RAY_ADDRESS if set, else start a local Ray.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
    )
    groups = {name: typer.Typer(help=text, no_args_is_help=True) for name, text in GROUPS.items()}
    for name, group in groups.items():
        app.add_typer(group, name=name)
    for job in JOBS:
        module = importlib.import_module("ray_jobs." + job.replace(" ", ".").replace("-", "_"))
        *group_name, command_name = job.split()
        if job in GROUPS:
            add_job(groups[job], None, module.Config, module.main, example=module.EXAMPLE)
        else:
            target = groups[group_name[0]] if group_name else app
            add_job(target, command_name, module.Config, module.main, example=module.EXAMPLE)
    return app


if __name__ == "__main__":
    build_app()()
