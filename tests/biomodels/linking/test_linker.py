from __future__ import annotations

import random

import numpy as np
import pytest

from biomodels.errors import CompatibilityError, InputError, UsageError
from biomodels.index.names import NameRow
from biomodels.index.shards import unit
from biomodels.inference.text_encoder import TextEncoder
from biomodels.linking.linker import Linker, prepare, rank_concepts
from biomodels.terminology.normalise import Normaliser, name_id


class ExactIndex:
    """A small index in memory with the interface of `ShardedIndex`: exact search, `lists` to probe."""

    nprobe = 1

    def __init__(self, entries, model_digest="m", normaliser=None, encode=None, lists=1):
        """Entries are (concept, name, vector), by inner product, or (concept, name) with `encode`, by cosine."""
        self._cosine = encode is not None
        self.model_digest = model_digest
        self.normaliser = normaliser or Normaliser()
        self._rows: dict[int, list[NameRow]] = {}
        vectors = {}
        for concept, name, *rest in entries:
            text = self.normaliser(name)
            vectors.setdefault(name_id(text), rest[0] if rest else encode([text])[0])
            row = NameRow(name_id(text), concept, name, "en", "TEST", "SY", False, ("T047",), f"preferred {concept}")
            self._rows.setdefault(row.name_id, []).append(row)
        self._ids = np.array(sorted(vectors), dtype=np.int64)
        self._vectors = np.array([vectors[i] for i in self._ids.tolist()], dtype=np.float32)
        self._vectors = unit(self._vectors) if self._cosine else self._vectors
        self._list = np.arange(len(self._ids)) % lists
        self.facts = {
            "strings": len(vectors),
            "lists": lists,
            "concepts": len({row.concept_id for r in self._rows.values() for row in r}),
        }
        self.searches: list[tuple[int, int]] = []

    def search(self, E_ND, k, *, nprobe=None, where=None):
        self.searches.append((k, nprobe))
        E_ND = unit(E_ND) if self._cosine else E_ND
        S = np.stack([(self._vectors * query).sum(axis=1) for query in E_ND]).astype(np.float32)
        S[:, self._list >= (nprobe or self.nprobe)] = -np.inf
        order = np.lexsort((np.broadcast_to(self._ids, S.shape), -S), axis=-1)[:, :k]
        scores, ids = np.take_along_axis(S, order, 1), self._ids[order]
        ids[np.isinf(scores)] = -1
        pad = ((0, 0), (0, k - scores.shape[1]))
        return np.pad(scores, pad, constant_values=-np.inf), np.pad(ids, pad, constant_values=-1)

    def matching(self, where):
        return len(self._ids)

    def rows_of(self, name_ids, where=None):
        return {i: self._rows[i] for i in name_ids if i in self._rows}


def ids(candidates):
    return [candidate.concept_id for candidate in candidates]


def ask(index, *query, k):
    return rank_concepts(index, np.array([query], dtype=np.float32), k)[0]


def test_one_best_name_per_concept_with_everything_an_answer_carries():
    index = ExactIndex([("C1", "Skin  Melanoma", (0.9, 0)), ("C1", "melanoma", (1, 0)), ("C2", "nevus", (0.5, 0))])
    first, second = ask(index, 1, 0, k=2)
    assert first.as_dict() == {
        "rank": 1,
        "concept_id": "C1",
        "preferred_name": "preferred C1",
        "matched_name": "melanoma",
        "score": 1.0,
        "source": "TEST",
        "language": "en",
        "semantic_types": ["T047"],
    }
    assert (second.rank, second.concept_id, second.score) == (2, "C2", 0.5)


def test_homonyms_give_all_their_concepts_in_the_order_of_their_ids():
    index = ExactIndex([("C3", "cold", (1, 0)), ("C1", "cold", (1, 0)), ("C2", "flu", (0.5, 0))])
    assert ids(ask(index, 1, 0, k=3)) == ["C1", "C3", "C2"]
    assert ids(ask(index, 1, 0, k=1)) == ["C1"]


def test_scores_are_rounded_before_they_are_ordered():
    index = ExactIndex([("C2", "a", (0.7000012, 0)), ("C1", "b", (0.7, 0)), ("C3", "c", (0.70002, 0))])
    found = ask(index, 1, 0, k=3)
    assert ids(found) == ["C3", "C1", "C2"]
    assert [candidate.score for candidate in found] == [0.70002, 0.7, 0.7]


def test_a_concept_with_many_names_does_not_hide_the_next():
    entries = [("C1", f"name {i}", (1 - i / 1000, 0)) for i in range(100)] + [("C2", "far", (0.1, 0))]
    index = ExactIndex(entries)
    assert ids(ask(index, 1, 0, k=2)) == ["C1", "C2"]
    assert [depth for depth, _ in index.searches] == [8, 16, 32, 64, 101]


