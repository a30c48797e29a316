"""The sentence search over HTTP, without Ray."""

from __future__ import annotations

import json
import re

import pytest
from fastapi.testclient import TestClient

from biomodels.errors import ArtifactError, CompatibilityError
from biomodels.simcse import SimCSE
from serving.api import create_app
from serving.config import Settings
from serving.corpora import KEPT, Corpora, UnknownCorpusError
from serving.problems import content_security_policy
from serving.search import PAGE, LocalSearcher

SENTENCES = ["A woman is reading.", "A man is playing a guitar.", "<script>alert(1)</script> & <b>bold</b>"]


@pytest.fixture(scope="module")
def model(minilm):
    return SimCSE(minilm)


@pytest.fixture(scope="module")
def corpora(model, tmp_path_factory):
    file = tmp_path_factory.mktemp("search") / "sentences.txt"
    file.write_text("\n\n".join(SENTENCES))
    return Corpora(model, str(file), max_sentences=100)


@pytest.fixture(scope="module")
def client(corpora):
    settings = Settings(sentence_model="unused", max_body_bytes=100_000)
    app = create_app(None, settings, LocalSearcher(corpora))
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def search(client, query, **fields):
    response = client.post("/v1/search", json={"query": query, **fields})
    assert response.status_code == 200, response.text
    return response.json()


def test_an_answer_is_what_the_tool_says(client, model, corpora):
    model.build_index(SENTENCES)
    answer = search(client, "He plays guitar.", threshold=-1, top_k=3)
    expected = model.search("He plays guitar.", threshold=-1, top_k=3)
    assert [(hit["sentence"], hit["score"]) for hit in answer["results"]] == expected
    assert (answer["results"][0]["rank"], answer["results"][0]["id"]) == (1, "1")
    assert answer["corpus"] == "default" and 0 < answer["seconds"] < 60


def test_threshold_and_top_k_default_to_those_of_the_tool(client):
    assert [hit["sentence"] for hit in search(client, "He plays guitar.")["results"]] == [SENTENCES[1]]
    assert search(client, "quantum chromodynamics")["results"] == []


def test_a_corpus_is_loaded_in_pieces_and_searched_by_its_name(client):
    response = client.post("/v1/corpora", json={"sentences": ["One kidney.", "  ", "Two kidneys.\n"]})
    assert response.status_code == 201
    loaded = response.json()
    assert loaded["sentences"] == 2
    added = client.post(f"/v1/corpora/{loaded['corpus']}", json={"sentences": ["A guitar."]}).json()
    assert added == {"corpus": loaded["corpus"], "sentences": 3}
    assert client.get(f"/v1/corpora/{loaded['corpus']}").json() == added
    found = search(client, "Two kidneys.", corpus=loaded["corpus"], top_k=1)["results"]
    assert (found[0]["sentence"], found[0]["id"]) == ("Two kidneys.", "1")
    assert "kidney" not in json.dumps(search(client, "Two kidneys.", threshold=-1, top_k=9)), "the default is as it was"


def test_an_empty_corpus_finds_nothing(client):
    loaded = client.post("/v1/corpora", json={"sentences": []}).json()
    assert loaded["sentences"] == 0
    assert search(client, "anything", corpus=loaded["corpus"], threshold=-1)["results"] == []


BAD = {
    "no query": ({}, 422, "query"),
    "blank query": ({"query": " \n"}, 422, "query: is empty or blank"),
    "half a pair": (b'{"query": "\\ud800"}', 422, "query: is no valid text"),
    "query is a number": ({"query": 7}, 422, "body.query"),
    "top_k is zero": ({"query": "a", "top_k": 0}, 422, "body.top_k"),
    "top_k is huge": ({"query": "a", "top_k": 10**6}, 422, "body.top_k"),
    "top_k is text": ({"query": "a", "top_k": "5"}, 422, "body.top_k"),
    "threshold is NaN": (b'{"query": "a", "threshold": NaN}', 422, "body.threshold"),
    "threshold above 1": ({"query": "a", "threshold": 2}, 422, "body.threshold"),
    "unknown field": ({"query": "a", "k": 3}, 422, "body.k"),
    "unknown corpus": ({"query": "a", "corpus": "nobody's"}, 404, "load the file again"),
    "not JSON": (b"{", 400, "Malformed JSON"),
    "large": ({"query": "a" * 200_000}, 413, "more than 100,000 bytes"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_search_gets_problem_json(client, case):
    content, status, detail = BAD[case]
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    check(client.post("/v1/search", content=content, headers={"content-type": "application/json"}), status, detail)


def check(response, status, detail):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert detail in response.json()["title"] + " " + response.json()["detail"]


def test_a_bad_corpus_gets_problem_json(client):
    for content, status, detail in [
        ({"sentences": "one"}, 422, "body.sentences"),
        ({"sentences": ["a", None]}, 422, "body.sentences.1"),
        ({"sentences": ["x"] * 101}, 400, "at most 100 here"),
    ]:
        check(client.post("/v1/corpora", json=content), status, detail)
    half = b'{"sentences": ["a", "\\udc00"]}'
    check(client.post("/v1/corpora", content=half, headers={"content-type": "application/json"}), 422, "sentence 2")
    check(client.post("/v1/corpora/default", json={"sentences": ["a"]}), 400, "cannot be added to")
    check(client.post("/v1/corpora/missing", json={"sentences": ["a"]}), 404, "load the file again")
    check(client.get("/v1/corpora/missing"), 404, "load the file again")
    check(client.post("/v1/corpora", content=b"[]", headers={"content-type": "text/plain"}), 415, "application/json")


def test_the_corpus_longest_not_used_gives_way(model):
    corpora = Corpora(model)
    names = [corpora.load([f"sentence {i}"])["corpus"] for i in range(KEPT)]
    corpora.search("sentence 0", 1, 0.0, names[0])
    corpora.load(["one more"])
    assert corpora.size(names[0])["sentences"] == 1
    with pytest.raises(UnknownCorpusError):
        corpora.size(names[1])


def test_a_saved_index_is_the_default_corpus(model, tiny_bert, tmp_path):
    model.build_index(SENTENCES, metadata=[{"year": 1999}, None, None])
    model.save_index(tmp_path / "index")
    corpora = Corpora(model, str(tmp_path / "index"))
    assert corpora.describe()["sentences"] == 3
    assert corpora.search(SENTENCES[0], 1, 0.9)[0].metadata == {"year": 1999}
    with pytest.raises(CompatibilityError):
        Corpora(SimCSE(tiny_bert, pooler="avg"), str(tmp_path / "index"))
    with pytest.raises(ArtifactError):
        Corpora(model, str(tmp_path))


def test_info_the_root_and_docs(client, corpora):
    info = client.get("/v1/search").json()
    assert (info["sentences"], info["max_sentences"], info["max_body_bytes"], info["pooler"]) == (
        3,
        100,
        100_000,
        "avg",
    )
    assert client.get("/", follow_redirects=False).headers["location"] == "search"
    assert set(client.get("/openapi.json").json()["paths"]) == {
        *("/v1/search", "/v1/corpora", "/v1/corpora/{name}", "/healthz")
    }


def test_the_page_needs_nothing_from_elsewhere_and_writes_text_only(client):
    response = client.get("/search")
    page = response.text
    assert response.headers["content-security-policy"] == content_security_policy(page)
    assert page == PAGE.read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", page)
    assert not re.search(r"\son\w+=|\sstyle=", page), "the policy forbids inline handlers and styles"
    for name in ("query", "top-k", "threshold"):
        assert f'<label for="{name}">' in page
