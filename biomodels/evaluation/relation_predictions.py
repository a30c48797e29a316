"""Prediction files of relation extraction: one row a pair, in Parquet, JSON lines, CSV or TSV (with a header).

Columns: `pair_id`; `score` (the more, the more likely related), or `label` (true or false), or both; `relation_type`
(the type if related; optional); `fold` (the fold whose model answered; optional).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from biomodels import storage
from biomodels.errors import InputError
from biomodels.relations.folds import NO_FOLD

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

COLUMNS = {
    "pair_id": pa.string(),
    "score": pa.float64(),
    "label": pa.bool_(),
    "relation_type": pa.string(),
    "fold": pa.int64(),
}

Missing = Literal["refuse", "negative"]
"""What a pair without a prediction means: the file is incomplete, or the model says no."""


@dataclass(frozen=True)
class Predictions:
    """A model's answers to the pairs of a dataset, in the dataset's order.

    Attributes:
        answers: (N,) whether it finds the pair related.
        scores: (N,) or None if the model gives none.
        types: the type of each pair, None if it is not found related; None as a whole if the model gives no types.
        folds: (N,) or None. Pairs without a prediction have `NO_FOLD`.
        missing: how many pairs had no prediction.
    """

    answers: Bools
    scores: Floats | None
    types: list[str | None] | None
    folds: npt.NDArray[np.int64] | None
    missing: int


def read_predictions(uris: Sequence[str]) -> pa.Table:
    """Read one or several files, such as one a fold, into one table with columns of `COLUMNS`.

    Raises:
        InputError: a file cannot be read, lacks a column, or has a value that is none.
    """
    tables = [_typed(_read(uri), uri) for uri in uris]
    names = [name for name in COLUMNS if any(name in table.column_names for table in tables)]
    lacking = [name for name in names if not all(name in table.column_names for table in tables)]
    if lacking:
        raise InputError(f"some of the prediction files have no column {lacking[0]}; give the same columns in all")
    return pa.concat_tables([table.select(names) for table in tables])


def align(
    table: pa.Table,
    pair_ids: Sequence[str],
    *,
    threshold: float = 0.5,
    missing: Missing = "refuse",
    left_out: Bools | None = None,
) -> Predictions:
    """Bring predictions into the order of a dataset.

    Args:
        table: as `read_predictions` returns it.
        pair_ids: the dataset's pairs.
        threshold: a pair whose score is at least this is found related, unless the table has labels.
        missing: what a pair without a prediction means.
        left_out: (N,) pairs that a filter took out of the dataset: they are answered no, whatever the table says.

    Raises:
        InputError: a pair occurs twice, is not in the dataset, or has no prediction and `missing` is "refuse".
    """
    place = {pair: row for row, pair in enumerate(pair_ids)}
    given = table["pair_id"].to_pylist()
    rows = np.array([place.get(pair, -1) for pair in given], dtype=np.int64)
    if (rows < 0).any():
        strange = given[int(np.argmax(rows < 0))]
        raise InputError(f"{int((rows < 0).sum())} predicted pairs are not in the dataset, such as {strange!r}")
    if len(np.unique(rows)) < len(rows):
        values, counts = np.unique(rows, return_counts=True)
        raise InputError(f"the pair {pair_ids[values[counts > 1][0]]} is predicted twice; give every pair once")
    out = np.zeros(len(pair_ids), dtype=bool) if left_out is None else left_out
    known = np.zeros(len(pair_ids), dtype=bool)
    known[rows] = True
    lost = ~known & ~out
    if lost.any() and missing == "refuse":
        raise InputError(
            f"{int(lost.sum())} of {len(pair_ids)} pairs have no prediction, such as {pair_ids[int(np.argmax(lost))]}; "
            "complete the file, or count them as answered no with --missing negative"
        )
    answered = known & ~out
    columns = {name: table[name] for name in table.column_names}
    scores = _scores(columns, rows, answered)
    if "label" in columns:
        answers = np.zeros(len(pair_ids), dtype=bool)
        answers[rows] = columns["label"].to_numpy()
    else:
        assert scores is not None
        answers = scores >= threshold
    answers &= answered
    return Predictions(
        answers, scores, _types(columns, rows, answers), _folds(columns, rows, len(pair_ids)), int(lost.sum())
    )


def _scores(columns: Mapping[str, pa.ChunkedArray], rows: npt.NDArray[np.int64], answered: Bools) -> Floats | None:
    """Return the scores; a pair without an answer ranks below all others."""
    if "score" not in columns:
        return None
    values = columns["score"].to_numpy()
    scores = np.full(len(answered), (values.min() if len(values) else 0.0) - 1.0)
    scores[rows] = values
    scores[~answered] = scores.min()
    return scores


def _types(
    columns: Mapping[str, pa.ChunkedArray], rows: npt.NDArray[np.int64], answers: Bools
) -> list[str | None] | None:
    if "relation_type" not in columns or columns["relation_type"].null_count == len(columns["relation_type"]):
        return None
    types: list[str | None] = [None] * len(answers)
    for row, kind in zip(rows.tolist(), columns["relation_type"].to_pylist(), strict=True):
        if answers[row]:
            types[row] = kind or None
    return types


def _folds(
    columns: Mapping[str, pa.ChunkedArray], rows: npt.NDArray[np.int64], count: int
) -> npt.NDArray[np.int64] | None:
    if "fold" not in columns:
        return None
    folds = np.full(count, NO_FOLD, dtype=np.int64)
    folds[rows] = columns["fold"].to_numpy()
    return folds


def _read(uri: str) -> pa.Table:
    """Read a file by its suffix."""
    suffix = uri.rsplit(".", 1)[-1].lower()
    readers: dict[str, Any] = {
        "parquet": pq.read_table,
        "jsonl": pa.json.read_json,
        "json": pa.json.read_json,
        "csv": pa.csv.read_csv,
        "tsv": lambda stream: pa.csv.read_csv(stream, parse_options=pa.csv.ParseOptions(delimiter="\t")),
    }
    if suffix not in readers:
        raise InputError.at(uri, None, f"has none of the suffixes {', '.join(readers)}", "rename or convert it")
    files, path = storage.filesystem(uri)
    try:
        with files.open_input_file(path) as stream:
            return readers[suffix](stream)
    except (OSError, pa.ArrowException) as error:
        raise InputError.at(uri, None, f"cannot be read as {suffix} ({error})", "check the file") from error


def _typed(table: pa.Table, uri: str) -> pa.Table:
    """Cast the columns, and check their values."""
    if "pair_id" not in table.column_names:
        raise InputError.at(uri, None, f"has no column pair_id (it has {', '.join(table.column_names)})")
    if not {"score", "label"} & set(table.column_names):
        raise InputError.at(uri, None, "has neither a column score nor a column label")
    arrays = {}
    for name, kind in COLUMNS.items():
        if name not in table.column_names:
            continue
        try:
            arrays[name] = table[name].cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError.at(uri, None, f"column {name}: {error}", f"it must hold values of type {kind}") from error
        if name != "relation_type" and arrays[name].null_count:
            row = arrays[name].is_null().to_numpy().argmax()
            raise InputError.at(uri, int(row) + 1, f"column {name} has no value", "count rows without the header")
    if "score" in arrays:
        bad = ~np.isfinite(arrays["score"].to_numpy())
        if bad.any():
            raise InputError.at(
                uri, int(bad.argmax()) + 1, "column score is NaN or infinite", "every pair needs a score"
            )
    return pa.table(arrays)
