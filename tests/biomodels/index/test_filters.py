from __future__ import annotations

import numpy as np
import pytest

from biomodels.errors import UsageError
from biomodels.index.sharded import NameFilter, ShardedIndex, merge_topk
from biomodels.index.shards import unit
from biomodels.linking.linker import rank_concepts

COUNT = 1200


@pytest.fixture(scope="module")
def rows(make_row):
    """Concepts of three names; every 40th speaks Basque in one of them, and few are of type T200."""
    made = []
    for i in range(COUNT):
        language = "eu" if i % 120 == 1 else "de" if i % 3 == 1 else "en"
        types = ["T200", "T047"] if i // 3 % 100 == 7 else ["T047"] if i // 3 % 2 else []
        made.append(
            make_row(f"C{i // 3:04d}", f"name {i}", language=language, source=f"S{i % 7}", semantic_types=types)
        )
    # A homonym: English in one concept, Basque in another.
    made.append(make_row("C9999", "name 0", language="eu", source="S9", semantic_types=None))
    return made


@pytest.fixture(scope="module", params=["Flat", "IVF32,SQ8"])
def index(request, rows, make_embeddings, make_index, tmp_path_factory) -> ShardedIndex:
    folder = tmp_path_factory.mktemp("filters")
    return make_index(make_embeddings(folder / "e", rows), folder / "ix", request.param)


def wanted(rows: list[dict], where: NameFilter) -> list[dict]:
    return [
        row
        for row in rows
        if (not where.languages or row["language"] in where.languages)
        and (not where.sources or row["source"] in where.sources)
        and (not where.semantic_types or set(row["semantic_types"] or ()) & set(where.semantic_types))
    ]


FILTERS = [
    NameFilter.of(languages=["eu"]),
    NameFilter.of(languages=["de", "en"]),
    NameFilter.of(languages=["eu"], sources=["S1", "S9"]),
    NameFilter.of(semantic_types=["T200"]),
    NameFilter.of(languages=["en"], semantic_types=["T047"], sources=["S0", "S1", "S2", "S3"]),
]


@pytest.mark.parametrize("where", FILTERS)
def test_k_concepts_whenever_k_exist(index: ShardedIndex, rows, where: NameFilter) -> None:
    allowed = wanted(rows, where)
    concepts = {row["concept_id"] for row in allowed}
    names = {row["name"] for row in allowed}
    assert index.matching(where) == len({row["name_id"] for row in allowed})
    queries = np.random.default_rng(1).normal(size=(5, 32)).astype(np.float32)
    for k in (1, 5, len(concepts), len(concepts) + 3):
        for answer in rank_concepts(index, queries, k, where):
            assert len(answer) == min(k, len(concepts))
            assert len({candidate.concept_id for candidate in answer}) == len(answer)
            assert {candidate.matched_name for candidate in answer} <= names


@pytest.mark.parametrize("where", FILTERS)
def test_the_best_of_those_allowed_are_found(index: ShardedIndex, rows, where: NameFilter) -> None:
    """Exactly what is left of an exhaustive search when the names that may not answer are struck out."""
    allowed = {row["name_id"] for row in wanted(rows, where)}
    queries = np.random.default_rng(2).normal(size=(20, 32)).astype(np.float32)
    S_all, I_all = index.search(queries, COUNT, nprobe=32)
    for k in (1, 10):
        S_NK, I_NK = index.search(queries, k, nprobe=32, where=where)
        for row in range(len(queries)):
            kept = np.isin(I_all[row], list(allowed))
            found = I_NK[row] >= 0
            assert found.sum() == min(k, len(allowed))
            assert I_NK[row][found].tolist() == I_all[row][kept][:k].tolist()
            assert np.array_equal(S_NK[row][found], S_all[row][kept][:k])


def test_a_homonym_answers_with_the_rows_that_may(index: ShardedIndex, rows) -> None:
    identity = rows[0]["name_id"]
    assert [row.concept_id for row in index.rows_of([identity])[identity]] == ["C0000", "C9999"]
    assert [row.concept_id for row in index.rows_of([identity], NameFilter.of(["eu"]))[identity]] == ["C9999"]
    assert index.rows_of([identity], NameFilter.of(["de"])) == {}


def test_shards_apart_answer_alike(index: ShardedIndex) -> None:
    apart = [ShardedIndex.open(index.uri, only=[shard]) for shard in range(3)]
    queries = np.random.default_rng(3).normal(size=(9, 32)).astype(np.float32)
    where = NameFilter.of(["eu"])
    expected = index.search(queries, 7, where=where)
    found = merge_topk([one.search(queries, 7, where=where) for one in apart], 7)
    assert np.array_equal(expected[0], found[0])
    assert np.array_equal(expected[1], found[1])
    assert sum(one.matching(where) for one in apart) == index.matching(where)


def test_nothing_matches_two_values_that_do_not_meet(index: ShardedIndex) -> None:
    assert rank_concepts(index, np.ones((2, 32), np.float32), 3, NameFilter.of(["de"], ["S9"])) == [[], []]


def test_values_that_no_name_has_are_refused(index: ShardedIndex) -> None:
    assert index.facts["languages"] == ["de", "en", "eu"]
    assert index.facts["semantic_types"] == ["T047", "T200"]
    with pytest.raises(UsageError, match="languages: no name of the index has 'fr'; there are: de, en, eu"):
        NameFilter.of(["en", "fr"]).check(index.facts)
    assert NameFilter.of([], None, ()) is None
    assert NameFilter.of(["b", "a", "a"]) == NameFilter.of(("a", "b"))


def test_many_filters_leave_few_selectors(index: ShardedIndex) -> None:
    for number in range(7):
        for language in ("de", "en", "eu"):
            where = NameFilter.of([language], [f"S{number}"])
            first = index.search(unit(np.ones((1, 32), np.float32)), 5, where=where)
            assert np.array_equal(first[1], index.search(np.ones((1, 32), np.float32), 5, where=where)[1])
    assert len(index._selections) <= 8


def test_a_query_that_is_not_finite_is_refused(index: ShardedIndex) -> None:
    queries = np.ones((3, 32), np.float32)
    queries[1, 5] = np.nan
    with pytest.raises(UsageError, match="query 2: its vector has a value that is not finite"):
        index.search(queries, 5)
