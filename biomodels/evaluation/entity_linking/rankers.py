"""Systems that order the distinct names of a dictionary for a mention: equality, TF-IDF, dense vectors, mixtures.

Legend: Q mentions, N names, D dimensions, K ranks, V n-grams. A ranker returns S_QK, scores rounded so that equal ones
are equal, and I_QK, rows of the names; where there is no K-th name, I is -1. None holds a Q×N matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from biomodels.evaluation.entity_linking.vectors import Encode, RowView, VectorStore
from biomodels.evaluation.exact import TIE, Metric, Ranking, exact_topk

if TYPE_CHECKING:
    from biomodels.index.sharded import ShardedIndex

Ties = Literal["first", "last"]
"""Which of two names with equal scores comes first: the one that is first in the dictionary, or the last."""

SPARSE_QUERIES = 64  # mentions whose n-gram products are held at a time
UNION = 100  # names of each leg that a mixture orders anew, at least


class Ranker(Protocol):
    """What the protocols need of a system."""

    ties: Ties

    def search(self, mentions: Sequence[str], k: int) -> Ranking:
        """Return S_QK and I_QK, best first."""


class ExactMatch:
    """The baseline that knows nothing: a name equal to the mention, or none."""

    ties: Ties = "first"

    def __init__(self, names: Sequence[str]) -> None:
        self._rows = {name: row for row, name in enumerate(names)}

    def search(self, mentions: Sequence[str], k: int) -> Ranking:
        """Return the equal name with score 1, and nothing beyond it."""
        S_QK, I_QK = np.zeros((len(mentions), k)), np.full((len(mentions), k), -1, dtype=np.int64)
        I_QK[:, 0] = [self._rows.get(mention, -1) for mention in mentions]
        S_QK[:, 0] = I_QK[:, 0] >= 0
        return S_QK, I_QK


class TfIdf:
    """Cosine of TF-IDF weights of character 3-grams inside words.

    Names that differ only in the order of their words are equal to it, so its ties matter: see `Ties`. The published
    evaluations sort by NumPy and turn the result round, which puts the last of equal names first.
    """

    def __init__(self, names: Sequence[str], *, ties: Ties = "first") -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.ties = ties
        self._vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3), lowercase=False, dtype=np.float32)
        try:
            self._N_NV: Any = self._vectorizer.fit_transform(names).tocsr()
        except ValueError:  # no name has a single 3-gram
            self._N_NV = None
        self._N_VN = None if self._N_NV is None else self._N_NV.T.tocsr()

    def search(self, mentions: Sequence[str], k: int) -> Ranking:
        """Rank the names that share an n-gram with the mention."""
        S_QK, I_QK = np.zeros((len(mentions), k)), np.full((len(mentions), k), -1, dtype=np.int64)
        if self._N_VN is None:
            return S_QK, I_QK
        Q_QV = self._vectorizer.transform(mentions)
        for start in range(0, len(mentions), SPARSE_QUERIES):
            found = (Q_QV[start : start + SPARSE_QUERIES] @ self._N_VN).tocsr()
            for offset in range(found.shape[0]):
                span = slice(found.indptr[offset], found.indptr[offset + 1])
                scores, rows = _best(found.data[span], found.indices[span], k, self.ties)
                S_QK[start + offset, : len(rows)], I_QK[start + offset, : len(rows)] = scores, rows
        return S_QK, I_QK

    def pair_scores(self, mentions: Sequence[str], I_QK: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the scores of given names; -1 is scored as if it were the last."""
        if self._N_NV is None:
            return np.zeros(I_QK.shape)
        Q_QV = self._vectorizer.transform(mentions)
        scores = [np.asarray((self._N_NV[row] @ q.T).todense()).ravel() for row, q in zip(I_QK, Q_QV, strict=True)]
        return np.stack(scores).astype(np.float64)


