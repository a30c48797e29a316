"""Splits that cut no group, and the proof that nothing leaks between them.

A *group* holds all rows that share an article's text, a PMID or, on demand, a gene or an entry: a connected component
of rows and what they share. So an abstract that came under two PMIDs, or that speaks of two genes, stays whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from biomodels.errors import InputError
from biomodels.terminology.normalise import keyed_hash

SPLITS = ("train", "dev", "test")


class Shared(NamedTuple):
    """What a row shares with others. `held_out` is the gene or entry that must not be in two splits, or empty."""

    text_digest: str
    pmid: int
    held_out: str = ""

    def things(self) -> list[str]:
        """Return one string per thing shared."""
        keys = [f"text {self.text_digest}", f"PMID {self.pmid}"]
        return [*keys, f"entry {self.held_out}"] if self.held_out else keys


class Group(NamedTuple):
    """A group's size, whether it has a positive row, and the split that a file fixed for it, if any."""

    rows: int
    positive: bool
    split: str | None = None


def components(rows: Sequence[Shared]) -> NDArray[np.int64]:
    """Return each row's component: rows that share anything, directly or through others, have the same number."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    numbers: dict[str, int] = {}
    links = [
        (i, len(rows) + numbers.setdefault(key, len(numbers))) for i, row in enumerate(rows) for key in row.things()
    ]
    if not links:
        return np.empty(0, dtype=np.int64)
    size = len(rows) + len(numbers)
    source, target = np.array(links).T
    graph = coo_array((np.ones(len(links), dtype=np.int8), (source, target)), shape=(size, size))
    return np.asarray(connected_components(graph, directed=False)[1][: len(rows)], dtype=np.int64)


def assign_splits(groups: Mapping[str, Group], dev: float, test: float, seed: int) -> dict[str, str]:
    """Give each group a split; groups with a positive row and those without are split apart, so that shares are alike.

    Groups are ordered by a hash of (seed, name); a group goes where the middle of its rows falls. One whose split is
    fixed keeps it and does not count for the shares.

    Args:
        groups: name → group.
        dev: share of the rows for `dev`.
        test: share of the rows for `test`.
        seed: decides the order.
    """
    found = {name: group.split for name, group in groups.items() if group.split}
    free = {name: group for name, group in groups.items() if not group.split}
    for name, middle in _middles(free, seed, "split"):
        found[name] = "test" if middle < test else "dev" if middle < test + dev else "train"
    return found


def assign_folds(groups: Mapping[str, Group], folds: int, seed: int) -> dict[str, int]:
    """Give each group one of `folds` folds, in the manner of `assign_splits`."""
    return {name: min(folds - 1, int(middle * folds)) for name, middle in _middles(groups, seed, "fold")}


def check_disjoint(rows: Iterable[tuple[Shared, str]]) -> None:
    """See that no text, PMID, gene or entry is in two splits (or folds).

    Args:
        rows: what each row shares, and the split that it is in.

    Raises:
        InputError: naming the first thing that leaks.
    """
    seen: dict[str, tuple[str, int]] = {}
    for shared, split in rows:
        for key in shared.things():
            other, pmid = seen.setdefault(key, (split, shared.pmid))
            if other != split:
                raise InputError(
                    f"leak: {key} is in {other} (PMID {pmid}) and in {split} (PMID {shared.pmid}); "
                    "let one split have all of its pairs"
                )


def check_apart(rows: Iterable[Shared], pmids: Iterable[int], text_digests: Iterable[str], what: str) -> None:
    """See that a dataset has neither a PMID nor a text of a set that must stay apart from it.

    Raises:
        InputError: naming the first that is in both.
    """
    barred_pmids, barred_texts = set(pmids), set(text_digests)
    for row in rows:
        if row.pmid in barred_pmids or row.text_digest in barred_texts:
            how = "PMID" if row.pmid in barred_pmids else "text, under another PMID,"
            raise InputError(f"leak: PMID {row.pmid}: its {how} is in {what}; take it out of the pairs")


def check_labels(rows: Iterable[tuple[tuple[str, str], float]]) -> None:
    """See that each pair of texts comes once.

    Args:
        rows: (text_a, text_b), or digests of them, and the label.

    Raises:
        InputError: a pair comes twice, perhaps with two labels.
    """
    seen: dict[tuple[str, str], float] = {}
    for pair, label in rows:
        if pair in seen:
            how = "twice" if seen[pair] == label else f"with the labels {seen[pair]:g} and {label:g}"
            raise InputError(f"leak: a pair of texts comes {how}: {pair[0][:60]!r} and {pair[1][:60]!r}")
        seen[pair] = label


def _middles(groups: Mapping[str, Group], seed: int, purpose: str) -> Iterable[tuple[str, float]]:
    """Yield, per stratum and in the order of hashes, where the middle of a group's rows falls between 0 and 1."""
    for positive in (True, False):
        mine = [name for name, group in groups.items() if group.positive == positive]
        mine.sort(key=lambda name: (keyed_hash(seed, purpose, name), name))
        total, before = sum(groups[name].rows for name in mine), 0
        for name in mine:
            yield name, (before + groups[name].rows / 2) / total
            before += groups[name].rows
