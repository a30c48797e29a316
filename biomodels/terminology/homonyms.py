"""Homonyms: normalised names that several concepts bear."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from biomodels.terminology.hashing import UInts, mix
from biomodels.terminology.names import BuiltNames, run_starts

BEARERS = pa.schema([("name_id", pa.int64()), ("concept_id", pa.string()), ("text", pa.string())])
"""One row per concept and normalised name."""

MOST_SHOWN = 10
FEW = 5
"""Names of so many concepts and more are counted together."""


def bearers(names: BuiltNames) -> tuple[pa.Table, UInts]:
    """Return who bears the names of a part (schema BEARERS), and each row's hash, whose top bits are its bucket."""
    columns = [names.table["name_id"], names.table["concept_id"], names.strings]
    table = pa.table(columns, schema=BEARERS).combine_chunks()
    concepts = table["concept_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    ids = table["name_id"].to_numpy()
    order = np.lexsort((concepts, ids))
    rows = order[run_starts(ids[order], concepts[order])]
    return table.take(pa.array(rows)), mix(ids[rows])


@dataclass
class Homonyms:
    """What was found so far.

    Attributes:
        lines: one JSON object for each homonym, with `name` and `concepts`.
        by_concepts: number of homonyms by how many concepts bear them.
        most: the names that most concepts bear, as (minus number of concepts, name).
    """

    lines: list[str] = field(default_factory=list)
    by_concepts: Counter[int] = field(default_factory=Counter)
    most: list[tuple[int, str]] = field(default_factory=list)

    def add(self, table: pa.Table) -> None:
        """Take in all bearers (schema BEARERS) of some names, in any order."""
        table = table.sort_by([("name_id", "ascending"), ("concept_id", "ascending")]).combine_chunks()
        starts = run_starts(table["name_id"].to_numpy())
        sizes = np.diff(np.r_[starts, table.num_rows])
        for start, size in zip(starts[sizes > 1].tolist(), sizes[sizes > 1].tolist(), strict=True):
            rows = table.slice(start, size)
            name = rows["text"][0].as_py()
            content = {"name": name, "concepts": rows["concept_id"].to_pylist()}
            self.lines.append(json.dumps(content, ensure_ascii=False) + "\n")
            self.by_concepts[size] += 1
            self.most.append((-size, name))
        self.most = sorted(self.most)[:MOST_SHOWN]


def report(by_concepts: Counter[int], most: list[tuple[int, str]]) -> dict[str, Any]:
    """Return the counts that a manifest holds: homonyms, by number of concepts, and those that most concepts bear."""
    few = {str(size): by_concepts[size] for size in range(2, FEW)}
    many = sum(count for size, count in by_concepts.items() if size >= FEW)
    return {
        "strings": sum(by_concepts.values()),
        "bearers": sum(size * count for size, count in by_concepts.items()),
        "by_concepts": few | {f"{FEW}+": many},
        "most": [{"name": name, "concepts": -size} for size, name in sorted(most)[:MOST_SHOWN]],
    }
