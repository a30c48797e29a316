"""The tool: every call that the original's README shows, with only the import changed, and its defects, gone."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from biomodels import SimCSE
from biomodels.errors import ArtifactError, CompatibilityError, InputError, UsageError
from biomodels.sentences import index as sentence_index

SENTENCES = [
    "An animal is biting a persons finger.",
    "A woman is reading.",
    "A man is lifting weights in a garage.",
    "A man plays the violin.",
    "A man is eating food.",
    "A man plays the piano.",
    "A panda is climbing.",
    "A man plays a guitar.",
    "A woman is slicing a meat.",
    "A woman is taking a picture.",
]
QUERIES = ["A man is playing music.", "A woman is making a photo."]
EXACT = [{"use_faiss": False}, {"use_faiss": True}, {}]
WAYS = [*EXACT, {"faiss_fast": True}]


@pytest.fixture(scope="module")
def model(minilm):
    return SimCSE(minilm)


def test_the_import_is_there_and_loads_nothing_before_it_is_used():
    program = "import sys\nfrom biomodels import SimCSE\nprint('torch' in sys.modules, SimCSE.__name__)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "SimCSE"]


def test_readme_encode(model):
    embeddings = model.encode("A woman is reading.")
    assert isinstance(embeddings, torch.Tensor)
    assert embeddings.shape == (384,)
    assert abs(float(embeddings.norm()) - 1) < 1e-6


def test_readme_similarity(model):
    sentences_a = ["A woman is reading.", "A man is playing a guitar."]
    sentences_b = ["He plays guitar.", "A woman is making a photo."]
    similarities = model.similarity(sentences_a, sentences_b)
    assert similarities.shape == (2, 2)
    assert similarities[1, 0] > 0.7 > similarities.max(where=[[True, True], [False, True]], initial=-1)


@pytest.mark.parametrize("options", WAYS)
def test_readme_build_index_and_search(model, options):
    sentences = ["A woman is reading.", "A man is playing a guitar."]
    model.build_index(sentences, **options)
    results = model.search("He plays guitar.")
    assert [sentence for sentence, _ in results] == ["A man is playing a guitar."]
    assert type(results[0][1]) is float
    json.dumps(results)


@pytest.mark.parametrize("options", WAYS)
def test_the_example_of_the_original_tool(model, options):
    model.build_index(SENTENCES, **options)
    music, photo = model.search(QUERIES, threshold=0.3)
    similarities = model.similarity(QUERIES, SENTENCES)
    for found, scores in ((music, similarities[0]), (photo, similarities[1])):
        best = np.argsort(-scores)[:5]
        assert [sentence for sentence, _ in found] == [SENTENCES[i] for i in best if scores[i] >= 0.3]
        np.testing.assert_allclose([score for _, score in found], [s for s in scores[best] if s >= 0.3], atol=1e-6)


def test_encode_has_the_original_arguments(model):
    assert model.encode("a b", return_numpy=True, keepdim=True).shape == (1, 384)
    raw = model.encode(SENTENCES, device="cpu", return_numpy=True, normalize_to_unit=False, batch_size=3, max_length=16)
    assert isinstance(raw, np.ndarray)
    np.testing.assert_allclose(raw, model.encode(SENTENCES, return_numpy=True, batch_size=1), atol=1e-6)
    long = "protein " * 100
    assert not np.allclose(model.encode(long, max_length=8), model.encode(long), atol=1e-3)


def test_shapes_of_similarity_are_those_of_the_original(model):
    keys = model.encode(SENTENCES, return_numpy=True)
    assert type(model.similarity("a", "b")) is float
    assert type(model.similarity("a", keys[0])) is float
    assert model.similarity("a", SENTENCES).shape == (10,)
    assert model.similarity("a", SENTENCES[:1]).shape == (1,)
    assert model.similarity(QUERIES, "b").shape == (2, 1)
    np.testing.assert_allclose(model.similarity(QUERIES, 3 * keys), model.similarity(QUERIES, SENTENCES), atol=1e-6)


@pytest.mark.parametrize("options", WAYS)
def test_empty_lists(model, options):
    assert model.encode([]).shape == (0, 384)
    assert model.similarity([], SENTENCES).shape == (0, 10)
    assert model.similarity(QUERIES, []).shape == (2, 0)
    model.build_index([], **options)
    assert model.search("a") == []
    assert model.search(QUERIES) == [[], []]
    model.add_to_index(SENTENCES)
    assert model.search([]) == []
    assert len(model.search("A man plays a guitar.")) >= 1


@pytest.mark.parametrize("options", WAYS)
def test_threshold_and_top_k_hold_for_lists_and_nothing_is_padded(model, options):
    model.build_index(SENTENCES, **options)
    one = [model.search(query, threshold=-1, top_k=30) for query in QUERIES]
    assert model.search(QUERIES, threshold=-1, top_k=30) == one
    assert [sorted(sentence for sentence, _ in found) for found in one] == [sorted(SENTENCES)] * 2
    assert [len(found) for found in model.search(QUERIES, threshold=-1, top_k=3)] == [3, 3]
    scores = [score for _, score in one[0]]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("options", WAYS)
def test_equal_sentences_are_separate_hits_in_the_order_of_adding(model, options):
    model.build_index(["same thing"] * 7 + SENTENCES, **options)
    hits = model.find("same thing", top_k=5)[0]
    assert [hit.id for hit in hits] == ["0", "1", "2", "3", "4"]
    assert len({hit.score for hit in hits}) == 1


@pytest.mark.parametrize("options", WAYS)
def test_ids_metadata_adding_and_deleting(model, options):
    given = list(SENTENCES)
    model.build_index(given, ids=[f"s{i}" for i in range(10)], metadata=[{"row": i} for i in range(10)], **options)
    model.add_to_index(["A man plays a loud guitar."], ids=["new"], metadata=[["x", None]])
    assert given == SENTENCES, "the caller's list stays as it is"
    first, second = model.find("A man plays a guitar.", top_k=2)[0]
    assert (first.id, first.metadata, second.id, second.metadata) == ("s7", {"row": 7}, "new", ["x", None])
    assert model.delete_from_index(["s7"]) == 1
    assert model.find("A man plays a guitar.", top_k=1)[0][0].id == "new"
    assert len(model.index) == 10 and "A man plays a guitar." not in list(model.index.sentences())
    assert len(model.search("A man plays a guitar.", threshold=-1, top_k=99)) == 10
    with pytest.raises(UsageError, match="no sentence with the id 's7'"):
        model.delete_from_index(["s1", "s7"])
    assert len(model.index) == 10
    with pytest.raises(UsageError, match="'new' is there already"):
        model.add_to_index(["x"], ids=["new"])
    model.add_to_index(["back again"], ids=["s7"])
    assert model.find("back again")[0][0].id == "s7"


@pytest.mark.parametrize("options", WAYS)
def test_save_and_load(model, options, tmp_path, tiny_bert):
    model.build_index(SENTENCES, metadata=[None, *range(9)], **options)
    model.add_to_index(QUERIES)
    model.delete_from_index(["3"])
    expected = model.find(QUERIES, top_k=99, threshold=-1)
    model.save_index(tmp_path / "index")
    model.build_index(["something else"])
    model.load_index(tmp_path / "index", verify=True)
    assert model.find(QUERIES, top_k=99, threshold=-1) == expected
    model.add_to_index(["one more"])
    model.save_index(tmp_path / "index", overwrite=True)
    model.load_index(tmp_path / "index")
    assert len(model.index) == 12 and model.search("one more")[0][0] == "one more"
    with pytest.raises(UsageError, match="is there already"):
        model.save_index(tmp_path / "index")
    with pytest.raises(CompatibilityError, match="load that model"):
        SimCSE(tiny_bert, pooler="avg").load_index(tmp_path / "index")
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_what_is_no_saved_index_is_refused(model, tmp_path):
    with pytest.raises(ArtifactError, match="is no artifact"):
        model.load_index(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    with pytest.raises(ArtifactError):
        model.save_index(tmp_path / "mine", overwrite=True)
    model.build_index(SENTENCES)
    model.save_index(tmp_path / "index")
    vectors = tmp_path / "index" / "segment-000" / "vectors.npy"
    content = vectors.read_bytes()
    vectors.write_bytes(content[:-5])
    with pytest.raises(ArtifactError, match="damaged"):
        model.load_index(tmp_path / "index")
    vectors.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ArtifactError, match="content differs"):
        model.load_index(tmp_path / "index", verify=True)


def test_a_file_is_read_as_utf8_one_sentence_a_line(model, tmp_path):
    file = tmp_path / "sentences.txt"
    file.write_bytes("\ufeffErste Zeile \r\n\n  \nMöwe über Ærø\n".encode())
    model.build_index(str(file))
    assert list(model.index.sentences()) == ["Erste Zeile", "Möwe über Ærø"]
    model.add_to_index(file)
    assert [hit.id for hit in model.find("Möwe über Ærø", threshold=0.99)[0]] == ["1", "3"]
    file.write_bytes(b"good\ncaf\xe9\n")
    with pytest.raises(InputError, match=r"sentences\.txt:2: is not UTF-8 at byte 4"):
        model.build_index(file)
    assert len(model.index) == 4, "a build that fails leaves the index that was there"
    with pytest.raises(InputError, match="cannot be read"):
        model.build_index(str(tmp_path / "missing.txt"))


def test_large_indexes_go_to_disk_and_find_the_same(model, monkeypatch, tmp_path):
    monkeypatch.setattr(sentence_index, "EXACT_ROWS", 40)
    monkeypatch.setattr("biomodels.simcse.CHUNK", 16)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    many = (f"sentence {i} about {topic}" for i in range(40) for topic in ("kidneys", "hearts", "lungs", "skin"))
    model.build_index(many)
    assert model.index.facts[0]["kind"] == "sharded" and len(model.index) == 160
    assert model.search("sentence 7 about lungs", top_k=1)[0][0] == "sentence 7 about lungs"
    found = model.find("sentence 7 about lungs", top_k=160, threshold=-1)[0]
    model.delete_from_index([hit.id for hit in found[:20]])
    assert model.find("sentence 7 about lungs", top_k=150, threshold=-1)[0] == found[20:]
    model.build_index((f"sentence {i}" for i in range(100)), use_faiss=False)
    assert model.index.facts[0]["kind"] == "exact"
    assert model.search("sentence 41", top_k=1)[0][0] == "sentence 41"
    model.save_index(tmp_path / "saved")
    model.build_index(["a"])
    assert [path.name for path in tmp_path.iterdir()] == ["saved"], "the files of an index go with it"
    model.load_index(tmp_path / "saved")
    assert len(model.search("sentence 41", top_k=100, threshold=-1)) == 100


def test_bad_arguments(model, minilm):
    model.build_index(SENTENCES)
    fresh = SimCSE(minilm)
    for call, message in [
        (lambda: fresh.search("a"), "call build_index"),
        (lambda: fresh.add_to_index(["a"]), "call build_index"),
        (lambda: model.search("a", top_k=0), "top_k: must be at least 1"),
        (lambda: model.search("a", threshold=float("nan")), "threshold"),
        (lambda: model.encode("a", batch_size=0), "batch_size"),
        (lambda: model.encode("a", max_length=1), "max_length"),
        (lambda: SimCSE(minilm, num_cells=0), "num_cells"),
        (lambda: SimCSE(minilm, pooler="max"), "pooler: 'max' is none of cls, cls_before_pooler, avg"),
        (lambda: model.build_index(SENTENCES, ids=["a"] * 10), "'a' is there twice"),
        (lambda: model.build_index(SENTENCES, ids=["a"]), "ids: there are 1"),
        (lambda: model.build_index(SENTENCES[:1], metadata=[1, 2]), "metadata: there are 2 for 1"),
        (lambda: model.build_index(SENTENCES[:1], metadata=[{1j}]), "metadata: .* cannot be stored"),
        (lambda: model.similarity("a", np.ones((2, 3))), "keys: have the shape"),
    ]:
        with pytest.raises(UsageError, match=message):
            call()
    for call, message in [
        (lambda: model.build_index(["a", None]), "sentence 1: is a NoneType, not a text"),
        (lambda: model.encode(["a", 7]), "sentence 1: is a int, not a text"),
        (lambda: model.build_index(["half a pair \ud800"]), "sentence 0: is no valid text"),
        (lambda: model.similarity("a", np.full(384, np.nan)), "keys: hold values that are not finite"),
    ]:
        with pytest.raises(InputError, match=message):
            call()


def test_vectors_that_are_not_finite_are_refused(model, monkeypatch):
    monkeypatch.setattr(model._encoder.__class__, "encode", lambda self, texts: np.full((len(texts), 384), np.nan))
    with pytest.raises(InputError, match="the vector of 'a' is not finite"):
        model.build_index(["a"])


def test_a_text_of_a_hundred_thousand_words(model):
    model.build_index([*SENTENCES, "word " * 100_000])
    assert len(model.search("word word word", threshold=-1, top_k=11)) == 11


@pytest.mark.parametrize("way", [{"use_faiss": True}, {"faiss_fast": True}])
def test_without_faiss(model, monkeypatch, caplog, way):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(UsageError, match="faiss is not installed"):
        model.build_index(SENTENCES, **way)
    with caplog.at_level(logging.WARNING):
        model.build_index(SENTENCES)
    assert "faiss is not installed" in caplog.text
    assert model.search("A man plays a guitar.", top_k=1)[0][0] == "A man plays a guitar."


def test_the_pooler_is_what_is_recorded_or_given(minilm, tiny_bert, tmp_path, caplog):
    assert SimCSE(minilm).pooler == "avg"
    assert SimCSE(minilm, pooler="cls").pooler == "cls"
    copy = Path(shutil.copytree(tiny_bert, tmp_path / "unsup-model"))
    with pytest.raises(InputError, match="has no trained pooler"), caplog.at_level(logging.WARNING):
        SimCSE(str(copy))
    assert "records no pooler" in caplog.text


def test_sentences_longer_than_the_positions_are_cut(tiny_bert):
    model = SimCSE(tiny_bert, pooler="avg")
    assert model.encode("a b c " * 100, max_length=500).shape == (32,)
