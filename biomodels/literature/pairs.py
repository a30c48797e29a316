"""Labelled (article, entry) pairs: what contradicts itself is dropped, and negatives are made.

Two pairs are the same if a model would read the same: they are compared by the article's text, not by its PMID.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from biomodels.literature.entries import Entry, interchangeable
from biomodels.schemas import PROVENANCES

Key = tuple[str, str]
"""Digest of the article's text, id of the entry."""

POSITIVE = 0.5
"""Labels from here on are positive."""


class Pair(NamedTuple):
    """A labelled pair. `file` and `line` say where it stands, if it was not made."""

    pmid: int
    g2p_id: str
    label: float
    provenance: str
    split: str | None = None
    file: str = ""
    line: int = 0


class Resolved(NamedTuple):
    """Distinct pairs; the rows dropped as repetitions; and those dropped since their labels contradict each other."""

    kept: list[Pair]
    duplicates: list[Pair]
    conflicts: list[Pair]


class MiningRule(NamedTuple):
    """Which ranked entries become hard negatives.

    The entries of an anchor that survive the filters are counted from the best; the first `skip` are passed over as
    too near, then up to `number` are taken from among the first `depth`.

    Attributes:
        number: negatives per anchor.
        skip: survivors passed over.
        depth: survivors looked at.
        max_score: entries above it are dropped, if scores are given.
        relative_margin: entries within this share of the anchor's lowest positive score, or above it, are dropped.
    """

    number: int = 5
    skip: int = 5
    depth: int = 50
    max_score: float = 0.95
    relative_margin: float = 0.01


def resolve(pairs: Sequence[Pair], digest_of: Mapping[int, str]) -> Resolved:
    """Take each pair once; where labels differ, drop all of its rows.

    Of equal rows the one with the better provenance stays (the order of PROVENANCES), then the one of the lowest PMID,
    then the first.

    Args:
        pairs: with an article each that has a text.
        digest_of: PMID → digest of its text.
    """
    by_key: dict[Key, list[Pair]] = {}
    for pair in pairs:
        by_key.setdefault((digest_of[pair.pmid], pair.g2p_id), []).append(pair)
    kept, duplicates, conflicts = [], [], []
    for rows in by_key.values():
        if len({row.label for row in rows}) > 1:
            conflicts += rows
            continue
        best = min(rows, key=lambda row: (PROVENANCES.index(row.provenance), row.pmid, row.file, row.line))
        kept.append(best._replace(split=_one_split(rows)))
        duplicates += [row for row in rows if row is not best]
    return Resolved(kept, duplicates, conflicts)


def corpus_negatives(gated: Mapping[int, Collection[str]]) -> list[Pair]:
    """Pair corpus abstracts with their own gate candidates: the "add20k" negatives.

    Args:
        gated: PMID → its candidates; abstracts without any give no pair.
    """
    return [Pair(pmid, g2p_id, 0.0, "corpus") for pmid in sorted(gated) for g2p_id in sorted(gated[pmid])]


def sibling_negatives(
    positives: Iterable[Pair],
    known: Mapping[int, Collection[str]],
    entries: Mapping[str, Entry],
    siblings: Mapping[str, Sequence[str]],
    label: float,
) -> list[Pair]:
    """Pair the article of each positive with the other entries of the same gene.

    Left out is what is labelled already, and what is interchangeable with an entry that the article is labelled with.

    Args:
        positives: the anchors.
        known: PMID → every entry with which its text is labelled, also in rows that were dropped.
        entries: id → entry.
        siblings: id → ids of the same gene.
        label: of the pairs; above 0 where an unlabelled sibling may well be true.
    """
    found = {
        (pair.pmid, sibling)
        for pair in positives
        for sibling in siblings[pair.g2p_id]
        if sibling not in known[pair.pmid] and not _same_as_known(sibling, known[pair.pmid], entries)
    }
    return [Pair(pmid, g2p_id, label, "sibling") for pmid, g2p_id in sorted(found)]


def hard_negatives(
    ranked: Sequence[str],
    scores: Sequence[float] | None,
    positives: Collection[str],
    barred: Collection[str],
    rule: MiningRule,
) -> list[str]:
    """Choose an anchor's hard negatives from its ranked entries.

    With nothing barred this is `mine_hard_negatives` of sentence-transformers with sampling_strategy="top": margins
    are taken from the lowest positive score, and ranks are counted among the survivors.

    Args:
        ranked: the entries, best first.
        scores: one each, or None; then no filter by score applies.
        positives: the anchor's true entries.
        barred: entries that must not become negatives, besides the positives.
        rule: see there.
    """
    at = dict(zip(ranked, scores, strict=True)) if scores is not None else {}
    lowest = min((at[g2p_id] for g2p_id in positives if g2p_id in at), default=None)

    def survives(g2p_id: str) -> bool:
        if g2p_id in positives or g2p_id in barred:
            return False
        score = at.get(g2p_id)
        if score is None:
            return True
        too_near = lowest is not None and score > lowest - abs(lowest) * rule.relative_margin
        return score <= rule.max_score and not too_near

    survivors = [g2p_id for g2p_id in ranked if survives(g2p_id)]
    return survivors[rule.skip : rule.depth][: rule.number]


def barred(known: Collection[str], entries: Mapping[str, Entry], siblings: Mapping[str, Sequence[str]]) -> set[str]:
    """Return an article's labelled entries and those interchangeable with them: none may be made a negative."""
    mates = {mate for g2p_id in known if g2p_id in siblings for mate in siblings[g2p_id]}
    return set(known) | {mate for mate in mates if _same_as_known(mate, known, entries)}


def _same_as_known(g2p_id: str, known: Collection[str], entries: Mapping[str, Entry]) -> bool:
    return any(other in entries and interchangeable(entries[g2p_id], entries[other]) for other in known)


def _one_split(rows: Sequence[Pair]) -> str | None:
    """Return the split that a file fixed for any of equal rows; two different ones are left to the check of leaks."""
    fixed = [row.split for row in rows if row.split]
    return fixed[0] if fixed else None
