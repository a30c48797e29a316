"""Triples (anchor, same class, other class) after TL-BERT, drawn anew for each epoch.

Three rules say where an anchor's partners come from:

1. a positive anchor in a sentence that also has negatives: the other is one of those, the same a positive of a randomly
   chosen other sentence;
2. a negative anchor in a sentence that also has positives: likewise with the classes exchanged;
3. the only pair of its sentence: both partners come from other sentences.

No rule covers the pairs of a sentence with several pairs of one class; the paper leaves them out. They are never
anchors, unless `uncovered` says so, but they may be partners.

A choice is a hash of (seed, epoch, anchor). So the triples do not depend on how the anchors are shared out to workers,
nor on the order of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from biomodels.errors import InputError
from biomodels.terminology.hashing import hash_column, mix

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

Uncovered = Literal["drop", "rule3", "ce_only"]
"""What becomes of pairs that no rule covers: no triple (the paper); partners by rule 3; a row without partners, which
only the cross-entropy sees."""

NO_PARTNER = -1
UNCOVERED = 0
"""In `rules`: no rule of the paper covers the pair."""


@dataclass(frozen=True)
class Triples:
    """Row numbers of the anchors and their partners, and the rule (1, 2, 3; 0 for uncovered anchors), all (N,).

    `same` and `other` are `NO_PARTNER` for an anchor that only the cross-entropy sees.
    """

    anchor: Ints
    same: Ints
    other: Ints
    rule: Ints


class TripleIndex:
    """The pairs of a corpus by sentence and class: all that drawing needs, without the texts."""

    def __init__(self, sentence_ids: pa.ChunkedArray, pair_ids: pa.ChunkedArray, labels: Bools) -> None:
        """Index a corpus.

        Args:
            sentence_ids: each pair's sentence, in any order.
            pair_ids: each pair's id; distinct.
            labels: (N,) True for positives.
        """
        self.labels = labels
        self.pair_hashes = hash_column(pair_ids)
        sentence_hashes = hash_column(sentence_ids)
        known, self.sentence = np.unique(sentence_hashes, return_inverse=True)
        self.positives_of = np.bincount(self.sentence[labels], minlength=len(known))
        self.negatives_of = np.bincount(self.sentence[~labels], minlength=len(known))
        self.rules = self._rules()
        self._classes = {answer: _ClassIndex.of(self, answer) for answer in (False, True)}

    @classmethod
    def of(cls, relations: pa.Table) -> TripleIndex:
        """Index a table with the columns `sentence_id`, `pair_id` and `label` (schema RELATIONS)."""
        labels = relations["label"].combine_chunks().to_numpy(zero_copy_only=False)
        return cls(relations["sentence_id"], relations["pair_id"], labels)

    def coverage(self) -> dict[str, int]:
        """Count the anchors of each rule, and of none by class."""
        counts = {f"rule_{rule}": int((self.rules == rule).sum()) for rule in (1, 2, 3)}
        bare = self.rules == UNCOVERED
        return counts | {
            "uncovered_positive": int((bare & self.labels).sum()),
            "uncovered_negative": int((bare & ~self.labels).sum()),
        }

    def draw(self, seed: int, epoch: int, uncovered: Uncovered = "drop", rows: Ints | None = None) -> Triples:
        """Draw the triples of an epoch.

        Args:
            seed: of the run.
            epoch: each has other triples.
            uncovered: what becomes of the pairs that no rule covers.
            rows: the anchors wanted, by row number; default all. Shares of them give shares of the same triples.

        Returns:
            The triples in the order of `rows`. An anchor without a possible partner of its own class is left out.

        Raises:
            InputError: the corpus lacks a class, or no triple at all can be drawn from it.
        """
        self._refuse_degenerate(uncovered)
        rows = np.arange(len(self.labels)) if rows is None else np.asarray(rows, dtype=np.int64)
        rule = self.rules[rows]
        if uncovered == "drop":
            rows, rule = rows[rule != UNCOVERED], rule[rule != UNCOVERED]
        same = np.full(len(rows), NO_PARTNER, dtype=np.int64)
        other = same.copy()
        key = mix(seed, epoch, self.pair_hashes[rows])
        alone = (rule == UNCOVERED) & (uncovered == "ce_only")
        for answer in (False, True):
            mine = (self.labels[rows] == answer) & ~alone
            near = mine & np.isin(rule, (1, 2))
            far = mine & ~near
            same[mine] = self._classes[answer].elsewhere(rows[mine], self.sentence[rows[mine]], key[mine], 1)
            opposite = self._classes[not answer]
            other[near] = opposite.within(self.sentence[rows[near]], key[near], 2)
            other[far] = opposite.elsewhere(rows[far], self.sentence[rows[far]], key[far], 2)
        kept = alone | ((same != NO_PARTNER) & (other != NO_PARTNER))
        return Triples(rows[kept], same[kept], other[kept], rule[kept])

    def _rules(self) -> Ints:
        positives, negatives = self.positives_of[self.sentence], self.negatives_of[self.sentence]
        mixed = (positives > 0) & (negatives > 0)
        only = positives + negatives == 1
        rules: Ints = np.select([mixed & self.labels, mixed, only], [1, 2, 3], UNCOVERED)
        return rules

    def _refuse_degenerate(self, uncovered: Uncovered) -> None:
        positives, total = int(self.labels.sum()), len(self.labels)
        if positives in (0, total):
            found = "no pairs" if not total else f"{total} pairs, all {'positive' if positives else 'negative'}"
            remedy = "check the labels, or train with cross-entropy alone"
            raise InputError(f"the corpus has {found}: triples need both classes; {remedy}")
        rules = set(self.rules[self.labels].tolist() if positives > 1 else []) | set(
            self.rules[~self.labels].tolist() if total - positives > 1 else []
        )
        if uncovered != "ce_only" and not (rules - ({UNCOVERED} if uncovered == "drop" else set())):
            raise InputError(
                f"no triple can be drawn from {positives} positive and {total - positives} negative pairs: an anchor "
                "needs another pair of its class and a rule that covers it; use uncovered=rule3, or a larger corpus"
            )


@dataclass(frozen=True)
class _ClassIndex:
    """The pairs of one class, grouped by sentence: sentence i of `sentences` has rows[starts[i]:starts[i + 1]]."""

    rows: Ints
    sentences: Ints
    starts: Ints

    @classmethod
    def of(cls, index: TripleIndex, answer: bool) -> _ClassIndex:
        rows = np.flatnonzero(index.labels == answer)
        # By hash, so that the order of the corpus does not matter.
        rows = rows[np.lexsort((index.pair_hashes[rows], index.sentence[rows]))]
        sentences, starts = np.unique(index.sentence[rows], return_index=True)
        return cls(rows, sentences, np.append(starts, len(rows)))

    def within(self, sentences: Ints, key: npt.NDArray[np.uint64], slot: int) -> Ints:
        """Return for each sentence, which has members, one of them."""
        return self._member(np.searchsorted(self.sentences, sentences), key, slot)

    def elsewhere(self, anchors: Ints, sentences: Ints, key: npt.NDArray[np.uint64], slot: int) -> Ints:
        """Return for each anchor a member of a randomly chosen other sentence.

        If only the anchor's sentence has members, it is another member of it; if there is none, `NO_PARTNER`.
        """
        if not len(self.sentences):
            return np.full(len(anchors), NO_PARTNER, dtype=np.int64)
        place = np.searchsorted(self.sentences, sentences)
        own = (place < len(self.sentences)) & (self.sentences[np.minimum(place, len(self.sentences) - 1)] == sentences)
        choices = len(self.sentences) - own
        chosen = _choose(key, slot, np.maximum(choices, 1))
        chosen += own & (chosen >= place)
        found = self._member(np.minimum(chosen, len(self.sentences) - 1), key, slot + 2)
        here = choices == 0
        if here.any():
            found[here] = self._beside(anchors[here], key[here], slot)
        return found

    def _member(self, places: Ints, key: npt.NDArray[np.uint64], slot: int) -> Ints:
        first = self.starts[places]
        picked: Ints = self.rows[first + _choose(key, slot, self.starts[places + 1] - first)]
        return picked

    def _beside(self, anchors: Ints, key: npt.NDArray[np.uint64], slot: int) -> Ints:
        """Return another member of the only sentence of this class."""
        is_member = np.isin(anchors, self.rows)
        choices = len(self.rows) - is_member
        order = np.argsort(self.rows, kind="stable")
        place = order[np.minimum(np.searchsorted(self.rows, anchors, sorter=order), len(self.rows) - 1)]
        chosen = _choose(key, slot, np.maximum(choices, 1))
        chosen += is_member & (chosen >= place)
        picked: Ints = np.where(choices > 0, self.rows[np.minimum(chosen, len(self.rows) - 1)], NO_PARTNER)
        return picked


def _choose(key: npt.NDArray[np.uint64], slot: int, counts: Ints) -> Ints:
    """Return for each key a number below its count."""
    chosen: Ints = (mix(key, slot)[: len(key)] % counts.astype(np.uint64)).astype(np.int64)
    return chosen
