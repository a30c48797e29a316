"""Synonyms held out for evaluation: strings that will occur nowhere in the names and pairs.

A string (normalised and case-folded, see `names.fold`) may be held out if it belongs to exactly one concept and is
not that concept's preferred name; so every concept keeps its preferred name, and the query has one right answer.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from biomodels.terminology.hashing import hash_column, mix
from biomodels.terminology.names import fold_ids

SEPARATOR = "||"
_CHOICE = 3

CANDIDATES = pa.schema(
    [
        ("fold_id", pa.int64()),
        ("concept_id", pa.string()),
        ("mention", pa.string()),
        ("eligible", pa.bool_()),
        ("hash", pa.uint64()),
    ]
)
"""One row per concept and folded string. `hash` orders the choice; its top bits are the bucket of a shuffle."""


def candidates(names: pa.Table, seed: int) -> pa.Table:
    """Return the strings of a part of the names dataset (schema CANDIDATES), once for each of their concepts.

    The mention is the first of the names, in the part's order, that fold to the string. A string is not eligible if
    one of them is preferred or cannot be written as `id||mention`.
    """
    mentions = names["name"].to_pylist()
    folds = fold_ids(mentions)
    concepts = hash_column(names["concept_id"])
    barred = names["preferred"].to_numpy(zero_copy_only=False) | np.fromiter(
        (SEPARATOR in text for text in mentions), dtype=bool, count=len(mentions)
    )
    order = np.lexsort((folds, concepts))
    if not len(order):
        return CANDIDATES.empty_table()
    starts = np.flatnonzero(np.r_[True, (np.diff(folds[order]) != 0) | (np.diff(concepts[order]) != 0)])
    rows = order[starts]
    eligible = ~np.logical_or.reduceat(barred[order], starts)
    kept = names.take(pa.array(rows))
    columns = [pa.array(folds[rows]), kept["concept_id"], kept["name"], eligible, mix(seed, _CHOICE, folds[rows])]
    return pa.table(columns, schema=CANDIDATES)


def choose(found: pa.Table, count: int) -> pa.Table:
    """Choose the `count` eligible strings of least hash among those of one concept.

    Args:
        found: candidates, with all rows of each of their strings.
        count: how many to choose; fewer are returned if there are not so many.

    Returns:
        The chosen rows, sorted by hash. Choosing from parts and then from the choices gives the same as choosing
        from all.
    """
    if not found.num_rows:
        return found
    folds = found["fold_id"].to_numpy()
    order = np.argsort(folds, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(folds[order]) != 0])
    alone = np.diff(np.r_[starts, len(order)]) == 1
    rows = order[starts[alone]]
    rows = rows[found["eligible"].to_numpy(zero_copy_only=False)[rows]]
    hashes = found["hash"].to_numpy()[rows]
    return found.take(pa.array(rows[np.lexsort((folds[rows], hashes))][:count]))
