"""A floor that any transformer must beat: logistic regression on the words before, between and after two entities.

Every entity of the sentence is hidden, so that the classifier cannot learn names. Features are whether a word or two
neighbouring words occur in one of the three stretches. The classes are weighted to count alike.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from biomodels.errors import InputError
from biomodels.relations.folds import refuse_one_class
from biomodels.relations.markers import Example, Placeholders, prepare

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

PLACEHOLDERS = Placeholders("entityfirst", "entitysecond", "entityboth", "entityother")
"""Words that survive the tokenizer. Which of the two comes first in the text carries no meaning in these corpora."""

STRETCHES = 3


def stretches(example: Example) -> tuple[str, str, str]:
    """Return the text before, between and after the two hidden entities."""
    hidden = prepare(example, "none", "all", PLACEHOLDERS)
    (start_1, end_1), (start_2, end_2) = sorted((hidden.spans_1[0], hidden.spans_2[0]))
    return hidden.text[:start_1], hidden.text[end_1:start_2], hidden.text[max(end_1, end_2) :]


class BagOfWords:
    """The classifier; fit once. It also tells the type of positives, if the corpus has types."""

    def __init__(self) -> None:
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.linear_model import LogisticRegression

        self._vectorizers = [CountVectorizer(ngram_range=(1, 2), binary=True, min_df=2) for _ in range(STRETCHES)]
        self._detector = LogisticRegression(class_weight="balanced", solver="liblinear", max_iter=1000)
        self._typer = LogisticRegression(class_weight="balanced", max_iter=1000)
        self._only_type: str | None = None

    def fit(self, examples: Sequence[Example], labels: Bools, types: Sequence[str | None]) -> BagOfWords:
        """Train on pairs.

        Raises:
            InputError: they are of one class, or share no word.
        """
        refuse_one_class(labels, "a classifier's training pairs")
        for vectorizer, column in zip(self._vectorizers, zip(*map(stretches, examples), strict=True), strict=True):
            with contextlib.suppress(ValueError):  # no word occurs twice in this stretch
                vectorizer.fit(column)
        if not any(hasattr(vectorizer, "vocabulary_") for vectorizer in self._vectorizers):
            raise InputError("the training pairs have no word in common; a bag of words cannot tell them apart")
        X = self._features(examples)
        self._detector.fit(X, labels)
        typed = np.array([kind is not None for kind in types], dtype=bool) & labels
        names = np.array([kind or "" for kind in types])[typed]
        if len(set(names.tolist())) > 1:
            self._typer.fit(X[typed], names)
        elif len(names):
            self._only_type = str(names[0])
        return self

    def predict(self, examples: Sequence[Example]) -> tuple[Floats, list[str | None]]:
        """Return each pair's probability of being positive, and its most probable type if the corpus has types."""
        if not examples:
            return np.empty(0), []
        X = self._features(examples)
        scores: Floats = self._detector.predict_proba(X)[:, 1]
        if hasattr(self._typer, "classes_"):
            return scores, [str(name) for name in self._typer.predict(X)]
        return scores, [self._only_type] * len(examples)

    def _features(self, examples: Sequence[Example]) -> Any:
        """Return the features as a sparse matrix; stretches in which no word occurred twice have none."""
        from scipy.sparse import hstack

        columns = zip(*map(stretches, examples), strict=True)
        known = [
            vectorizer.transform(column)
            for vectorizer, column in zip(self._vectorizers, columns, strict=True)
            if hasattr(vectorizer, "vocabulary_")
        ]
        return hstack(known).tocsr()
