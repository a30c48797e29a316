from __future__ import annotations

import numpy as np
import pytest

from biomodels.errors import InputError, RejectRateError
from biomodels.evaluation.exact import exact_topk
from biomodels.evaluation.linking import (
    evaluate_linking,
    queries_without_gold,
    read_named_ids,
    texts_in_dictionary,
)
from biomodels.evaluation.metrics import Part, reference_accuracy, split_composite
from biomodels.inference.text_encoder import TextEncoder
from biomodels.terminology.normalise import Normaliser

VECTORS = {"melanoma": (1.0, 0.0), "skin melanoma": (0.9, 0.1), "nevus": (0.0, 4.0), "mole": (0.0, 4.0), "rash": (3, 3)}


def encode(texts):
    return np.array([VECTORS[text] for text in texts], dtype=np.float32)


@pytest.fixture
def write(tmp_path):
    def make(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return make


def read(uri, **options):
    return read_named_ids(uri, Normaliser(), **options)


def test_reads_normalises_and_keeps_duplicates(write):
    found = read(write("d.txt", "\ufeffD1|D2||Skin  Melanoma\r\n\nD3||nevus\nD3||nevus\ncui-less||x\nCUI-LESS||y"))
    assert found.texts == ["skin melanoma", "nevus", "nevus"]
    assert found.ids == [{"D1", "D2"}, {"D3"}, {"D3"}]
    assert found.unlinkable == 2
    assert not found.rejects
    assert len(found.sha256) == 64


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"D1", "1 fields"),
        (b"D1||a||b", "3 fields"),
        (b"||name", "empty id"),
        (b"D1||  ", "empty text"),
        (b"D1||caf\xe9", "not UTF-8"),
    ],
)
def test_malformed_lines_are_rejected_with_their_place(write, line, reason):
    uri = write("d.txt", b"D0||good\n" + line + b"\nD2||good too\n")
    with pytest.raises(RejectRateError, match=rf"d\.txt:2: {reason}.*1 of 3"):
        read(uri)
    found = read(uri, max_reject_rate=0.5)
    assert found.texts == ["good", "good too"]
    assert [(reject.line, reason in reject.reason) for reject in found.rejects] == [(2, True)]


def test_missing_and_empty_files_are_errors(write, tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read(str(tmp_path / "absent.txt"))
    with pytest.raises(InputError, match="has no line"):
        read(write("empty.txt", "\n\n"))


def test_names_and_concepts_are_ranked_apart(write):
    """Two names of one concept fill the first two places by name, and one place by concept."""
    dictionary = read(write("d.txt", "D1||melanoma\nD1||skin melanoma\nD2||nevus\nD3||nevus\nD4||rash\n"))
    queries = read(write("q.txt", "D1||melanoma\nD4||melanoma\nD3||mole\n"))
    results = evaluate_linking(dictionary, queries, encode, (1, 2, 3))
    scores = {(row["metric"], row["unit"]): row for row in results}
    assert set(scores) == {(metric, unit) for metric in ("cosine", "ip") for unit in ("name", "concept")}
    assert scores["cosine", "name"]["acc"] == {"1": pytest.approx(1 / 3), "2": pytest.approx(2 / 3), "3": 1.0}
    assert scores["cosine", "concept"]["acc"] == {"1": pytest.approx(1 / 3), "2": 1.0, "3": 1.0}
    assert scores["ip", "name"]["acc"]["1"] == pytest.approx(1 / 3)  # the long "rash" is first, for D4
    assert {row["n"] for row in results} == {3}
    assert texts_in_dictionary(dictionary, queries) == 2
    assert queries_without_gold(dictionary, queries) == 0


def test_a_concept_with_many_names_does_not_hide_the_next(write):
    """The ranking by concept goes as deep as it must: 60 names of one concept come before the second."""
    names = [f"D1||n{i}" for i in range(60)] + ["D2||far"]
    dictionary = read(write("d.txt", "\n".join(names)))
    queries = read(write("q.txt", "D2||q"))

    def encode_one(texts):
        return np.array([(0.0, 1.0) if text == "far" else (1.0, 0.2) for text in texts], dtype=np.float32)

    results = evaluate_linking(dictionary, queries, encode_one, (1, 2))
    by_concept = next(row for row in results if (row["metric"], row["unit"]) == ("cosine", "concept"))
    assert by_concept["acc"] == {"1": 0.0, "2": 1.0}


def test_every_distinct_text_is_encoded_once(write):
    dictionary = read(write("d.txt", "D1||nevus\nD2||nevus\nD3||mole\n"))
    queries = read(write("q.txt", "D1||rash\nD1||rash\n"))
    seen: list[str] = []
    evaluate_linking(dictionary, queries, lambda texts: seen.extend(texts) or encode(texts), (1,))
    assert sorted(seen) == ["mole", "nevus", "rash"]


@pytest.mark.slow
def test_reproduces_known_figures_of_minilm(shared_data, minilm):
    """all-MiniLM-L6-v2 with cls pooling on NCBI disease, MEDIC names alone, by BioSyn's rule (acc@1 / acc@5).

    Measured elsewhere with SapBERT's own metric: cosine 79.9 / 85.9, raw inner product 62.5 / 80.0.
    """
    folder = shared_data / "entity_linking/ncbi_disease"
    rows = [
        line.split("||")
        for path in sorted((folder / "processed_test").glob("*.concept"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    queries = [split_composite(row[3].strip().lower(), row[4].strip()) for row in rows]
    dictionary = read(str(folder / "train_dictionary.txt"), max_reject_rate=0.01)
    encoder = TextEncoder(minilm, pooling="cls", max_length=25, normalise=False)
    parts = sorted({part for mention, _ in queries for part in mention})
    E_QD, E_ND = encoder.encode(parts), encoder.encode(dictionary.texts)
    expected = {"cosine": (0.799, 0.859), "ip": (0.625, 0.800)}
    for metric, figures in expected.items():
        ranked = dict(zip(parts, exact_topk(E_QD, E_ND, 5, metric)[1], strict=True))
        answers = [
            [Part(gold, ["|".join(dictionary.ids[i]) for i in ranked[part]]) for part in mention]
            for mention, gold in queries
        ]
        accuracy = reference_accuracy(answers, (1, 5))
        assert (accuracy[1], accuracy[5]) == pytest.approx(figures, abs=0.0006), metric
