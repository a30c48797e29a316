"""Which names may answer: by language, source and semantic type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from biomodels.errors import UsageError

COLUMNS = {"languages": "language", "sources": "source", "semantic_types": "semantic_types"}
"""Field of a filter, and of an index's facts → column of the names."""


@dataclass(frozen=True)
class NameFilter:
    """A name may answer if it has one of the values in every field that is not empty.

    Attributes:
        languages: ISO 639 codes.
        sources: vocabularies, as the names spell them.
        semantic_types: TUIs; one of a concept's types is enough.
    """

    languages: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    semantic_types: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        languages: Iterable[str] | None = None,
        sources: Iterable[str] | None = None,
        semantic_types: Iterable[str] | None = None,
    ) -> NameFilter | None:
        """Return the filter, equal for equal sets, or None if every name may answer."""
        fields = [tuple(sorted(set(values or ()))) for values in (languages, sources, semantic_types)]
        return cls(*fields) if any(fields) else None

    def check(self, facts: Mapping[str, Any]) -> None:
        """Refuse values that no name of an index has.

        Args:
            facts: the index's, which list the values that there are.

        Raises:
            UsageError: naming the value, and those there are.
        """
        for field in COLUMNS:
            known = facts[field]
            unknown = sorted(set(getattr(self, field)) - set(known))
            if unknown:
                shown = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
                raise UsageError(f"{field}: no name of the index has {unknown[0]!r}; there are: {shown or 'none'}")

    def mask(self, rows: pa.RecordBatch | pa.Table) -> NDArray[np.bool_]:
        """Return which NAMES rows may answer."""
        chosen = np.ones(rows.num_rows, dtype=bool)
        for field, column in COLUMNS.items():
            values = getattr(self, field)
            if values:
                chosen &= _any_of(rows.column(rows.schema.get_field_index(column)), pa.array(values))
        return chosen


def values_of(tables: Iterable[pa.RecordBatch | pa.Table]) -> dict[str, list[str]]:
    """Return the distinct languages, sources and semantic types of NAMES rows, sorted."""
    found: dict[str, set[str]] = {field: set() for field in COLUMNS}
    for table in tables:
        for field, column in COLUMNS.items():
            values = table.column(table.schema.get_field_index(column))
            flat = pc.list_flatten(values) if pa.types.is_list(values.type) else values
            found[field].update(value for value in pc.unique(flat).to_pylist() if value)
    return {field: sorted(values) for field, values in found.items()}


def _any_of(column: Any, values: pa.Array) -> NDArray[np.bool_]:
    if not pa.types.is_list(column.type):
        return np.asarray(pc.is_in(column, value_set=values).to_numpy(zero_copy_only=False), dtype=bool)
    hits = pc.is_in(pc.list_flatten(column), value_set=values).to_numpy(zero_copy_only=False)
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    before = np.concatenate([[0], np.cumsum(hits)])
    ends = np.cumsum(lengths)
    return np.asarray(before[ends] > before[ends - lengths])
