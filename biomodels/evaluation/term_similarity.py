"""Similarity of terms: how well does the cosine of two terms follow what physicians and coders say of them?

Sets, one file each: UMNSRS (Pakhomov et al. 2010) and MayoSRS (Pakhomov et al. 2011), as published (comma-separated
with a header that has TERM1, TERM2, and one column per kind of rater) or as `term<TAB>term<TAB>rating` lines.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from biomodels import storage
from biomodels.errors import InputError
from biomodels.evaluation.entity_linking.text_files import Lines, MalformedLineError, fields, first_line
from biomodels.evaluation.significance import Interval, bootstrap_clustered

_NO_RATING = re.compile(r"(?i)std.*|cui.*|term.*|id|rank")
_SUFFIXES = (".txt", ".csv", ".tsv")


class RatedPairs(NamedTuple):
    """A set of term pairs with the ratings of one kind of rater.

    Attributes:
        name: of the file, and of the raters where there are several kinds.
        sha256: of the file.
        terms: the pairs, as the file has them.
        ratings: in the same order; larger means more similar or related.
    """

    name: str
    sha256: str
    terms: list[tuple[str, str]]
    ratings: NDArray[np.float64]


def read_sets(folder: str, lines: Lines) -> list[RatedPairs]:
    """Read every set of a folder, by name.

    Raises:
        InputError: there is none, a header has no terms or no ratings, or all ratings of a set are equal.
    """
    files = [name for name in storage.list_files(folder) if name.lower().endswith(_SUFFIXES)]
    if not files:
        raise InputError(f"--data {folder}: has no {', '.join(_SUFFIXES)} file of term pairs; give their folder")
    found = [pairs for name in files for pairs in read_set(storage.join(folder, name), lines)]
    for pairs in found:
        if len(set(pairs.ratings)) < 2:
            raise InputError(
                f"{folder}, {pairs.name}: has fewer than two different ratings; there is nothing to follow"
            )
    return found


def read_set(uri: str, lines: Lines) -> list[RatedPairs]:
    """Read one file, which holds a set per kind of rater."""
    stem, digest = PurePosixPath(uri).stem, storage.sha256(uri)
    head = first_line(uri)
    if "\t" in head:
        rows = lines.parse(uri, _tabbed)
        return [RatedPairs(stem, digest, [(a, b) for a, b, _ in rows], np.array([rating for *_, rating in rows]))]
    header = next(csv.reader([head]))
    lowered = [column.strip().lower() for column in header]
    if not {"term1", "term2"} <= set(lowered):
        raise InputError(f"{uri}:1: has neither tabs nor the columns TERM1 and TERM2; its header is {header}")
    places = lowered.index("term1"), lowered.index("term2")
    raters = [i for i, column in enumerate(header) if column.strip() and not _NO_RATING.fullmatch(column.strip())]
    if not raters:
        raise InputError(f"{uri}:1: has no column of ratings, such as Mean; its header is {header}")
    skipped = False

    def parse(line: str) -> tuple[tuple[str, str], list[float]] | None:
        nonlocal skipped
        if not skipped:
            skipped = True
            return None
        cells = next(csv.reader([line]))
        if len(cells) != len(header):
            raise MalformedLineError(f"has {len(cells)} columns where the header has {len(header)}")
        return _terms(cells[places[0]], cells[places[1]]), [_rating(cells[i]) for i in raters]

    rows_of = lines.parse(uri, parse)
    terms = [pair for pair, _ in rows_of]
    return [
        RatedPairs(
            stem if len(raters) == 1 else f"{stem} {header[column].strip()}",
            digest,
            terms,
            np.array([ratings[i] for _, ratings in rows_of]),
        )
        for i, column in enumerate(raters)
    ]


def _tabbed(line: str) -> tuple[str, str, float]:
    first, second, rating = fields(line, "\t", [3], "term<TAB>term<TAB>rating")
    return (*_terms(first, second), _rating(rating))


def _terms(first: str, second: str) -> tuple[str, str]:
    if not first.strip() or not second.strip():
        raise MalformedLineError("has an empty term")
    return first.strip(), second.strip()


def _rating(cell: str) -> float:
    try:
        rating = float(cell)
    except ValueError:
        rating = float("nan")
    if not np.isfinite(rating):
        raise MalformedLineError(f"has the rating {cell.strip()!r}, which is no number")
    return rating


def spearman(scores: NDArray[Any], ratings: NDArray[Any], *, seed: int, resamples: int) -> Interval:
    """Return Spearman's rank correlation with its bootstrap interval over pairs; NaN if all scores are equal."""
    from scipy.stats import rankdata

    def statistic(drawn: NDArray[np.float64]) -> float:
        rows = np.repeat(np.arange(len(drawn)), drawn.astype(np.int64))
        ranks = rankdata(scores[rows]), rankdata(ratings[rows])
        if any(rank[0] == rank.max() == rank.min() for rank in ranks):
            return float("nan")
        return float(np.corrcoef(*ranks)[0, 1])

    return bootstrap_clustered(statistic, np.arange(len(scores)), seed=seed, resamples=resamples)


def tfidf_similarity(terms: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
    """Return the baseline: cosine of TF-IDF weights of character 3-grams, fitted on the set's own terms."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3), lowercase=False)
    vectorizer.fit([term for pair in terms for term in pair])
    first, second = (vectorizer.transform(side) for side in zip(*terms, strict=True))
    return np.asarray(first.multiply(second).sum(axis=1)).ravel()


def cosine(E_ND: NDArray[np.float32], F_ND: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the cosine of each row of one matrix with the same row of another."""
    first, second = E_ND.astype(np.float64), F_ND.astype(np.float64)
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.asarray((first * second).sum(axis=1) / np.maximum(lengths, 1e-12))
