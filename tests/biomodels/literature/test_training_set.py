"""The dataset as a whole: what is made, and what is never made."""

from __future__ import annotations

from collections import Counter

import pytest

from biomodels.errors import InputError
from biomodels.literature.entries import Entry
from biomodels.literature.pairs import MiningRule, Pair
from biomodels.literature.training_set import Article, Material, Panel, Plan, build, check, groups_of, table_of
from biomodels.terminology.normalise import keyed_hash

GENES = 40
ENTRIES = {
    f"G{gene:02d}e{i}": Entry(f"G{gene:02d}e{i}", f"HGNC:{gene}", f"disease {gene} {i}", "biallelic_autosomal")
    for gene in range(GENES)
    for i in range(1 + gene % 3)
}
IDS = sorted(ENTRIES)
PANEL = Panel({g2p_id: f"{g2p_id} - thread" for g2p_id in IDS}, ENTRIES)
PLAN = Plan("abstract", 0.1, 0.2, 4, 13, 0.1, MiningRule(2, 1))


def article(pmid):
    text = f"text {pmid % 1000}"  # 1005 and 5 are one text
    return Article(text, f"digest {text}")


def chosen(*key, of):
    return of[keyed_hash(1, *key) % len(of)]


def labelled():
    rows = []
    for pmid in range(1, 301):
        gene = chosen("gene", pmid, of=range(GENES))
        for i in range(min(2, 1 + gene % 3)):  # a third entry stays unlabelled
            rows.append(Pair(pmid, f"G{gene:02d}e{i}", float(i == 0), "annotated", None, "p.csv", pmid))
    rows += [Pair(1005, "G02e0", 1.0, "silver", None, "p.csv", 1), Pair(1006, "G02e1", 0.0, "silver", None, "p.csv", 2)]
    rows += [
        Pair(7, "G39e0", 1.0, "annotated", None, "p.csv", 3),
        Pair(1007, "G39e0", 0.0, "curated", None, "p.csv", 4),
    ]
    return rows


@pytest.fixture(scope="module")
def material():
    gated = {pmid: [chosen("gate", pmid, i, of=IDS) for i in range(2)] for pmid in range(400, 460)}
    gated[1300] = ["G00e0"]  # the text of the labelled PMID 300
    ranked = dict.fromkeys(range(1, 301), (IDS, None))
    pmids = {*range(1, 301), 1005, 1006, 1007, *gated}
    return Material({pmid: article(pmid) for pmid in pmids}, PANEL, gated, ranked)


@pytest.fixture(scope="module", params=["abstract", "pmid", "gene", "entry"])
def made(request, material):
    plan = Plan(
        request.param, *(getattr(PLAN, name) for name in ("dev", "test", "folds", "seed", "sibling_label", "mining"))
    )
    return plan, build(labelled(), material, plan)


def test_nothing_leaks(made, material):
    plan, dataset = made
    for value in ("text", "pmid", plan.group_by):
        where: dict[object, set[str]] = {}
        for row in dataset.rows:
            of = {
                "text": material.articles[row.pair.pmid].text,
                "abstract": material.articles[row.pair.pmid].text,
                "pmid": row.pair.pmid,
                "gene": ENTRIES[row.pair.g2p_id].gene,
                "entry": row.pair.g2p_id,
            }
            where.setdefault(of[value], set()).add(row.split)
        assert all(len(splits) == 1 for splits in where.values())
    groups: dict[str, set[tuple[str, object]]] = {}
    for row in dataset.rows:
        groups.setdefault(row.group, set()).add((row.split, row.fold))
    assert all(len(found) == 1 for found in groups.values())
    assert set(groups_of(dataset.rows)) == {"train", "dev", "test"}


