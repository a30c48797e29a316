"""Reading scores: a dataset, one Parquet file, or JSON lines, plain or gzip."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from biomodels import storage
from biomodels.artifacts import Artifact, batches
from biomodels.errors import InputError
from biomodels.evaluation.pair_scores import PairScores
from biomodels.literature.pair_files import Ranked, read_ranked_lines
from biomodels.schemas import SCORES

COLUMNS = ["pmid", "g2p_ids", "scores"]
ROWS_PER_BATCH = 4096


def read_scores(uri: str, wanted: ArrayLike | None = None) -> PairScores:
    """Read the scores of one run.

    Args:
        uri: a `scores` dataset, a Parquet file, or JSON lines of objects with `pmid`, `g2p_ids` and `scores`.
        wanted: the PMIDs to keep; all if None.

    Raises:
        InputError: the rows are not what `PairScores.collect` needs.
    """
    if not storage.is_file(uri):
        return PairScores.collect(uri, batches(Artifact.open(uri, "scores"), COLUMNS, "part-"), wanted)
    return PairScores.collect(uri, _parquet(uri) if uri.endswith(".parquet") else _lines(uri), wanted)


def _parquet(uri: str) -> Iterator[pa.RecordBatch]:
    files, path = storage.filesystem(uri)
    try:
        with files.open_input_file(path) as handle:
            file = pq.ParquetFile(handle)
            columns = [name for name in COLUMNS if name in file.schema_arrow.names]
            yield from file.iter_batches(columns=columns)
    except pa.ArrowInvalid as error:
        raise InputError.at(uri, None, f"cannot be read as Parquet ({error})", "give a scores file") from error


def _lines(uri: str) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([SCORES.field(name) for name in COLUMNS])
    rows = read_ranked_lines(uri)
    while chunk := list(islice(rows, ROWS_PER_BATCH)):
        yield pa.RecordBatch.from_pylist([_row(uri, row) for row in chunk], schema=schema)


def _row(uri: str, row: Ranked) -> dict[str, object]:
    if row.scores is None:
        raise InputError(f"{uri}: PMID {row.pmid} has no scores; a scores file has pmid, g2p_ids, scores")
    return {"pmid": row.pmid, "g2p_ids": row.g2p_ids, "scores": row.scores}
