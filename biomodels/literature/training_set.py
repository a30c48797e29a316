"""The cross-encoder's dataset: labelled pairs, split by group, with made negatives in the training split alone.

Negatives that are made never touch what is held out: their articles are of the training split or of no labelled pair,
and when genes or entries are held out, so are their threads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from biomodels.literature import splits
from biomodels.literature.entries import Entry, siblings
from biomodels.literature.pairs import (
    POSITIVE,
    Key,
    MiningRule,
    Pair,
    Resolved,
    barred,
    corpus_negatives,
    hard_negatives,
    resolve,
    sibling_negatives,
)
from biomodels.literature.splits import Group, Shared

GroupBy = Literal["abstract", "pmid", "gene", "entry"]
Ranking = tuple[Sequence[str], Sequence[float] | None]


class Article(NamedTuple):
    """What a model reads of an article, and the digest of that."""

    text: str
    digest: str


@dataclass(frozen=True)
class Panel:
    """All entries: their rendered threads and what makes them siblings."""

    threads: Mapping[str, str]
    entries: Mapping[str, Entry]

    @cached_property
    def siblings(self) -> dict[str, list[str]]:
        """Entry → the entries of its gene."""
        return siblings(self.entries.values())


@dataclass(frozen=True)
class Material:
    """What the dataset is made of.

    Attributes:
        articles: PMID → article, of every labelled pair and of all below.
        panel: all entries.
        gated: PMID → gate candidates of corpus abstracts, for corpus negatives.
        ranked: PMID → ranked entries, for hard negatives.
    """

    articles: Mapping[int, Article]
    panel: Panel
    gated: Mapping[int, Collection[str]]
    ranked: Mapping[int, Ranking]

    @cached_property
    def digest_of(self) -> dict[int, str]:
        """PMID → digest of its text."""
        return {pmid: article.digest for pmid, article in self.articles.items()}


@dataclass(frozen=True)
class Plan:
    """How the dataset is made.

    Attributes:
        group_by: what a split must not cut, besides texts and PMIDs, which it never cuts.
        dev, test: shares of the labelled pairs.
        folds: number of cross-validation folds of the training split; 0 for none.
        seed: decides splits and folds.
        sibling_label: label of unlabelled siblings, or None to make none.
        mining: how hard negatives are chosen.
    """

    group_by: GroupBy
    dev: float
    test: float
    folds: int
    seed: int
    sibling_label: float | None
    mining: MiningRule


class Row(NamedTuple):
    """A pair in the dataset."""

    pair: Pair
    group: str
    split: str
    fold: int | None


@dataclass(frozen=True)
class TrainingSet:
    """The rows, the labelled rows that were dropped, and counts of what was made and left out."""

    rows: list[Row]
    resolved: Resolved
    counts: dict[str, Any]


def build(labelled: Sequence[Pair], material: Material, plan: Plan) -> TrainingSet:
    """Make the dataset.

    Args:
        labelled: pairs whose article and entry are known.
        material: see there.
        plan: see there.

    Raises:
        InputError: the splits that a file fixes leak, or the dataset would.
    """
    splits.check_disjoint((_shared(pair, material, plan), pair.split) for pair in labelled if pair.split)
    resolved = resolve(labelled, material.digest_of)
    rows = _split_rows(resolved.kept, material, plan)
    known: dict[str, set[str]] = {}
    for pair in labelled:
        known.setdefault(material.digest_of[pair.pmid], set()).add(pair.g2p_id)
    made, counts = _negatives(rows, known, material, plan)
    rows = _with_folds([*rows, *made], plan)
    check(rows, material, plan)
    return TrainingSet(rows, resolved, counts)


def check(rows: Sequence[Row], material: Material, plan: Plan) -> None:
    """Prove that nothing leaks: each pair of texts once; no text, PMID, gene or entry (if grouped by) in two splits;
    no text or PMID in two folds.

    Raises:
        InputError: naming the first leak.
    """
    digest_of = material.digest_of
    splits.check_labels(((digest_of[row.pair.pmid], row.pair.g2p_id), row.pair.label) for row in rows)
    splits.check_disjoint((_shared(row.pair, material, plan), row.split) for row in rows)
    splits.check_disjoint(
        (Shared(digest_of[row.pair.pmid], row.pair.pmid), f"fold {row.fold}") for row in rows if row.split == "train"
    )


def _held_out(g2p_id: str, panel: Panel, plan: Plan) -> str:
    """Return the gene or entry that must not be in two splits, or nothing."""
    return {"gene": panel.entries[g2p_id].gene, "entry": g2p_id}.get(plan.group_by, "")


def _shared(pair: Pair, material: Material, plan: Plan) -> Shared:
    return Shared(material.digest_of[pair.pmid], pair.pmid, _held_out(pair.g2p_id, material.panel, plan))


def _split_rows(pairs: Sequence[Pair], material: Material, plan: Plan) -> list[Row]:
    """Group the labelled pairs and split the groups. A group is named after the least of what it holds."""
    shared = [_shared(pair, material, plan) for pair in pairs]
    members: dict[int, list[int]] = {}
    for i, number in enumerate(splits.components(shared).tolist()):
        members.setdefault(number, []).append(i)
    names = {"abstract": lambda item: item.text_digest, "pmid": lambda item: str(item.pmid)}
    name_of: Callable[[Shared], str] = names.get(plan.group_by, lambda item: item.held_out)
    groups = {min(name_of(shared[i]) for i in rows): rows for rows in members.values()}
    chosen = splits.assign_splits(
        {
            name: Group(
                len(rows),
                any(pairs[i].label >= POSITIVE for i in rows),
                next((pairs[i].split for i in rows if pairs[i].split), None),
            )
            for name, rows in groups.items()
        },
        plan.dev,
        plan.test,
        plan.seed,
    )
    return [Row(pairs[i], name, chosen[name], None) for name, rows in groups.items() for i in rows]


def _negatives(
    rows: Sequence[Row], known: Mapping[str, Collection[str]], material: Material, plan: Plan
) -> tuple[list[Row], dict[str, Any]]:
    """Make siblings, hard negatives and corpus negatives, in this order: a pair is made once, as the first of them.

    Args:
        rows: the labelled pairs.
        known: digest of a text → the entries with which it is labelled, also in rows that were dropped.
        material: see there.
        plan: see there.
    """
    panel, digest_of, gated = material.panel, material.digest_of, material.gated
    anchors = [row.pair for row in rows if row.split == "train" and row.pair.label >= POSITIVE]
    group_of = {row.pair.pmid: row.group for row in rows}
    known_of = {pmid: known.get(digest, ()) for pmid, digest in digest_of.items()}
    made: list[Pair] = []
    if plan.sibling_label is not None:
        made += sibling_negatives(anchors, known_of, panel.entries, panel.siblings, plan.sibling_label)
    mined, mining = _mined(anchors, known_of, material.ranked, panel, plan.mining)
    corpus = {pmid: ids for pmid, ids in gated.items() if digest_of[pmid] not in known}
    made += [*mined, *corpus_negatives(corpus)]
    closed = {_held_out(row.pair.g2p_id, panel, plan) for row in rows if row.split != "train"} - {""}
    taken: set[Key] = set()
    kept, left_out = [], Counter[str]()
    for pair in made:
        key = (digest_of[pair.pmid], pair.g2p_id)
        if key in taken:
            left_out["made already"] += 1
        elif _held_out(pair.g2p_id, panel, plan) in closed:
            left_out[f"{plan.group_by} held out"] += 1
        else:
            taken.add(key)
            kept.append(Row(pair, group_of.get(pair.pmid, digest_of[pair.pmid]), "train", None))
    left_out["text is labelled"] = sum(len(ids) for pmid, ids in gated.items() if pmid not in corpus)
    return kept, {"negatives_left_out": dict(sorted((+left_out).items())), "mining": mining}


def _mined(
    anchors: Iterable[Pair],
    known_of: Mapping[int, Collection[str]],
    ranked: Mapping[int, Ranking],
    panel: Panel,
    rule: MiningRule,
) -> tuple[list[Pair], dict[str, int]]:
    """Return the hard negatives: once per article, whose positives are all left out together."""
    positives: dict[int, set[str]] = {}
    for pair in anchors:
        positives.setdefault(pair.pmid, set()).add(pair.g2p_id)
    found: list[Pair] = []
    fewer = 0
    for pmid in sorted(positives.keys() & ranked.keys()):
        ids, scores = ranked[pmid]
        chosen = hard_negatives(
            ids, scores, positives[pmid], barred(known_of[pmid], panel.entries, panel.siblings), rule
        )
        fewer += len(chosen) < rule.number
        found += [Pair(pmid, g2p_id, 0.0, "mined") for g2p_id in chosen]
    unranked = len(positives.keys() - ranked.keys()) if ranked else 0
    return found, {"anchors": len(positives), "not_ranked": unranked, "fewer_than_asked": fewer}


def _with_folds(rows: Sequence[Row], plan: Plan) -> list[Row]:
    """Give the training rows their folds."""
    if not plan.folds:
        return list(rows)
    sizes: dict[str, Group] = {}
    for row in rows:
        if row.split == "train":
            before = sizes.get(row.group, Group(0, False))
            sizes[row.group] = Group(before.rows + 1, before.positive or row.pair.label >= POSITIVE)
    folds = splits.assign_folds(sizes, plan.folds, plan.seed)
    return [row._replace(fold=folds[row.group]) if row.split == "train" else row for row in rows]


def table_of(rows: Sequence[Row]) -> dict[str, dict[str, dict[str, int]]]:
    """Count rows by split, provenance, and positive or negative."""
    counts = Counter(
        (row.split, row.pair.provenance, "positive" if row.pair.label >= POSITIVE else "negative") for row in rows
    )
    table: dict[str, dict[str, dict[str, int]]] = {}
    for (split, provenance, label), n in sorted(counts.items()):
        table.setdefault(split, {}).setdefault(provenance, {})[label] = n
    return table


def groups_of(rows: Sequence[Row]) -> dict[str, int]:
    """Count groups by split."""
    return {split: len({row.group for row in rows if row.split == split}) for split in splits.SPLITS}
