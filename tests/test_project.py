"""The project as a whole: its arrows, its import cost, its cluster file, and what the README promises."""

import json
import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[1]


WIDE = os.environ | {"COLUMNS": "200"}
"""A terminal in which help texts show the names of options whole."""


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False, env=WIDE)


def test_importing_the_library_loads_nothing_heavy():
    program = "import sys, biomodels; print([m for m in ('torch', 'faiss', 'ray', 'transformers') if m in sys.modules])"
    assert python("-c", program).stdout.strip() == "[]"


def test_help_loads_nothing_heavy():
    program = (
        "import sys\nfrom ray_jobs.__main__ import build_app\nbuild_app()\n"
        "print([m for m in ('torch', 'faiss', 'ray', 'transformers', 'deepspeed') if m in sys.modules])"
    )
    result = python("-c", program)
    assert result.stdout.strip() == "[]", result.stderr


def test_cluster_file_is_valid_for_ray_up():
    import ray.autoscaler

    schema = json.loads((Path(ray.autoscaler.__file__).parent / "ray-schema.json").read_text())
    cluster = yaml.safe_load((ROOT / "cluster.yaml").read_text())
    jsonschema.validate(cluster, schema)
    assert cluster["head_node_type"] in cluster["available_node_types"]
    assert sum(node["max_workers"] for node in cluster["available_node_types"].values()) <= cluster["max_workers"]


def documented_commands() -> list[str]:
    """Every `python -m …` line of the shell blocks of README and docs, continuation lines joined, comments dropped."""
    text = "\n".join(path.read_text() for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))])
    blocks = re.findall(r"```(?:bash|sh)\n(.*?)```", text, flags=re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line.split(" #")[0].strip() for line in lines if line.strip().startswith(("python -m ", "make "))]


def test_readme_shows_commands():
    assert any(command.startswith("make demo") for command in documented_commands())
    assert any(command.startswith("python -m ray_jobs train") for command in documented_commands())


@cache
def help_of(job: str) -> str:
    return python("-m", "ray_jobs", *job.split(), "--help").stdout


@pytest.mark.parametrize("command", [c for c in documented_commands() if c.startswith("python -m ray_jobs")])
def test_documented_commands_use_options_that_exist(command: str):
    from ray_jobs.__main__ import JOBS

    words = shlex.split(command)[3:]
    job = max((name for name in JOBS if words[: len(name.split())] == name.split()), key=len, default=None)
    assert job, f"no job matches {command}"
    shown = help_of(job)
    for word in words:
        if word.startswith("--"):
            assert word.split("=")[0] in shown, f"{word} is no option of {job}"
