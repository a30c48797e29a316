from __future__ import annotations

import json

import numpy as np
import pytest

from biomodels.evaluation.entity_linking.benchmark import BIOSYN_LOADER, CUSTOM_LOADER, Mention, Part
from biomodels.evaluation.entity_linking.dictionary import named_ids
from biomodels.evaluation.entity_linking.figures import comparisons, figures, hardest, mean_figures, places_of
from biomodels.evaluation.entity_linking.protocols import NOWHERE, answer, fair_task, reference_task
from biomodels.evaluation.entity_linking.rankers import ExactMatch
from biomodels.terminology.normalise import Normaliser

DRAWS = {"seed": 1, "resamples": 200}


def mention(text, *gold, document="d", number="1"):
    return Mention(number, document, text, tuple(frozenset(ids.split()) for ids in gold))


def part(mentions, dictionary, terminology=None, rules=BIOSYN_LOADER, seen=None):
    full = named_ids("d", dictionary)
    return Part("test", mentions, full, named_ids("t", terminology) if terminology else full, rules, seen)


class Fixed:
    """A ranker whose order of names is given by mention."""

    ties = "first"

    def __init__(self, names, orders):
        self.names, self.orders = list(names), orders

    def search(self, mentions, k):
        orders = [self.orders[mention] for mention in mentions]
        rows = [[self.names.index(name) for name in order][:k] for order in orders]
        rows = [row + [-1] * (k - len(row)) for row in rows]
        return np.tile(-np.arange(k, dtype=float), (len(mentions), 1)), np.array(rows)


def test_reference_counts_names_and_fair_counts_concepts():
    dictionary = [("A", "a1"), ("A", "a2"), ("B", "b")]
    sample = part([mention("Q", "B")], dictionary)
    orders = {"q": ["a1", "a2", "b"]}
    reference, fair = reference_task(sample), fair_task(sample, Normaliser())
    assert answer(reference, Fixed(reference.names, orders), 5)[0].place == 3
    assert answer(fair, Fixed(fair.names, orders), 5)[0].place == 2
    assert answer(reference, Fixed(reference.names, orders), 2)[0].place == NOWHERE


def test_a_concept_with_many_names_does_not_hide_the_next_one():
    dictionary = [("A", f"a{i}") for i in range(50)] + [("B", "b")]
    task = fair_task(part([mention("q", "B")], dictionary), Normaliser())
    assert answer(task, Fixed(task.names, {"q": task.names}), 2)[0].place == 2


def test_composites_in_the_reference_may_share_an_id_and_in_fair_may_not():
    dictionary = [("A", "alpha"), ("B", "beta")]
    sample = part([mention("x|y", "A B", "A B")], dictionary)
    orders = {"x": ["alpha", "beta"], "y": ["alpha", "beta"]}
    reference, fair = reference_task(sample), fair_task(sample, Normaliser())
    assert answer(reference, Fixed(reference.names, orders), 5)[0].place == 1
    (found,) = answer(fair, Fixed(fair.names, orders), 5)
    assert found.place == 2
    assert found.id_places == (1, 2)


def test_parts_without_ids_of_their_own_are_judged_by_any():
    task = fair_task(part([mention("x|y", "A", "A")], [("A", "alpha")]), Normaliser())
    assert answer(task, Fixed(task.names, {"x": ["alpha"], "y": ["alpha"]}), 5)[0].place == 1


def test_plus_signs_are_cut_in_the_reference_alone():
    sample = part([mention("Mg2+", "A")], [("A", "mg2+")], rules=CUSTOM_LOADER)
    reference, fair = reference_task(sample), fair_task(sample, Normaliser())
    assert reference.queries[0].parts == ("Mg2", "")
    assert answer(reference, ExactMatch(reference.names), 5)[0].place == NOWHERE
    assert answer(fair, ExactMatch(fair.names), 5)[0].place == 1


def test_case_follows_the_loader_in_the_reference():
    dictionary = [("A", "Herz")]
    exact = {}
    for rules in (BIOSYN_LOADER, CUSTOM_LOADER):
        task = reference_task(part([mention("Herz", "A")], dictionary, rules=rules))
        exact[rules] = answer(task, ExactMatch(task.names), 5)[0].place
    assert exact == {BIOSYN_LOADER: 1, CUSTOM_LOADER: NOWHERE}
    kept = fair_task(part([mention("herz", "A")], dictionary), Normaliser(lowercase=False))
    assert answer(kept, ExactMatch(kept.names), 5)[0].place == NOWHERE


def test_fair_queries_are_distinct_and_their_dictionary_has_no_training_mentions():
    mentions = [mention("Rash", "A", document="1"), mention("rash", "A", document="2"), mention("rash", "B")]
    sample = part(mentions, [("A", "exanthema"), ("A", "rash"), ("B", "b")], [("A", "exanthema"), ("B", "b")])
    assert len(reference_task(sample).queries) == 3
    task = fair_task(sample, Normaliser())
    assert [query.rows for query in task.queries] == [(0, 1), (2,)]
    assert task.documents == [["1", "2"], ["d"]]
    assert task.names == ["exanthema", "b"]