def test_made_negatives_are_for_training_alone_and_contradict_nothing(made, material):
    plan, dataset = made
    known = {(material.digest_of[pair.pmid], pair.g2p_id) for pair in labelled()}
    made_rows = [row for row in dataset.rows if row.pair.provenance in ("sibling", "mined", "corpus")]
    counts = Counter(row.pair.provenance for row in made_rows)
    assert counts["mined"] > 100
    assert counts["corpus"] > 20
    assert counts["sibling"] > 20
    for row in made_rows:
        assert row.split == "train"
        assert (material.digest_of[row.pair.pmid], row.pair.g2p_id) not in known
        assert row.pair.label == (0.1 if row.pair.provenance == "sibling" else 0.0)
        if row.pair.provenance != "corpus":
            assert row.fold == next(other.fold for other in dataset.rows if other.pair.pmid == row.pair.pmid)
    assert 1300 not in {row.pair.pmid for row in made_rows}
    assert dataset.counts["negatives_left_out"]["text is labelled"] == 1
    assert sum(n for split in table_of(dataset.rows).values() for p in split.values() for n in p.values()) == len(
        dataset.rows
    )
    if plan.group_by in ("gene", "entry"):
        assert dataset.counts["negatives_left_out"][f"{plan.group_by} held out"] > 20


def test_conflicts_go_and_their_entry_is_not_made_a_negative(made, material):
    _, dataset = made
    assert sorted(row.line for row in dataset.resolved.conflicts) == [3, 4]
    assert not [row for row in dataset.rows if row.pair.pmid in (7, 1007) and row.pair.g2p_id == "G39e0"]


def test_shares_and_folds(made):
    plan, dataset = made
    base = Counter(row.split for row in dataset.rows if row.pair.file)
    total = sum(base.values())
    tolerance = 0.02 if plan.group_by in ("abstract", "pmid") else 0.12
    assert base["test"] / total == pytest.approx(0.2, abs=tolerance)
    assert base["dev"] / total == pytest.approx(0.1, abs=tolerance)
    assert {row.fold for row in dataset.rows if row.split == "train"} == set(range(4))
    assert {row.fold for row in dataset.rows if row.split != "train"} == {None}


def test_order_of_the_input_changes_nothing(material):
    forward = build(labelled(), material, PLAN)
    backward = build(list(reversed(labelled())), material, PLAN)
    assert sorted(forward.rows, key=repr) == sorted(backward.rows, key=repr)


def test_a_text_under_two_pmids_is_one_group(material):
    dataset = build(labelled(), material, PLAN)
    of = {row.pair.pmid: (row.group, row.split) for row in dataset.rows}
    assert of[5] == of[1005]
    assert of[6] == of[1006]


@pytest.mark.parametrize(
    ("first", "second", "leak"),
    [
        (Pair(5, "G00e0", 1.0, "annotated", "train"), Pair(1005, "G03e0", 1.0, "annotated", "test"), "text digest"),
        (Pair(9, "G00e0", 1.0, "annotated", "train"), Pair(9, "G03e0", 0.0, "annotated", "dev"), "9 is in"),
    ],
)
def test_leaks_of_fixed_splits_are_caught(material, first, second, leak):
    with pytest.raises(InputError, match=f"leak: .*{leak}"):
        build([first, second], material, PLAN)


def test_the_check_catches_what_the_build_does_not_do(material):
    dataset = build(labelled(), material, PLAN)
    check(dataset.rows, material, PLAN)
    row = next(row for row in dataset.rows if row.split == "train")
    twin = row._replace(pair=row.pair._replace(g2p_id="G39e0"))
    for leak in (
        twin._replace(split="test", fold=None),
        twin._replace(fold=row.fold + 1),
        row._replace(pair=row.pair._replace(label=1 - row.pair.label)),
        twin._replace(pair=twin.pair._replace(pmid=next(r for r in dataset.rows if r.split == "test").pair.pmid)),
    ):
        with pytest.raises(InputError, match="leak"):
            check([*dataset.rows, leak], material, PLAN)


def test_fixed_splits_carry_their_group_along(material):
    rows = [
        Pair(5, "G00e0", 1.0, "annotated", "test", "f"),
        Pair(1005, "G03e0", 1.0, "annotated", None, "f"),
        *(Pair(pmid, "G06e0", 1.0, "annotated", "train", "f") for pmid in range(20, 25)),
    ]
    of = {row.pair.pmid: row.split for row in build(rows, material, PLAN).rows if row.pair.file}
    assert of == {5: "test", 1005: "test", **dict.fromkeys(range(20, 25), "train")}