class Dense:
    """Nearest vectors by exact search; the mentions and names were added to the store before."""

    ties: Ties = "first"

    def __init__(self, store: VectorStore, names: Sequence[str], metric: Metric) -> None:
        self._store = store
        self._E_ND: RowView = store.take(names)
        self._metric: Metric = metric

    def search(self, mentions: Sequence[str], k: int) -> Ranking:
        """Rank all names."""
        E_QD = self._store.take(mentions)[:]
        depth = min(k, len(self._E_ND))
        return _padded(exact_topk(E_QD, self._E_ND, depth, self._metric), k)

    def pair_scores(self, mentions: Sequence[str], I_QK: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the cosine of given names; -1 is scored as if it were the last."""
        E_QD = self._store.take(mentions)[:].astype(np.float64)
        scores = np.empty(I_QK.shape)
        for row, (e_D, names) in enumerate(zip(E_QD, I_QK, strict=True)):
            E_KD = self._E_ND[names].astype(np.float64)
            lengths = np.linalg.norm(E_KD, axis=1) * np.linalg.norm(e_D)
            scores[row] = (E_KD @ e_D) / np.maximum(lengths, 1e-12)
        return scores


class Mixture:
    """A weighted sum of TF-IDF and cosine, over the union of the best names of either.

    Both are cosines; so is the score that BioSyn learns the weight of. Here the weight is given.

    Args:
        sparse, dense: the legs, over the same names.
        weight: of the sparse leg, 0 to 1.
    """

    ties: Ties = "first"

    def __init__(self, sparse: TfIdf, dense: Dense, weight: float) -> None:
        self._sparse, self._dense, self._weight = sparse, dense, weight

    def search(self, mentions: Sequence[str], k: int) -> Ranking:
        """Rank the union anew."""
        depth = max(k, UNION)
        I_QU = np.concatenate([leg.search(mentions, depth)[1] for leg in (self._sparse, self._dense)], axis=1)
        I_QU = np.sort(I_QU, axis=1)
        I_QU[:, 1:][I_QU[:, 1:] == I_QU[:, :-1]] = -1
        sparse, dense = self._sparse.pair_scores(mentions, I_QU), self._dense.pair_scores(mentions, I_QU)
        S_QU = np.where(I_QU < 0, -np.inf, self._weight * sparse + (1 - self._weight) * dense)
        S_QK, I_QK = np.zeros((len(mentions), k)), np.full((len(mentions), k), -1, dtype=np.int64)
        for row, (scores, names) in enumerate(zip(S_QU, I_QU, strict=True)):
            there = names >= 0
            best, rows = _best(scores[there], names[there], k, self.ties)
            S_QK[row, : len(rows)], I_QK[row, : len(rows)] = best, rows
        return S_QK, I_QK


def _best(
    scores: NDArray[Any], rows: NDArray[Any], k: int, ties: Ties
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the k best of some names: by rounded score, then by row."""
    rounded = np.round(np.asarray(scores, dtype=np.float64) / TIE) * TIE
    if len(rounded) > k:
        kept = rounded >= np.partition(rounded, -k)[-k]
        rounded, rows = rounded[kept], rows[kept]
    order = np.lexsort((rows if ties == "first" else -rows, -rounded))[:k]
    return rounded[order], np.asarray(rows[order], dtype=np.int64)


def _padded(ranking: Ranking, k: int) -> Ranking:
    S_QK, I_QK = ranking
    short = k - I_QK.shape[1]
    if short <= 0:
        return ranking
    return np.pad(S_QK, ((0, 0), (0, short))), np.pad(I_QK, ((0, 0), (0, short)), constant_values=-1)


class Indexed:
    """Nearest vectors in a sharded index, for dictionaries that exact search would take too long over.

    The index holds each name in the normal form that it records, so names that differ in that alone are one name, the
    first.

    Args:
        index: of the names.
        names: the dictionary's distinct names.
        encode: the encoder of the model that made the index.
    """

    ties: Ties = "first"

    def __init__(self, index: ShardedIndex, names: Sequence[str], encode: Encode) -> None:
        from biomodels.terminology.hashing import hash_strings

        self._index, self._encode = index, encode
        ids = hash_strings(map(index.normaliser, names))
        self._ids, self._rows = np.unique(ids, return_index=True)

    def search(self, mentions: Sequence[str], k: int) -> Ranking:
        """Rank the names of the lists that the index's nprobe visits."""
        E_QD = self._encode([self._index.normaliser(mention) for mention in mentions])
        S_QK, I_QK = self._index.search(E_QD, min(k, len(self._ids)))
        places = np.minimum(np.searchsorted(self._ids, I_QK), len(self._ids) - 1)
        rows = np.where((I_QK >= 0) & (self._ids[places] == I_QK), self._rows[places], -1)
        scores = np.where(rows >= 0, np.round(S_QK.astype(np.float64) / TIE) * TIE, -np.inf)
        order = np.lexsort((np.where(rows < 0, len(self._rows), rows), -scores), axis=1)
        found = np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1)
        return _padded((np.where(np.isneginf(found[0]), 0.0, found[0]), found[1]), k)
