"""Seeded samples of articles, with equally many of each decade."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from biomodels.artifacts import digest_bytes
from biomodels.literature.merge import pmid_hash
from biomodels.terminology.hashing import mix

ALL = -1
"""In place of a decade, where decades do not count."""

CHOICES = pa.schema([("pmid", pa.int64()), ("decade", pa.int32()), ("hash", pa.uint64())])


def eligible(articles: pa.Table, after: int, languages: list[str]) -> pa.Table:
    """Return the rows that can be sampled: with an abstract, not retracted, in these languages alone, late enough.

    Args:
        articles: columns abstract, retracted, languages, year, and any others.
        after: the year must be greater.
        languages: the article's languages must be these and no others.
    """
    spoken = pc.binary_join(articles["languages"], ";")
    tests = [
        pc.not_equal(articles["abstract"], ""),
        pc.invert(articles["retracted"]),
        pc.equal(spoken, ";".join(languages)),
        pc.greater(articles["year"], after),
    ]
    mask = tests[0]
    for test in tests[1:]:
        mask = pc.and_(mask, test)
    return articles.filter(mask.fill_null(False))


def choices(articles: pa.Table, seed: int, *, per_decade: bool) -> pa.Table:
    """Return PMID, decade and hash (schema CHOICES) of articles; the sample is those of the smallest hashes."""
    key = int.from_bytes(bytes.fromhex(digest_bytes(f"sample {seed}".encode()))[:8], "big")
    years = articles["year"]
    decades = pc.multiply(pc.divide(years, 10), 10) if per_decade else pa.array([ALL] * len(years), pa.int32())
    return pa.table([articles["pmid"], decades, mix(key, pmid_hash(articles["pmid"]))], schema=CHOICES)
