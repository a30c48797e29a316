"""One running service in each layout, asked by many clients at once."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import psutil
import pytest

from biomodels.index.sharded import ShardedIndex
from biomodels.inference.text_encoder import TextEncoder
from biomodels.linking.linker import Linker

pytestmark = pytest.mark.serve


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """`python -m serving` in its own process group."""

    def __init__(self, log, *options: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = log
        environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
        with log.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "serving", "--port", str(self.port), *options],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
            )

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + 180
        while "the linker is ready" not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.3)

    def stop(self, number: int) -> int:
        self.process.send_signal(number)
        try:
            return self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise


def ask(client: httpx.Client, mentions, k):
    response = client.post("/v1/link", json={"mentions": mentions, "k": k})
    assert response.status_code == 200, response.text
    return response.json()["results"]


def expected(linker, mentions, k):
    return [
        {"mention": mention, "candidates": [candidate.as_dict() for candidate in candidates]}
        for mention, candidates in zip(mentions, linker.link(mentions, k), strict=True)
    ]


@pytest.fixture(scope="module")
def linker(small_index, minilm):
    return Linker(TextEncoder(minilm), ShardedIndex.open(small_index))


@pytest.fixture(scope="module")
def requests():
    """200 requests of 1 to 6 mentions of very different lengths."""
    chance = random.Random(3)
    words = ["heart", "attack", "mole", "skin", "syndrome", "type 7", "of the liver", "KIDNEY", "fit", "carcinoma", "É"]
    return [
        (
            [" ".join(chance.choices(words, k=chance.choice([1, 2, 3, 5, 30]))) for _ in range(chance.randint(1, 6))],
            chance.randint(1, 9),
        )
        for _ in range(200)
    ]


def survives_the_death_of_the_encoder(server: Server, answer) -> None:
    """SIGKILL the model's process: clients are told to wait, and the service comes back by itself."""
    (encoder,) = [
        process
        for process in psutil.Process(server.process.pid).children(recursive=True)
        if "ServeReplica:linker:encoder" in " ".join(process.cmdline())
    ]
    encoder.kill()
    deadline = time.monotonic() + 60
    statuses = []
    while statuses[-2:] != [200, 200]:
        response = httpx.post(f"{server.url}/v1/link", json={"mentions": ["mole"], "k": 3}, timeout=60)
        statuses.append(response.status_code)
        assert response.status_code in {200, 503, 504}, response.text
        assert time.monotonic() < deadline, statuses
        time.sleep(0.2)
    assert response.json()["results"] == answer


def test_in_process_service(linker, requests, small_index, minilm, tmp_path):
    server = Server(tmp_path / "log", "--index", small_index, "--model", minilm)
    try:
        server.wait_until_ready()
        limits = httpx.Limits(max_connections=200, max_keepalive_connections=200)
        with httpx.Client(base_url=server.url, timeout=90, limits=limits) as client:
            with ThreadPoolExecutor(200) as pool:
                answers = list(pool.map(lambda request: ask(client, *request), requests))
            assert answers == [expected(linker, *request) for request in requests]

            assert ask(client, ["<b>Rash</b>"], 1)[0]["candidates"][0]["matched_name"] == "<b>Rash</b>"
            large = ["heart " * 100 + str(i) for i in range(256)]  # more texts than one batch of the encoder takes
            assert ask(client, large, 2) == expected(linker, large, 2)

            for content, status in ((b"{", 400), (b"{}", 422), (b"x" * 3_000_000, 413), (b'{"mentions": [""]}', 422)):
                response = client.post("/v1/link", content=content, headers={"content-type": "application/json"})
                assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
            assert client.get("/nothing").headers["content-type"] == "application/problem+json"
            info = client.get("/v1/info").json()
            assert (info["layout"], info["index"]["digest"]) == ("in-process", linker.index.digest)
            assert info["model"]["digest"] == linker.encoder.digest
            assert client.get("/healthz").status_code == client.get("/").status_code == 200

        command = [sys.executable, "-m", "serving", "--index", small_index, "--port", str(server.port)]
        second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (second.returncode, second.stderr.count("\n")) == (2, 1), second.stderr
        assert f"--port {server.port}: cannot listen" in second.stderr
        survives_the_death_of_the_encoder(server, expected(linker, ["mole"], 3))
    finally:
        code = server.stop(signal.SIGTERM)
    assert code == 0, server.log.read_text()
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url)


def test_per_shard_service_gives_the_same_answers(linker, requests, small_index, tmp_path):
    server = Server(tmp_path / "log", "--index", small_index, "--layout", "per-shard")
    try:
        server.wait_until_ready()
        with httpx.Client(base_url=server.url, timeout=90) as client, ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda request: ask(client, *request), requests[:60]))
            assert client.get("/v1/info").json()["layout"] == "per-shard"
            body = {"mentions": ["mole"], "k": 50, "languages": ["en"], "sources": ["TEST"], "semantic_types": ["T047"]}
            (filtered,) = client.post("/v1/link", json=body).json()["results"]
            assert filtered == ask(client, ["mole"], 50)[0]
        assert json.dumps(answers) == json.dumps([expected(linker, *request) for request in requests[:60]])
    finally:
        code = server.stop(signal.SIGINT)
    assert code == 0, server.log.read_text()
    assert len(server.log.read_text().splitlines()) == 1, server.log.read_text()