def test_equal_names_keep_the_order_of_their_lines():
    sample = part([mention("x", "B")], [("A", "x"), ("B", "x")])
    task = reference_task(sample)
    assert task.names == ["x"]
    assert answer(task, ExactMatch(task.names), 5)[0].place == 2


@pytest.fixture
def answered():
    mentions = [
        mention("seen", "A", document="1"),
        mention("new", "B", document="1"),
        mention("odd", "C", document="2"),
    ]
    sample = part(mentions, [("A", "seen"), ("B", "other"), ("C", "c"), ("B", "new")], seen=frozenset({"seen"}))
    task = fair_task(sample, Normaliser())
    better = answer(task, ExactMatch(task.names), 5)
    worse = answer(task, Fixed(task.names, {"seen": ["c", "seen"], "new": ["c", "new"], "odd": ["seen"]}), 5)
    return task, {"better": better, "worse": worse}


def test_figures_by_hand(answered):
    task, systems = answered
    found = figures(task, systems["worse"], (1, 5), **DRAWS)
    assert (found["n"], found["acc@1"], found["acc@5"]) == (3, 0.0, pytest.approx(2 / 3))
    assert found["curve"] == [0, pytest.approx(2 / 3, abs=1e-6)] + [pytest.approx(2 / 3, abs=1e-6)] * 3
    assert found["mrr"] == pytest.approx((0.5 + 0.5 + 0) / 3)
    assert found["recall"] == {"1": 0.0, "5": pytest.approx(2 / 3)}
    better = figures(task, systems["better"], (1,), **DRAWS)
    assert better["acc@1"] == pytest.approx(2 / 3)
    assert better["unseen"]["n"] == 2
    assert better["unseen"]["acc@1"] == 0.5
    assert better["ci95"] == [0.0, 1.0]  # document 2 alone, or document 1 alone


def test_repeated_mentions_weigh_as_one_query_in_the_interval():
    mentions = [mention("a", "A", document=str(i)) for i in range(30)] + [mention("b", "B", document="x")]
    task = fair_task(part(mentions, [("A", "a"), ("B", "z")]), Normaliser())
    found = figures(task, answer(task, ExactMatch(task.names), 5), (1,), **DRAWS)
    assert (found["n"], found["acc@1"]) == (2, 0.5)
    assert found["ci95"][0] < 0.45 < 0.55 < found["ci95"][1]


def test_mean_counts_every_part_alike(answered):
    task, systems = answered
    entries = [figures(task, systems[name], (1, 5), **DRAWS) for name in ("better", "worse")]
    mean = mean_figures(entries, [(task, systems["better"]), (task, systems["worse"])], **DRAWS)
    assert mean["n"] == 6
    assert mean["acc@1"] == pytest.approx(1 / 3)
    assert mean["ci95"][0] <= 1 / 3 <= mean["ci95"][1]


def test_mcnemar_and_hardest_errors(answered):
    task, systems = answered
    (row,) = comparisons(systems)
    assert (row["first"], row["second"], row["only_first"], row["only_second"], row["p"]) == (
        "better",
        "worse",
        2,
        0,
        0.5,
    )
    errors = hardest(task, systems, "worse", 10)
    assert [error["mention"] for error in errors] == ["odd", "seen", "new"]
    assert errors[0]["place"] is None
    assert errors[0]["gold_names"] == ["c"]
    assert errors[1]["answers"][0] == {"name": "c", "ids": ["C"], "score": 0.0}


def test_golden_predictions_of_biosyn_through_the_reference_protocol(shared_data):
    """BioSyn's stored top 20 for the 960 mentions of NCBI disease, ranked as they are, give its printed accuracies."""
    stored = json.loads((shared_data / "entity_linking/biosyn_preds/ncbi-disease.json").read_text())
    names, orders, mentions = [], {}, []
    for number, query in enumerate(stored["queries"]):
        texts = []
        for piece, parts in enumerate(query["mentions"]):
            key = f"q{number}p{piece}"  # the same mention has the same answers, but need not
            orders[key] = [f"{c['name']}#{c['cui']}" for c in parts["candidates"]]
            names += [(c["cui"], f"{c['name']}#{c['cui']}") for c in parts["candidates"]]
            texts.append(key)
        gold = frozenset(query["mentions"][0]["golden_cui"].replace("+", "|").split("|"))
        mentions.append(Mention(str(number), str(number), "|".join(texts), (gold,) * len(texts)))
    task = reference_task(part(mentions, dict.fromkeys(names)))
    assert sum(len(query.parts) > 1 for query in task.queries) == 8
    found = answer(task, Fixed([text for _, text in dict.fromkeys(names)], orders), 20)
    accuracy = [float(np.mean(places_of(found) <= k)) for k in (1, 5, 10, 20)]
    assert accuracy == pytest.approx([0.9114583333, 0.9385416667, 0.95, 0.9677083333], abs=1e-10)
