"""One row per PMID out of what many files say, in their order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from biomodels.schemas import ARTICLES, DELETED
from biomodels.terminology.hashing import mix

MOST_BITS = 9
"""Most parts of a dataset of articles, as a power of two: at PubMed's 40 million PMIDs a part has 80,000 rows."""

ROWS_PER_PART = 20_000
"""A dataset has as many parts as keep them below this, up to the most."""

KEYS = pa.schema([("pmid", pa.int64()), ("version", pa.int32())])
"""What decides which rows stay."""

Rows = npt.NDArray[np.int64]


class Latest(NamedTuple):
    """Row numbers of what is left of a sequence of events, in the order of `pmid_hash`."""

    articles: Rows
    deletions: Rows


def pmid_hash(pmids: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.uint64]:
    """Return the hash by which articles are cut into parts and ordered. Different PMIDs have different hashes."""
    return mix(pmids.to_numpy().astype(np.uint64))


def latest(events: pa.Table) -> Latest:
    """Find the last word on each PMID.

    Of an article's records after its last deletion the one of the highest version stays, and of several such ones the
    last, whether or not it has an abstract. A PMID whose last event is a deletion is deleted; a record that comes
    later revives it.

    Args:
        events: columns KEYS; a null version means a deletion.
    """
    pmid = events["pmid"].to_numpy()
    deletion = events["version"].is_null().to_numpy()
    version = events["version"].fill_null(-1).to_numpy()
    if not len(pmid):
        return Latest(np.empty(0, np.int64), np.empty(0, np.int64))
    order = np.lexsort((np.arange(len(pmid)), pmid))
    starts = np.flatnonzero(np.r_[True, np.diff(pmid[order]) != 0])
    group = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(pmid)]))
    last_deletion = np.maximum.reduceat(np.where(deletion[order], order, -1), starts)
    lives = order > last_deletion[group]
    living, owner = order[lives], group[lives]
    ranked = np.lexsort((living, version[living], owner))
    living, owner = living[ranked], owner[ranked]
    articles = living[np.r_[np.diff(owner) != 0, True]] if len(living) else living
    deleted = np.ones(len(starts), dtype=bool)
    deleted[owner] = False
    deletions = last_deletion[deleted]
    hashes = pmid_hash(events["pmid"])
    return Latest(articles[np.argsort(hashes[articles])], deletions[np.argsort(hashes[deletions])])


def merge(events: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the articles (schema ARTICLES) and the deleted PMIDs (schema DELETED) that events leave."""
    left = latest(events)
    articles = events.take(pa.array(left.articles)).cast(ARTICLES)
    return articles, events.select(DELETED.names).take(pa.array(left.deletions))