def test_a_tie_beyond_the_depth_of_the_first_search_is_found():
    """Concepts whose names all score the same: the smallest ids win, wherever their names lie."""
    index = ExactIndex([(f"C{i:03d}", f"name {i}", (1, 0)) for i in range(200)])
    assert ids(ask(index, 1, 0, k=3)) == ["C000", "C001", "C002"]


def test_lists_are_probed_until_there_are_enough_concepts():
    index = ExactIndex([(f"C{i:02d}", f"name {i}", (1 - i / 100, 0)) for i in range(24)], lists=8)
    assert len(ask(index, 1, 0, k=24)) == 24
    assert [nprobe for _, nprobe in index.searches] == [1, 2, 4, 8]


def test_the_preferred_row_is_shown_for_equal_names():
    index = ExactIndex([("C1", "Cold", (1, 0))])
    row = index.rows_of([name_id("cold")])[name_id("cold")][0]
    from dataclasses import replace

    index._rows[row.name_id] = [row, replace(row, name="COLD", source="ZZZ", preferred=True)]
    assert ask(index, 1, 0, k=1)[0].matched_name == "COLD"


@pytest.fixture(scope="module")
def linker(tiny_bert):
    encoder = TextEncoder(tiny_bert, pooling="mean")
    names = [("C1", "melanoma"), ("C1", "skin melanoma"), ("C2", "nevus"), ("C3", "Rash")]
    return Linker(encoder, ExactIndex(names, encoder.digest, encode=encoder.encode))


def test_a_name_finds_itself_whatever_its_case_and_spaces(linker):
    found = linker.link(["  RASH ", "skin\tmelanoma"], k=1)
    assert [(answer[0].concept_id, answer[0].matched_name) for answer in found] == [
        ("C3", "Rash"),
        ("C1", "skin melanoma"),
    ]


@pytest.mark.parametrize(
    ("mentions", "k", "error", "message"),
    [
        ([], 1, UsageError, "at least one mention"),
        ("melanoma", 1, UsageError, "give a list"),
        (["rash"], 0, UsageError, r"k: must be between 1 and 3.*given: 0"),
        (["rash"], -1, UsageError, r"k: must be between"),
        (["rash"], 4, UsageError, r"k: must be between 1 and 3, the number of concepts.*given: 4"),
        (["rash", ""], 1, InputError, "mention 2: is empty or blank"),
        ([" \t\u00a0\n"], 1, InputError, "mention 1: is empty or blank"),
        (["rash", "x" * 100_000], 1, InputError, "mention 2: has 100,000 characters, at most 1,000"),
        (["\ud800"], 1, InputError, "mention 1: has half of a surrogate"),
    ],
)
def test_bad_input_is_refused_with_its_place(linker, mentions, k, error, message):
    with pytest.raises(error, match=message):
        linker.link(mentions, k)


@pytest.mark.parametrize("mention", ["\x00", "\u200b", "🦠", "x" * 1000, "[MASK]", "ﬁ", "\u0130"])
def test_odd_but_valid_mentions_are_answered(linker, mention):
    assert len(linker.link([mention], 3)[0]) == 3


def test_an_index_made_by_another_model_is_refused(linker):
    with pytest.raises(
        CompatibilityError, match=f"index was made by model other.*this model is {linker.encoder.digest}"
    ):
        Linker(linker.encoder, ExactIndex([("C1", "a", (1, 0))], "other"))


def test_prepare_normalises_as_the_index_did():
    assert prepare(["  Cafe\u0301  AU lait"], Normaliser(lowercase=True)) == ["café au lait"]
    assert prepare(["  Cafe\u0301  AU lait"], Normaliser(lowercase=False)) == ["Café AU lait"]


def test_answers_do_not_depend_on_batch_mates(minilm):
    """A real encoder: every mention alone, and in random batches, gives the same candidates and the same scores."""
    encoder = TextEncoder(minilm)
    words = [
        "renal",
        "cell",
        "carcinoma",
        "acute",
        "chronic",
        "failure",
        "hepatic",
        "syndrome",
        "type 2",
        "of the skin",
    ]
    chance = random.Random(7)
    names = sorted({" ".join(chance.sample(words, chance.randint(1, 5))) for _ in range(300)})
    index = ExactIndex(
        [(f"C{i // 2:03d}", name) for i, name in enumerate(names)], encoder.digest, encode=encoder.encode
    )
    linker = Linker(encoder, index)
    mentions = [" ".join(chance.sample(words, chance.randint(1, 7))) for _ in range(60)]
    alone = {mention: linker.link([mention], 5)[0] for mention in mentions}
    for _ in range(5):
        batch = chance.sample(mentions, chance.randint(2, len(mentions)))
        assert linker.link(batch, 5) == [alone[mention] for mention in batch]
