"""The gold of a relation dataset as columns, without its texts: what folds, leakage and scores need."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from biomodels.artifacts import Artifact, batches
from biomodels.relations.markers import Example
from biomodels.relations.records import Spans, overlap
from biomodels.terminology.hashing import hash_strings

Bools = npt.NDArray[np.bool_]

_SOURCE = re.compile(r"(?P<source>.+)\.d\d+")
_WORDS = ((2, "0–2"), (5, "3–5"), (10, "6–10"), (20, "11–20"))
_PAIRS = ((1, "1"), (5, "2–5"), (20, "6–20"))


@dataclass(frozen=True)
class Gold:
    """The pairs of a dataset, in its order, each a row of every column.

    Attributes:
        pair_ids, sentences, documents: ids.
        labels: True for positives.
        types: relation types, None for negatives and untyped positives.
        texts: a hash of the sentence, white space folded.
        left_out: True for pairs that the filter of equal names took out of the dataset: no model may answer them, so
            they count as answered "no".
        traits: trait → each pair's value, to break scores down by.
    """

    pair_ids: list[str]
    sentences: list[str]
    documents: list[str]
    labels: Bools
    types: list[str | None]
    texts: npt.NDArray[np.int64]
    left_out: Bools
    traits: dict[str, list[str]]

    def __len__(self) -> int:
        return len(self.pair_ids)

    @classmethod
    def read(cls, relations: Artifact) -> Gold:
        """Read a dataset of kind `relations`."""
        kept, left_out = _Columns(), _Columns()
        for prefix, columns in (("part-", kept), ("filtered/", left_out)):
            for batch in batches(relations, prefix=prefix):
                columns.add(batch, only_apart=prefix == "filtered/")
        count = len(kept.ids)
        every = kept.joined(left_out)
        labels = np.array(every.labels, dtype=bool)
        traits = every.traits | _sentence_traits(every.ids, labels)
        return cls(
            [ids[0] for ids in every.ids],
            [ids[1] for ids in every.ids],
            [ids[2] for ids in every.ids],
            labels,
            every.types,
            np.concatenate([np.empty(0, dtype=np.int64), *every.texts]),
            np.arange(len(every.ids)) >= count,
            {name: values for name, values in sorted(traits.items()) if len(set(values)) > 1},
        )


class _Columns:
    """Columns in the making."""

    def __init__(self) -> None:
        self.ids: list[tuple[str, str, str]] = []
        self.labels: list[bool] = []
        self.types: list[str | None] = []
        self.texts: list[npt.NDArray[np.int64]] = []
        self.traits: dict[str, list[str]] = {}

    def add(self, batch: pa.RecordBatch, *, only_apart: bool) -> None:
        """Add rows; if `only_apart`, those whose two mentions are the same stretch are no pairs at all."""
        rows = batch.to_pylist()
        if only_apart:
            rows = [row for row in rows if row["spans_1"] != row["spans_2"]]
        self.ids += [(row["pair_id"], row["sentence_id"], row["document_id"]) for row in rows]
        self.labels += [row["label"] for row in rows]
        self.types += [row["relation_type"] for row in rows]
        self.texts.append(text_hashes([row["text"] for row in rows]))
        for row in rows:
            for name, value in _pair_traits(row).items():
                self.traits.setdefault(name, []).append(value)

    def joined(self, other: _Columns) -> _Columns:
        """Add the rows of another."""
        self.ids += other.ids
        self.labels += other.labels
        self.types += other.types
        self.texts += other.texts
        for name, values in other.traits.items():
            self.traits.setdefault(name, []).extend(values)
        return self


def text_hashes(texts: list[str]) -> npt.NDArray[np.int64]:
    """Return a hash of each text that does not see white space beyond that it separates words."""
    return hash_strings(" ".join(text.split()) for text in texts)


def _pair_traits(row: Mapping[str, Any]) -> dict[str, str]:
    """Return what can be said of a pair alone."""
    example = Example.of(row)
    source = _SOURCE.match(row["document_id"])
    return {
        "source": source["source"] if source else row["document_id"],
        "entity types": " + ".join(sorted(kind or "none" for kind in (row["type_1"], row["type_2"]))),
        "words between": _words_between(example),
        "mentions": _arrangement(example.spans_1, example.spans_2),
    }


def _sentence_traits(ids: list[tuple[str, str, str]], labels: Bools) -> dict[str, list[str]]:
    """Return what can be said of a pair by the others of its sentence."""
    _, sentence_N = np.unique(np.array([item[1] for item in ids], dtype=object).astype(str), return_inverse=True)
    positives = np.bincount(sentence_N[labels], minlength=sentence_N.max(initial=-1) + 1)[sentence_N]
    pairs = np.bincount(sentence_N)[sentence_N] if len(ids) else np.empty(0, dtype=np.int64)
    kinds = np.select([positives == 0, positives == pairs], ["negatives only", "positives only"], "both classes")
    return {
        "sentence has": kinds.tolist(),
        "pairs in sentence": [_bin(count, _PAIRS, "21 or more") for count in pairs.tolist()],
    }


def _words_between(example: Example) -> str:
    """Say how many words lie between the nearest fragments of the two mentions."""
    if overlap(example.spans_1, example.spans_2):
        return "overlapping"
    gaps = [
        (min(end_1, end_2), max(start_1, start_2))
        for start_1, end_1 in example.spans_1
        for start_2, end_2 in example.spans_2
    ]
    start, end = min(gaps, key=lambda gap: gap[1] - gap[0])
    return _bin(len(example.text[start:end].split()), _WORDS, "21 or more")


def _arrangement(first: Spans, second: Spans) -> str:
    if overlap(first, second):
        return "overlapping"
    return "discontinuous" if len(first) > 1 or len(second) > 1 else "apart"


def _bin(count: int, bins: tuple[tuple[int, str], ...], beyond: str) -> str:
    return next((name for most, name in bins if count <= most), beyond)
