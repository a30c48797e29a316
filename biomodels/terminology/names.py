"""The names dataset: one row per concept, name, language, source and term type, with one preferred name a concept."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from biomodels.errors import InputError
from biomodels.schemas import NAMES
from biomodels.terminology.hashing import hash_strings
from biomodels.terminology.normalise import Normaliser

ROWS_PER_PART = 250_000
"""About how many names a part holds; a part is built in memory by one task."""

MOST_BITS = 6
"""There are at most 2^6 parts; beyond 16 million names the parts grow instead."""

KEY = ("concept_id", "name", "language", "source", "term_type")
"""What makes two rows one, and the order of the rows inside a part."""

_Ints = npt.NDArray[np.int64]


def group_numbers(column: pa.ChunkedArray) -> _Ints:
    """Number the runs of equal values of a sorted column from 0."""
    if len(column) == 0:
        return np.empty(0, dtype=np.int64)
    values = column.combine_chunks()
    changes = pc.not_equal(values.slice(1), values.slice(0, len(values) - 1)).to_numpy(zero_copy_only=False)
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(changes)])


def run_starts(*columns: _Ints) -> _Ints:
    """Return where runs of equal rows start in sorted columns."""
    if not len(columns[0]):
        return np.empty(0, dtype=np.int64)
    changes = np.zeros(len(columns[0]) - 1, dtype=bool)
    for column in columns:
        changes |= column[1:] != column[:-1]
    return np.flatnonzero(np.r_[True, changes])


class BuiltNames(NamedTuple):
    """A part of the names dataset (schema NAMES), each row's normalised name, and how many rows were held out."""

    table: pa.Table
    strings: pa.Array
    held_out: int


def build_names(
    records: pa.Table, types: pa.Table, normaliser: Normaliser, held_out: _Ints | None = None
) -> BuiltNames:
    """Make a part of the names dataset, its rows sorted by `KEY`.

    The preferred name of a concept is the one of least rank; among equals the first in the order of `KEY`, so that
    the order of the input's rows does not matter.

    Args:
        records: all records (schema RECORDS) of some concepts, in any order.
        types: their semantic types (schema TYPES), in any order, repeated or not.
        normaliser: makes the string that `name_id` is the hash of.
        held_out: sorted `fold_id`s of strings that must not occur.

    Raises:
        InputError: two different normalised strings have one id.
    """
    table = _distinct(records)
    removed = 0
    if held_out is not None and len(held_out):
        keep = ~np.isin(fold_ids(table["name"].to_pylist()), held_out)
        removed = int((~keep).sum())
        table = table.filter(pa.array(keep))
    strings = normaliser.column(table["name"])
    ids = hash_strings(strings.to_pylist())
    check_collisions(ids, strings)
    concepts = group_numbers(table["concept_id"])
    preferred = np.zeros(len(ids), dtype=bool)
    order = np.lexsort((table["rank"].to_numpy(), concepts))
    preferred[order[np.flatnonzero(np.r_[True, np.diff(concepts[order]) > 0])] if len(order) else order] = True
    columns = {
        **{name: table[name] for name in KEY},
        "name_id": pa.array(ids),
        "preferred": pa.array(preferred),
        "semantic_types": _types_of(table["concept_id"], concepts, types),
    }
    return BuiltNames(pa.table([columns[name] for name in NAMES.names], schema=NAMES), strings, removed)


def fold(text: str) -> str:
    """Return the form of a name under which a held-out string is recognised: normalised and case-folded."""
    return _FOLDING(_FOLDING(text).casefold())


def fold_ids(texts: list[str]) -> _Ints:
    """Return the identity of each text's folded form."""
    return hash_strings(fold(text) for text in texts)


def check_collisions(ids: _Ints, strings: pa.Array) -> None:
    """Stop if one id stands for two different strings.

    Raises:
        InputError: naming both strings.
    """
    order = np.argsort(ids, kind="stable")
    same = np.flatnonzero(np.diff(ids[order]) == 0)
    ones, others = strings.take(pa.array(order[same])), strings.take(pa.array(order[same + 1]))
    for row in pc.indices_nonzero(pc.not_equal(ones, others)).to_pylist():
        one, other = ones[row].as_py(), others[row].as_py()
        raise InputError(f"names {one!r} and {other!r} have the same name_id {ids[order[same[row]]]}; remove one")


def _distinct(records: pa.Table) -> pa.Table:
    """Sort records by `KEY` and keep of equal ones the one of least rank."""
    keys = [(name, "ascending") for name in (*KEY, "rank")]
    table = records.combine_chunks().take(pc.sort_indices(records, sort_keys=keys)).combine_chunks()
    if table.num_rows < 2:
        return table
    fresh = np.zeros(table.num_rows - 1, dtype=bool)
    for name in KEY:
        values = table[name].chunk(0)
        fresh |= pc.not_equal(values.slice(1), values.slice(0, len(values) - 1)).to_numpy(zero_copy_only=False)
    return table if fresh.all() else table.filter(pa.array(np.r_[True, fresh])).combine_chunks()


def _types_of(concept_ids: pa.ChunkedArray, concepts: _Ints, types: pa.Table) -> pa.ListArray:
    """Return each row's list of semantic types, sorted; empty where the concept has none.

    Args:
        concept_ids: of each row, sorted.
        concepts: the number of each row's concept, see `group_numbers`.
        types: the semantic types.
    """
    firsts = np.flatnonzero(np.r_[True, np.diff(concepts) > 0]) if len(concepts) else concepts
    known = concept_ids.take(pa.array(firsts)).combine_chunks()
    found = types.group_by(types.column_names).aggregate([])
    found = found.append_column("concept", pc.index_in(found["concept_id"], value_set=known)).drop_columns("concept_id")
    found = found.filter(pc.is_valid(found["concept"])).sort_by(
        [("concept", "ascending"), ("semantic_type", "ascending")]
    )
    bounds = np.searchsorted(found["concept"].to_numpy(), np.arange(len(known) + 1))
    values = found["semantic_type"].combine_chunks()
    lists = pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), values)
    return lists.take(pa.array(concepts))


_FOLDING = Normaliser(lowercase=True)
