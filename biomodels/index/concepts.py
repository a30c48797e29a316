"""Which name a concept is shown by: the preferred ones come first, then English ones, then the first by code points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from biomodels import shuffle, storage
from biomodels.artifacts import ArtifactBuilder
from biomodels.index.names import concept_bucket

Best = dict[str, tuple[int, str]]
"""Concept → rank and text of its best name so far."""

_CANDIDATES = pa.schema([("concept_id", pa.string()), ("rank", pa.int8()), ("name", pa.string())])


def consider(best: Best, names: pa.Table) -> None:
    """Take NAMES rows into account."""
    columns = (names[name].to_pylist() for name in ("concept_id", "preferred", "language", "name"))
    _keep_best(
        best,
        (
            (concept_id, 2 * (not preferred) + (language != "en"), name)
            for concept_id, preferred, language, name in zip(*columns, strict=True)
        ),
    )


def spill(builder: ArtifactBuilder, best: Best, bits: int, name: str) -> None:
    """Write what one task found to the work area, by bucket of the concept."""
    rows = [(concept_id, *best[concept_id]) for concept_id in sorted(best)]
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    table = pa.table(columns, schema=_CANDIDATES)
    buckets = np.array([concept_bucket(row[0], bits) for row in rows], dtype=np.int64)
    shuffle.spill(table, buckets, bits, builder.work("concepts", f"{name}.arrow"))


def gather(builder: ArtifactBuilder, buckets: Iterable[int]) -> Best:
    """Return the best names of the concepts in some buckets, by what all tasks spilled."""
    best: Best = {}
    for bucket in buckets:
        for name in storage.list_files(builder.work("concepts")):
            uri = builder.work("concepts", name)
            _keep_best(best, _rows(shuffle.gather([uri], bucket, bucket + 1, _CANDIDATES)))
    return best


def _rows(table: pa.Table) -> Iterator[tuple[str, int, str]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def _keep_best(best: Best, candidates: Iterable[tuple[str, int, str]]) -> None:
    for concept_id, rank, name in candidates:
        known = best.get(concept_id)
        if known is None or (rank, name) < known:
            best[concept_id] = (rank, name)
