"""Folds keep units whole, are balanced, can be read from files; leakage is found where there is some."""

from __future__ import annotations

import json

import numpy as np
import pytest

from biomodels.errors import InputError, UsageError
from biomodels.relations.folds import (
    NO_FOLD,
    apply_folds,
    check_unit,
    leakage,
    leakage_from,
    read_folds,
    stratified_folds,
)


@pytest.fixture
def corpus():
    """2,000 pairs of 97 documents of very different sizes, a sixth of them positive."""
    rng = np.random.default_rng(1)
    documents = [f"d{int(number)}" for number in rng.zipf(1.3, 2000) % 97]
    return documents, rng.random(2000) < 1 / 6


def test_documents_stay_whole_and_positives_are_spread(corpus):
    documents, labels = corpus
    folds = stratified_folds(documents, labels, 5, seed=3)
    assert all(len({fold for d, fold in zip(documents, folds, strict=True) if d == name}) == 1 for name in documents)
    largest = max(documents.count(name) for name in set(documents))
    sizes = np.bincount(folds, minlength=5)
    assert sizes.min() > 0 and sizes.max() - sizes.min() <= largest
    single = stratified_folds([str(row) for row in range(2000)], labels, 10, seed=3)
    positives = np.bincount(single[labels], minlength=10)
    assert positives.max() - positives.min() <= 1
    assert np.ptp(np.bincount(single)) <= 1


def test_folds_depend_on_the_seed_and_not_on_the_order(corpus):
    documents, labels = corpus
    folds = dict(zip(documents, stratified_folds(documents, labels, 5, seed=3), strict=True))
    order = np.random.default_rng(0).permutation(2000)
    shuffled = [documents[row] for row in order]
    assert dict(zip(shuffled, stratified_folds(shuffled, labels[order], 5, seed=3), strict=True)) == folds
    assert dict(zip(documents, stratified_folds(documents, labels, 5, seed=4), strict=True)) != folds


def test_degenerate_folds():
    with pytest.raises(InputError, match="2 groups cannot be dealt to 3 folds"):
        stratified_folds(["a", "b", "b"], np.array([True, False, False]), 3, 0)
    with pytest.raises(InputError, match="2 pairs, all negative: folds need both classes"):
        stratified_folds(["a", "b"], np.array([False, False]), 2, 0)
    with pytest.raises(InputError, match="fewer folds"):
        stratified_folds([], np.array([], dtype=bool), 2, 0)


def test_leakage_by_text_and_by_document():
    texts = np.array([1, 1, 2, 3, 3, 4])
    documents = ["a", "b", "a", "c", "c", "d"]
    labels = np.array([True, False, False, True, False, False])
    leaks, counts = leakage(texts, documents, labels, np.array([0, 1, 1, 0, 0, NO_FOLD]))
    assert leaks.tolist() == [True, True, False, False, False, False]
    assert [(c.fold, c.sentences, c.pairs, c.positives, c.documents) for c in counts] == [
        (0, 1, 1, 1, 1),
        (1, 1, 1, 0, 1),
    ]
    leaks, counts = leakage_from(texts, documents, labels, np.array([3, 9]), ["d", "z"])
    assert leaks.tolist() == [False, False, False, True, True, False]
    assert (counts[0].sentences, counts[0].pairs, counts[0].positives, counts[0].documents) == (1, 2, 1, 1)
    assert not leakage(texts, documents, labels, np.zeros(6, dtype=int))[0].any()


def test_published_folds(tmp_path):
    for fold in (0, 1):
        lines = [{"id": f"X.d{fold}.s0_X.d{fold}.s0.p{n}"} for n in range(2)]
        (tmp_path / f"test_{fold}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "relation_types.json").write_text("{}")
    folds = read_folds(str(tmp_path))
    assert folds == {"X.d0.s0.p0": 0, "X.d0.s0.p1": 0, "X.d1.s0.p0": 1, "X.d1.s0.p1": 1}
    table = tmp_path / "folds.tsv"
    table.write_text("document_id\tfold\nX.d0\t1\nX.d1\t0\n")
    pairs, sentences, documents = ["X.d1.s0.p0", "X.d0.s0.p0"], ["X.d1.s0", "X.d0.s0"], ["X.d1", "X.d0"]
    assert apply_folds(folds, pairs, sentences, documents).tolist() == [1, 0]
    assert apply_folds(read_folds(str(table)), pairs, sentences, documents).tolist() == [0, 1]
    with pytest.raises(InputError, match="is in no fold"):
        apply_folds(folds, ["X.d9.p"], ["X.d9.s"], ["X.d9"])
    assert check_unit("document") == "document" and check_unit(str(table)) == str(table)
    with pytest.raises(UsageError, match="'abstract' is none of document, sentence, instance"):
        check_unit("abstract")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\t1\na\t2\n", "x.tsv:2: a is in the folds 1 and 2"),
        ("id\tfold\na 1\n", "x.tsv:2: is not an id, a tab"),
        ("", "holds no folds"),
    ],
)
def test_bad_fold_files(tmp_path, content, message):
    path = tmp_path / "x.tsv"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        read_folds(str(path))
    (tmp_path / "test_0.json").write_text("{}\n")
    with pytest.raises(InputError, match=r"test_0\.json:1"):
        read_folds(str(tmp_path))


def test_aimed_folds(shared_data):
    folds = read_folds(str(shared_data / "relations" / "ppi_folds" / "AIMed"))
    assert len(folds) == 5834
    documents = {pair.split(".s")[0] for pair in folds}
    assert sum(len({f for p, f in folds.items() if p.startswith(d + ".")}) > 1 for d in sorted(documents)[:40]) == 0
