"""`embed` and `index` killed by SIGKILL at seeded moments end with the bytes of a run that was left alone.

The moments are exact: a `sitecustomize` that only these processes see kills at the n-th publishing of a file, when
its content is written and it has not yet appeared.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
SEED = 31
PARTS = 8
DEADLINE_S = 300
KILLER = """
import os, re, signal
if os.environ.get("KILL_PLAN"):
    os.environ.setdefault("KILL_DRIVER", str(os.getpid()))
    from biomodels import storage

    def armed(original):
        def run(*arguments):
            for number, moment in enumerate(os.environ["KILL_PLAN"].split(";")):
                name, pattern, nth, victim = moment.split("|")
                if name == original.__name__ and re.search(pattern, arguments[-1]):
                    with open(os.environ["KILL_COUNTER"] + str(number), "ab") as counter:
                        counter.write(b".")
                        counter.flush()
                        reached = counter.tell() == int(nth)
                    if reached:
                        if victim == "driver":
                            os.kill(int(os.environ["KILL_DRIVER"]), signal.SIGKILL)
                        os.kill(os.getpid(), signal.SIGKILL)
            return original(*arguments)
        return run

    for name in ("publish_file", "publish_bytes", "remove_tree"):
        setattr(storage, name, armed(getattr(storage, name)))
"""


class Jobs:
    """Runs job commands, each in a process of its own with a Ray of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "sitecustomize.py").write_text(KILLER)

    def run(self, *command: str, kill: tuple[str, ...] = ()) -> str:
        """Run a command to its end, or until the driver is killed; return its log."""
        name = str(time.monotonic_ns())
        environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
        environment |= {"PYTHONPATH": str(self.directory), "KILL_PLAN": ";".join(kill)}
        environment |= {"KILL_COUNTER": str(self.directory / f"{name}.count")}
        log = self.directory / f"{name}.log"
        with log.open("wb") as sink:
            arguments = [sys.executable, "-m", "ray_jobs", *command]
            process = subprocess.Popen(arguments, stdout=sink, stderr=sink, env=environment, start_new_session=True)
        family: dict[int, psutil.Process] = {}
        deadline = time.monotonic() + DEADLINE_S
        while process.poll() is None:
            assert time.monotonic() < deadline, log.read_text(errors="replace")
            time.sleep(0.05)
            try:
                family |= {child.pid: child for child in psutil.Process(process.pid).children(recursive=True)}
            except psutil.NoSuchProcess:
                break
        process.wait()
        for orphan in psutil.wait_procs(list(family.values()), timeout=20)[1]:
            orphan.kill()
        text = log.read_text(errors="replace")
        assert process.returncode == (-9 if any("driver" in moment for moment in kill) else 0), text
        for number, moment in enumerate(kill):
            reached = (self.directory / f"{name}.count{number}").stat().st_size
            assert reached >= int(moment.split("|")[2]), f"{moment}: was not reached"
        return text


def contents(directory: Path) -> dict[str, bytes]:
    told = {"run.json", "latency.json", "recall.png"}  # times are in them
    files = [path for path in sorted(directory.rglob("*")) if path.is_file() and path.name not in told]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    return Jobs(tmp_path_factory.mktemp("kills"))


@pytest.fixture(scope="module")
def embed(jobs: Jobs, write_names, tiny_bert: str) -> Callable[..., str]:
    names = write_names(jobs.directory / "names", 400)
    options = ("--names", names, "--model", tiny_bert, "--part-rows", "50", "--actors", "2")
    return lambda out, *kill: jobs.run("embed", *options, "--out", str(jobs.directory / out), kill=kill)


@pytest.fixture(scope="module")
def undisturbed(jobs: Jobs, embed: Callable[..., str]) -> Path:
    embed("undisturbed")
    return jobs.directory / "undisturbed"


def test_killed_embed_ends_with_the_same_bytes(jobs: Jobs, embed: Callable[..., str], undisturbed: Path) -> None:
    expected = contents(undisturbed)
    assert sum(path.startswith("embeddings/") for path in expected) == PARTS
    choice = random.Random(SEED)

    # A task and an actor, while they write a part: the job goes on by itself. Then the driver, amid a later part.
    last = choice.randint(5, 7)
    embed(
        "killed",
        f"publish_file|/strings/part|{choice.randint(1, PARTS)}|worker",
        f"publish_file|/embeddings/part|{choice.randint(1, 3)}|worker",
        f"publish_file|/embeddings/part|{last}|driver",
    )
    # Inside the commit, before the manifest and after it.
    log = embed("killed", "publish_bytes|manifest.json$|1|driver")
    kept = re.search(r"kept (\d) of 8 parts: (\d+) names not encoded again", log)
    assert kept
    assert last - 3 <= int(kept[1]) < PARTS, log
    log = embed("killed", "remove_tree|/_work$|1|driver")
    assert "kept 8 of 8 parts" in log
    assert "finished before" in embed("killed")
    assert contents(jobs.directory / "killed") == expected


@pytest.mark.slow
def test_ten_killed_actors_change_no_byte(jobs: Jobs, write_names, minilm: str) -> None:
    names = write_names(jobs.directory / "many", 3000)

    def embed(out: str, *kill: str) -> dict[str, bytes]:
        options = ("--names", names, "--model", minilm, "--part-rows", "100", "--actors", "2")
        jobs.run("embed", *options, "--out", str(jobs.directory / out), kill=kill)
        return contents(jobs.directory / out)

    moments = sorted(random.Random(SEED).sample(range(2, 32), 10))
    killed = embed("many_killed", *(f"publish_file|/embeddings/part|{moment}|worker" for moment in moments))
    assert killed == embed("many_undisturbed")


def test_killed_index_ends_with_the_same_bytes(jobs: Jobs, undisturbed: Path) -> None:
    choice = random.Random(SEED)

    def index(out: str, *kill: str) -> str:
        options = ("--embeddings", str(undisturbed), "--factory", "IVF8,Flat", "--shards", "3")
        return jobs.run("index", *options, "--out", str(jobs.directory / out), kill=kill)

    index("index")
    index(
        "index_killed",
        f"publish_file|/shards/shard|{choice.randint(1, 3)}|worker",
        f"publish_file|/names/shard|{choice.randint(1, 3)}|worker",
        "publish_file|/concepts/bucket|1|driver",
    )
    log = index("index_killed", "publish_file|/recall.json$|1|driver")
    assert "kept 1 of 1 files of training" in log
    assert "kept 3 of 3 files of vectors" in log
    log = index("index_killed", "publish_bytes|manifest.json$|1|driver")
    assert "kept 1 of 1 files of concepts" in log
    index("index_killed")
    assert contents(jobs.directory / "index_killed") == contents(jobs.directory / "index")
