"""Texts of chosen articles, fetched from a dataset of any size: one task per part, which keeps what is wanted."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from biomodels import storage
from biomodels.artifacts import Artifact, ArtifactBuilder, write_parquet
from ray_jobs.fan_out import Item, fan_out
from ray_jobs.progress import bar

COLUMNS = ["pmid", "title", "abstract", "languages", "retracted", "text_digest"]


def fetch(builder: ArtifactBuilder, articles: Artifact, pmids: Collection[int]) -> Iterator[pa.RecordBatch]:
    """Yield the rows (`COLUMNS`) of the chosen articles, in the order of the dataset.

    Args:
        builder: in whose work area they are kept, so that a job that was killed need not read again what it had read.
        articles: the dataset.
        pmids: which articles; those that it lacks are passed over.
    """
    wanted = builder.work("wanted.parquet")
    with storage.writing(wanted) as local:
        write_parquet(pa.table({"pmid": np.array(sorted(pmids), dtype=np.int64)}), local)
    entries = articles.files("part-")
    task = partial(_fetch_part, builder, articles, wanted)
    found: list[Item] = []
    with bar("texts", len(entries), "parts") as progress:
        for item in fan_out(task, [{"path": entry.path} for entry in entries]):
            found.append(item)
            progress.update()
    for item in sorted(found, key=lambda item: str(item["path"])):
        files, path = storage.filesystem(item["texts"])
        with files.open_input_file(path) as handle:
            yield from pq.ParquetFile(handle).iter_batches()


def _fetch_part(builder: ArtifactBuilder, articles: Artifact, wanted: str, item: Item) -> Item:
    texts = builder.work("texts", item["path"])
    if not storage.exists(texts):
        files, path = storage.filesystem(wanted)
        pmids = pq.read_table(path, filesystem=files)["pmid"].combine_chunks()
        table = articles.read_table(articles.entry(item["path"]), COLUMNS)
        with storage.writing(texts) as local:
            write_parquet(table.filter(pc.is_in(table["pmid"], pmids)), local)
    return {"path": item["path"], "texts": texts}
