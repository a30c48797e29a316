"""`shard pubmed` as a command: killed by SIGKILL and run again with one CPU, it ends with the bytes of two CPUs."""

import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.cluster

DEADLINE_S = 180


def write(path, first, last, delete=()):
    rows = "".join(
        f'<PubmedArticle><MedlineCitation><PMID Version="1">{pmid}</PMID><Article><ArticleTitle>{path.name} {pmid}'
        "</ArticleTitle></Article></MedlineCitation></PubmedArticle>\n"
        for pmid in range(first, last)
    )
    gone = "".join(f"<PMID>{pmid}</PMID>" for pmid in delete)
    text = f"<PubmedArticleSet>{rows}<DeleteCitation>{gone}</DeleteCitation></PubmedArticleSet>"
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return str(path)


def start(files, out, cpus) -> subprocess.Popen:
    command = [sys.executable, "-m", "ray_jobs", "shard", "pubmed", *files, "--out", str(out), "--num-cpus", str(cpus)]
    environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    return subprocess.Popen(command, env=environment, start_new_session=True)


def kill_when(process, is_time) -> None:
    """Kill the driver at a moment, and wait for the Ray that it leaves."""
    deadline = time.monotonic() + DEADLINE_S
    while not is_time():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    family = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    for orphan in psutil.wait_procs(family, timeout=20)[1]:
        orphan.kill()


def content(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "run.json"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.timeout(600)
def test_killed_and_run_again_with_another_number_of_cpus(tmp_path):
    files = [
        write(tmp_path / "pubmed26n0001.xml.gz", 1, 3000),
        write(tmp_path / "pubmed26n0002.xml.gz", 2000, 2500, delete=(1, 2, 3)),
        write(tmp_path / "pubmed26n0003.xml.gz", 3, 4),
    ]
    killed = tmp_path / "killed"
    kill_when(start(files, killed, 1), lambda: list(killed.glob("_files/*/summary.json")))
    assert not (killed / "manifest.json").exists()
    assert start(files, killed, 1).wait(DEADLINE_S) == 0
    assert start(files, tmp_path / "whole", 2).wait(DEADLINE_S) == 0
    assert content(killed) == content(tmp_path / "whole")
