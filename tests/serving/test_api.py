"""The HTTP interface with the real linker behind it, without Ray."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re

import pytest
from fastapi.testclient import TestClient

from biomodels.index.sharded import ShardedIndex
from biomodels.inference.text_encoder import TextEncoder
from biomodels.linking.linker import Linker
from serving.api import create_app
from serving.config import Settings


class LocalService:
    """The linker in this process."""

    def __init__(self, linker: Linker) -> None:
        self.linker = linker

    async def link(self, mentions, k, where=None):
        if mentions == ["trigger a time-out"]:
            raise TimeoutError
        if mentions == ["trigger a defect"]:
            raise RuntimeError("a defect\ud800")
        return await asyncio.to_thread(self.linker.link, mentions, k, where=where)

    def info(self):
        index = {"digest": self.linker.index.digest, **self.linker.index.facts}
        return {
            "model": {"digest": self.linker.encoder.digest},
            "index": index,
            "limits": {},
            "layout": "",
            "versions": {},
        }


@pytest.fixture(scope="module")
def linker(small_index, minilm):
    return Linker(TextEncoder(minilm), ShardedIndex.open(small_index))


@pytest.fixture(scope="module")
def client(linker, small_index):
    settings = Settings(index=small_index, max_mentions=4, max_k=20, max_body_bytes=200_000)
    with TestClient(create_app(LocalService(linker), settings), raise_server_exceptions=False) as client:
        yield client


def post(client, content, content_type="application/json"):
    return client.post("/v1/link", content=content, headers={"content-type": content_type})


def body(**fields) -> bytes:
    return json.dumps(fields).encode()


def test_an_answer_is_what_the_linker_says(client, linker):
    mentions = ["mole", "Heart  ATTACK", "kidney"]
    response = client.post("/v1/link", json={"mentions": mentions, "k": 3})
    assert response.status_code == 200
    expected = [
        {"mention": mention, "candidates": [candidate.as_dict() for candidate in candidates]}
        for mention, candidates in zip(mentions, linker.link(mentions, 3), strict=True)
    ]
    assert response.json() == {
        "results": expected,
        "index_digest": linker.index.digest,
        "model_digest": linker.encoder.digest,
    }
    assert [candidate["concept_id"] for candidate in expected[0]["candidates"][:2]] == ["C02", "C03"]


def test_k_is_five_unless_given(client):
    assert len(client.post("/v1/link", json={"mentions": ["mole"]}).json()["results"][0]["candidates"]) == 5


BAD = {
    "not JSON": (b"{", 400, "Malformed JSON"),
    "nothing": (b"", 422, "body"),
    "not UTF-8": (b'{"mentions": ["caf\xe9"]}', 400, "body"),
    "deep nesting": (b"[" * 100_000, 400, ""),
    "a list": (b"[]", 422, "body"),
    "no mentions": (body(k=3), 422, "body.mentions"),
    "empty list": (body(mentions=[]), 422, "body.mentions"),
    "mentions is text": (body(mentions="mole"), 422, "body.mentions"),
    "mention is a number": (body(mentions=["mole", 7]), 422, "body.mentions.1"),
    "blank mention": (body(mentions=["mole", " \t"]), 422, "mention 2: is empty or blank"),
    "long mention": (body(mentions=["x" * 100_000]), 422, "mention 1: has 100,000 characters"),
    "half a surrogate pair": (b'{"mentions": ["\\ud800"]}', 422, "mention 1"),
    "too many mentions": (body(mentions=["mole"] * 5), 400, "mentions: at most 4"),
    "k is zero": (body(mentions=["mole"], k=0), 422, "body.k"),
    "k is negative": (body(mentions=["mole"], k=-3), 422, "body.k"),
    "k is text": (body(mentions=["mole"], k="5"), 422, "body.k"),
    "k is a fraction": (body(mentions=["mole"], k=1.5), 422, "body.k"),
    "k is true": (body(mentions=["mole"], k=True), 422, "body.k"),
    "k is no number": (b'{"mentions": ["mole"], "k": NaN}', 422, "body.k"),
    "k has 5,000 digits": (b'{"mentions": ["mole"], "k": ' + b"9" * 5000 + b"}", 400, ""),
    "k above the limit": (body(mentions=["mole"], k=21), 400, "k: at most 20"),
    "unknown field": (body(mentions=["mole"], top=3), 422, "body.top"),
    "unknown field that is no text": (b'{"mentions": ["mole"], "\\udfff": 1}', 422, "body: "),
    "large body": (body(mentions=["x" * 250_000]), 413, "body: has more than 200,000 bytes"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_request_gets_problem_json(client, case):
    content, status, detail = BAD[case]
    check_problem(post(client, content), status, detail, "/v1/link")


def check_problem(response, status, detail, path):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert set(problem) == {"type", "title", "status", "detail", "instance"}
    assert (problem["status"], problem["instance"]) == (status, path)
    assert detail in problem["title"] + " " + problem["detail"]
    assert problem["detail"]


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""])
def test_a_body_that_is_not_said_to_be_json(client, content_type):
    response = post(client, body(mentions=["mole"]), content_type)
    check_problem(response, 415, "send content-type: application/json", "/v1/link")
    assert response.headers["accept"] == "application/json"
    check_problem(client.post("/v1/link", content=body(mentions=["mole"])), 415, "is missing", "/v1/link")


def test_json_with_a_charset_is_json(client):
    assert post(client, body(mentions=["mole"]), "Application/JSON; charset=utf-8").status_code == 200


def test_a_body_without_a_length_is_limited_too(client):
    pieces = iter([b'{"mentions": ["'] + [b"x" * 50_000] * 10 + [b'"]}'])
    check_problem(client.post("/v1/link", content=pieces), 413, "body", "/v1/link")


@pytest.mark.parametrize(
    ("method", "path", "status", "detail"),
    [
        ("GET", "/v1/link", 405, "does not take GET"),
        ("DELETE", "/healthz", 405, "does not take DELETE"),
        ("GET", "/nothing", 404, "nothing at /nothing"),
        ("POST", "/v2/link", 404, "nothing at /v2/link"),
    ],
)
def test_unknown_paths_and_methods_get_problem_json(client, method, path, status, detail):
    response = client.request(method, path)
    check_problem(response, status, detail, path)
    assert ("allow" in response.headers) == (status == 405)


def test_k_above_the_number_of_concepts(linker, small_index):
    app = create_app(LocalService(linker), Settings(index=small_index))
    concepts = linker.index.facts["concepts"]
    with TestClient(app) as client:
        check_problem(
            post(client, body(mentions=["mole"], k=concepts + 1)), 400, f"between 1 and {concepts}", "/v1/link"
        )
        answer = post(client, body(mentions=["mole"], k=concepts)).json()["results"][0]["candidates"]
    assert len({candidate["concept_id"] for candidate in answer}) == concepts
    assert [candidate["rank"] for candidate in answer] == list(range(1, concepts + 1))


def test_our_own_failures_are_5xx_and_tell_nothing_of_the_inside(client):
    check_problem(post(client, body(mentions=["trigger a time-out"])), 504, "did not answer in time", "/v1/link")
    response = post(client, body(mentions=["trigger a defect"]))
    check_problem(response, 500, "defect", "/v1/link")
    assert "RuntimeError" not in response.text


def test_info_health_and_docs(client, linker):
    info = client.get("/v1/info").json()
    assert info["index"]["digest"] == linker.index.digest
    assert info["index"]["concepts"] == linker.index.facts["concepts"]
    assert client.get("/healthz").json() == {"status": "ok"}
    assert "swagger" in client.get("/docs").text.lower()
    schema = client.get("/openapi.json").json()
    assert set(schema["paths"]) == {"/v1/link", "/v1/info", "/healthz"}
    assert "application/problem+json" in schema["paths"]["/v1/link"]["post"]["responses"]["422"]["content"]


def test_the_page_needs_nothing_from_elsewhere_and_writes_text_only(client):
    response = client.get("/")
    page = response.text
    assert response.headers["content-type"].startswith("text/html")
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", page)
    assert not re.search(r"\son\w+=|\sstyle=", page), "the policy forbids inline handlers and styles"
    policy = response.headers["content-security-policy"]
    for tag in ("script", "style"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    for name in ("mention", "k"):
        assert f'<label for="{name}">' in page


def test_filters(client, linker):
    """Optional fields of the request; what no name has is refused with what there is."""
    body = {"mentions": ["mole"], "k": 2}
    plain = client.post("/v1/link", json=body).json()["results"]
    for fields in ({}, {"languages": ["en"], "sources": ["TEST"], "semantic_types": ["T047"]}, {"sources": None}):
        assert client.post("/v1/link", json=body | fields).json()["results"] == plain
    answer = client.post("/v1/link", json=body | {"languages": ["xx"]})
    assert answer.status_code == 400
    assert "languages: no name of the index has 'xx'; there are: en" in answer.json()["detail"]
    assert client.post("/v1/link", json=body | {"languages": []}).status_code == 422
    assert client.post("/v1/link", json=body | {"languages": "en"}).status_code == 422
