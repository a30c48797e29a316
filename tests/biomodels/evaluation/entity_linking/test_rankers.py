from __future__ import annotations

import numpy as np
import pytest

from biomodels.evaluation.entity_linking import rankers
from biomodels.evaluation.entity_linking.rankers import Dense, ExactMatch, Indexed, Mixture, TfIdf
from biomodels.evaluation.entity_linking.vectors import VectorStore
from biomodels.index.sharded import ShardedIndex
from biomodels.inference.text_encoder import TextEncoder

NAMES = ["breast cancer", "cancer breast", "skin cancer", "heart attack", "heart failure", "ab"]


@pytest.fixture
def store(tmp_path):
    random = np.random.default_rng(0)
    table = {}

    def encode(texts):
        return np.stack([table.setdefault(t, random.standard_normal(8, dtype=np.float32)) for t in texts])

    with VectorStore(tmp_path / "v", 8, encode) as store:
        store.add([*NAMES, "cancer of the breast", "heart"])
        yield store


def test_exact_match_finds_one_name_or_none():
    S_QK, I_QK = ExactMatch(NAMES).search(["heart attack", "stroke"], 3)
    assert I_QK.tolist() == [[3, -1, -1], [-1, -1, -1]]
    assert S_QK.tolist() == [[1, 0, 0], [0, 0, 0]]


def test_tfidf_equals_a_full_product(monkeypatch):
    from sklearn.feature_extraction.text import TfidfVectorizer

    monkeypatch.setattr(rankers, "SPARSE_QUERIES", 1)
    ranker = TfIdf(NAMES)
    queries = ["breast tumour", "the heart", "zzz"]
    S_QK, I_QK = ranker.search(queries, 3)
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3)).fit(NAMES)
    full = (vectorizer.transform(queries) @ vectorizer.transform(NAMES).T).toarray()
    for row in range(2):
        kept = I_QK[row] >= 0
        assert S_QK[row][kept] == pytest.approx(full[row][I_QK[row][kept]], abs=1e-5)
        assert set(np.flatnonzero(full[row] > S_QK[row][kept].min() + 1e-4)) <= set(I_QK[row])
    assert I_QK[2].tolist() == [-1, -1, -1]
    assert ranker.pair_scores(queries[:1], np.array([[1, 3]])) == pytest.approx(full[:1, [1, 3]], abs=1e-6)


def test_names_with_the_same_words_are_equal_to_tfidf_and_ties_go_as_asked():
    query = ["breast cancer"]
    assert TfIdf(NAMES).search(query, 2)[1].tolist() == [[0, 1]]
    assert TfIdf(NAMES, ties="last").search(query, 2)[1].tolist() == [[1, 0]]
    assert TfIdf(NAMES, ties="last").search(query, 1)[1].tolist() == [[1]]


def test_names_without_letters_are_no_error():
    assert TfIdf([""]).search(["x"], 1)[1].tolist() == [[-1]]


def test_mixture_reaches_from_one_leg_to_the_other(store):
    sparse, dense = TfIdf(NAMES), Dense(store, NAMES, "cosine")
    query = ["cancer of the breast"]
    assert Mixture(sparse, dense, 0.0).search(query, 6)[1].tolist() == dense.search(query, 6)[1].tolist()
    assert Mixture(sparse, dense, 1.0).search(query, 2)[1].tolist() == sparse.search(query, 2)[1].tolist()
    S_QK, I_QK = Mixture(sparse, dense, 0.3).search(query, 6)
    expected = 0.3 * sparse.pair_scores(query, I_QK) + 0.7 * dense.pair_scores(query, I_QK)
    assert pytest.approx(expected, abs=1e-5) == S_QK
    assert sorted(I_QK[0]) == list(range(6))
    assert (np.diff(S_QK[0]) <= 0).all()


def test_dense_pads_beyond_the_last_name(store):
    _, I_QK = Dense(store, NAMES[:2], "cosine").search(["heart"], 4)
    assert (I_QK[0, 2:] == -1).all()
    assert sorted(I_QK[0, :2]) == [0, 1]


def test_an_index_answers_as_exact_search_does(small_index, minilm, tmp_path):
    index, encoder = ShardedIndex.open(small_index), TextEncoder(minilm)
    texts = ["heart attack", "mole", "short stature", "kidney cancer"]
    exact_names = ["heart attack", "mole", "short stature", "kidney cancer", "melanoma"]
    _, I_QK = Indexed(index, exact_names, encoder.encode).search(["Heart  Attack".lower(), "mole"], 3)
    assert I_QK[:, 0].tolist() == [0, 1]
    assert Indexed(index, texts, encoder.encode).search(["melanoma"], 1)[1].tolist() == [[-1]]  # not among the names
