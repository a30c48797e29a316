"""Training killed by SIGKILL at five kinds of moments ends with the bytes of a run that was left alone."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

SEED = 2024
STEPS, EVERY = 36, 4
DEADLINE_S = 150


class Run:
    """One `train` command in a process of its own, with a Ray of its own."""

    def __init__(self, out: Path, pairs: Path, model: str, workers: int = 2) -> None:
        self.out = out
        self.log = out.with_suffix(f".{time.monotonic_ns()}.log")
        command = [
            sys.executable, "-m", "ray_jobs", "train", "--pairs", str(pairs), "--model", model, "--out", str(out),
            "--workers", str(workers), "--batch-size", "24", "--steps", str(STEPS), "--learning-rate", "1e-3",
            "--checkpoint-every", str(EVERY), "--micro-batch", "12", "--zero-stage", "2",
        ]  # fmt: skip
        environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def steps(self) -> dict[int, bool]:
        """Checkpoint directories by step, and whether their manifest is there."""
        root = self.out / "_work" / "checkpoints"
        found = {}
        for entry in os.scandir(root) if root.is_dir() else ():
            found[int(entry.name.removeprefix("step-"))] = os.path.exists(os.path.join(entry.path, "manifest.json"))
        return found

    def wait_until(self, condition, poll_s: float = 0.0002) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert self.process.poll() is None, self.text()
            assert time.monotonic() < deadline, self.text()
            time.sleep(poll_s)

    def worker(self, choice: random.Random) -> psutil.Process:
        workers = [p for p in psutil.Process(self.process.pid).children(recursive=True) if is_training_worker(p)]
        assert workers, self.text()
        return choice.choice(sorted(workers, key=lambda p: p.pid))

    def kill(self) -> None:
        """Kill the driver; its Ray goes with it."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        _, alive = psutil.wait_procs(family, timeout=20)
        for process in alive:
            process.kill()

    def finish(self) -> dict[str, bytes]:
        assert self.process.wait(timeout=DEADLINE_S) == 0, self.text()
        return {
            str(path.relative_to(self.out)): path.read_bytes()
            for path in sorted(self.out.rglob("*"))
            if path.is_file() and path.name != "run.json"
        }


def is_training_worker(process: psutil.Process) -> bool:
    try:
        return any("RayTrainWorker" in part for part in process.cmdline())
    except psutil.Error:
        return False


@pytest.fixture
def start():
    """Start runs; whatever still lives at the end of the test is killed."""
    runs = []

    def begin(*arguments, **options):
        runs.append(Run(*arguments, **options))
        return runs[-1]

    yield begin
    for run in runs:
        if run.process.poll() is None:
            run.kill()


@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_killed_training_ends_with_the_same_bytes(start, tiny_bert, tmp_path):
    choice = random.Random(SEED)
    pairs = tmp_path / "pairs.txt"
    syllables = ("ka", "ro", "mi", "te", "su", "no", "li", "pa", "dor", "gen")
    words = ["".join(choice.choices(syllables, k=3)) for _ in range(300)]
    pairs.write_text("".join(f"C{i}||{word} {words[-i]}||{words[-i]} of {word}\n" for i, word in enumerate(words)))

    undisturbed = start(tmp_path / "undisturbed", pairs, tiny_bert).finish()
    assert len(undisturbed["training.jsonl"].splitlines()) == STEPS

    # Workers, at two seeded steps of one run: it goes on by itself. Then the driver, inside a later checkpoint.
    out = tmp_path / "killed"
    run = start(out, pairs, tiny_bert)
    first, second, torn_step = (choice.randrange(*span, EVERY) for span in ((EVERY, 12), (12, 20), (24, STEPS)))
    for step in (first, second):
        run.wait_until(lambda step=step: any(s >= step and done for s, done in run.steps().items()), 0.01)
        time.sleep(choice.uniform(0, 0.05))
        run.worker(choice).kill()
    run.wait_until(lambda: run.steps().get(torn_step) is False)
    torn = run.worker(choice)
    torn.kill()
    run.kill()
    kept = max(s for s, done in run.steps().items() if done)
    assert second <= kept < STEPS
    shutil.copytree(out, tmp_path / "other_size")

    # The driver again, at a seeded moment after it resumed; then inside the final commit.
    run = start(out, pairs, tiny_bert)
    run.wait_until(lambda: any(s > kept and done for s, done in run.steps().items()), 0.01)
    assert f"resuming at step {kept} of {STEPS}: {kept} steps kept" in run.text()
    time.sleep(choice.uniform(0, 0.1))
    run.kill()
    run = start(out, pairs, tiny_bert)
    run.wait_until(lambda: (out / "config.json").exists() or (out / "manifest.json").exists())
    run.kill()
    assert not (out / "manifest.json").exists()
    run = start(out, pairs, tiny_bert)
    assert run.finish() == undisturbed
    assert f"{STEPS} of {STEPS} steps kept" in run.text()

    # At another world size it goes on at the same step, to nearly the same weights.
    run = start(tmp_path / "other_size", pairs, tiny_bert, workers=1)
    files = run.finish()
    assert f"resuming at step {kept} of {STEPS}: {kept} steps kept" in run.text()
    assert [len(files[name].splitlines()) for name in ("training.jsonl",)] == [STEPS]
    assert f'"world_sizes": [[0, 2], [{kept}, 1]]' in " ".join(files["manifest.json"].decode().split()).replace(
        "[ ", "["
    ).replace(" ]", "]")
