"""Scores of (article, entry) pairs, looked up by arrays.

Legend: P articles, M scored pairs, N pairs asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from biomodels.errors import InputError

Ints = NDArray[np.int64]
Scores = NDArray[np.float32]


@dataclass(frozen=True)
class PairScores:
    """The scores of one run.

    Attributes:
        pmids: P articles, ascending. An article without candidates is here, too.
        offsets: P + 1 bounds of each article's pairs.
        entries: the G2P ids, sorted, so that the order of codes is the order of ids.
        codes: M positions in `entries`; ascending inside an article.
        scores: M scores between 0 and 1.
    """

    pmids: Ints
    offsets: Ints
    entries: NDArray[np.str_]
    codes: Ints
    scores: Scores

    @classmethod
    def collect(cls, name: str, batches: Iterable[pa.RecordBatch], wanted: ArrayLike | None = None) -> PairScores:
        """Collect the rows of a scores dataset.

        Args:
            name: of the dataset, for messages.
            batches: with the columns `pmid`, `g2p_ids`, `scores`, in any order of rows.
            wanted: the PMIDs to keep; all if None.

        Raises:
            InputError: a PMID comes twice, an entry comes twice for one PMID, the lists of a row differ in length,
                or a score is no number between 0 and 1.
        """
        kept = None if wanted is None else pa.array(np.unique(np.asarray(wanted, dtype=np.int64)))
        pieces = [_checked(name, batch, kept) for batch in batches]
        pmids, lengths, scores = (
            np.concatenate([np.empty(0, dtype), *(piece[i] for piece in pieces)])
            for i, dtype in enumerate((np.int64, np.int64, np.float32))
        )
        entries, codes = _coded([piece[3] for piece in pieces])
        order = np.argsort(pmids, kind="stable")
        twice = np.flatnonzero(np.diff(pmids[order]) == 0)
        if len(twice):
            raise InputError(f"{name}: PMID {pmids[order][twice[0]]} has two rows; give each article once")
        article = np.repeat(np.argsort(order), lengths)
        place = np.lexsort((codes, article))
        article, codes = article[place], codes[place]
        twice = np.flatnonzero((np.diff(article) == 0) & (np.diff(codes) == 0))
        if len(twice):
            where = f"{entries[codes[twice[0]]]} twice for PMID {pmids[order][article[twice[0]]]}"
            raise InputError(f"{name}: has {where}; give each pair once")
        offsets = np.concatenate([[0], np.cumsum(lengths[order])])
        return cls(pmids[order], offsets.astype(np.int64), entries, codes, scores[place])

    def has(self, pmids: ArrayLike) -> NDArray[np.bool_]:
        """Return which articles have a row, be it empty."""
        return self._rows(pmids) >= 0

    def lookup(self, pmids_N: ArrayLike, g2p_ids_N: ArrayLike) -> Scores:
        """Return the scores of N pairs; NaN where a pair was not scored."""
        rows, asked = self._rows(pmids_N), np.asarray(g2p_ids_N, dtype=np.str_)
        if not len(self.scores) or not len(asked):
            return np.full(len(asked), np.nan, dtype=np.float32)
        codes = np.searchsorted(self.entries, asked).clip(max=len(self.entries) - 1)
        known = (rows >= 0) & (self.entries[codes] == asked)
        width = len(self.entries)
        keys = np.repeat(np.arange(len(self.pmids)), np.diff(self.offsets)) * width + self.codes
        wanted = np.where(known, rows * width + codes, -1)
        place = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
        return np.where(keys[place] == wanted, self.scores[place], np.float32(np.nan))

    def of(self, pmid: int) -> tuple[NDArray[np.str_], Scores]:
        """Return an article's entries, sorted, and their scores; both empty if it has none."""
        row = int(self._rows([pmid])[0])
        pairs = slice(self.offsets[row], self.offsets[row + 1]) if row >= 0 else slice(0, 0)
        return self.entries[self.codes[pairs]], self.scores[pairs]

    def best(self, pmids: ArrayLike) -> Scores:
        """Return the highest score of each article; NaN where nothing was scored."""
        rows = self._rows(pmids)
        best = np.full(len(self.pmids) + 1, np.nan, dtype=np.float32)
        filled = np.flatnonzero(np.diff(self.offsets))
        if len(filled):
            best[filled] = np.maximum.reduceat(self.scores, self.offsets[filled])
        return best[rows]  # row -1, an unknown article, is the NaN at the end

    def _rows(self, pmids: ArrayLike) -> Ints:
        """Return the row of each article, -1 where it has none."""
        asked = np.asarray(pmids, dtype=np.int64)
        if not len(self.pmids):
            return np.full(len(asked), -1)
        rows = np.searchsorted(self.pmids, asked).clip(max=len(self.pmids) - 1)
        return np.where(self.pmids[rows] == asked, rows, -1)


def ranked(ids: Sequence[str] | NDArray[np.str_], scores: Scores, k: int) -> list[str]:
    """Return the k best ids: by score, equal scores by id."""
    order = np.lexsort((np.asarray(ids, dtype=np.str_), -scores))[:k]
    return [str(ids[i]) for i in order]


def _coded(ids: list[pa.Array]) -> tuple[NDArray[np.str_], Ints]:
    """Return the distinct ids, sorted, and for each id its place among them."""
    encoded = pa.chunked_array(ids, pa.string()).combine_chunks().dictionary_encode()
    names = np.asarray(encoded.dictionary.to_pylist(), dtype=np.str_)
    order = np.argsort(names)
    place = np.empty(len(names), dtype=np.int64)
    place[order] = np.arange(len(names))
    return names[order], place[encoded.indices.to_numpy()]


def _checked(name: str, batch: pa.RecordBatch, kept: pa.Array | None) -> tuple[Ints, Ints, Scores, pa.Array]:
    """Return PMIDs, lengths of their lists, and the flat lists of scores and ids."""
    import pyarrow.compute as pc

    missing = [column for column in ("pmid", "g2p_ids", "scores") if column not in batch.schema.names]
    if missing:
        raise InputError(f"{name}: has no column {missing[0]}; a scores dataset has pmid, g2p_ids, scores")
    if kept is not None:
        batch = batch.filter(pc.is_in(batch["pmid"], kept))
    pmids = np.asarray(batch["pmid"].to_numpy(zero_copy_only=False), dtype=np.int64)
    lengths, other = (
        np.asarray(pc.fill_null(pc.list_value_length(batch[column]), 0).to_numpy(zero_copy_only=False), dtype=np.int64)
        for column in ("g2p_ids", "scores")
    )
    if (wrong := np.flatnonzero(lengths != other)).size:
        i = wrong[0]
        raise InputError(f"{name}: PMID {pmids[i]} has {lengths[i]} entries but {other[i]} scores; score it again")
    scores = np.asarray(pc.list_flatten(batch["scores"]).to_numpy(zero_copy_only=False), dtype=np.float32)
    if (wrong := np.flatnonzero(~((scores >= 0) & (scores <= 1)))).size:
        pmid = pmids[np.searchsorted(np.cumsum(lengths), wrong[0], side="right")]
        raise InputError(
            f"{name}: PMID {pmid} has the score {scores[wrong[0]]}; scores lie between 0 and 1 (apply the sigmoid)"
        )
    return pmids, lengths, scores, pc.list_flatten(batch["g2p_ids"]).cast(pa.string())
