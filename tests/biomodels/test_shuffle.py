"""Spilling by bucket and gathering again."""

import numpy as np
import pyarrow as pa
import pytest

from biomodels.shuffle import bucket_of, gather, part_bits, spill


@pytest.mark.parametrize("rows", [0, 1, 1000])
def test_gathered_buckets_are_the_spilled_rows(tmp_path, rows):
    hashes = np.random.default_rng(0).integers(0, 2**64, rows, dtype=np.uint64)
    table = pa.table({"hash": hashes, "text": [f"t{value}" for value in hashes]})
    buckets = bucket_of(hashes, 4)
    uris = [str(tmp_path / "sub" / f"{number}.arrow") for number in range(2)]
    half = rows // 2
    spill(table.slice(0, half), buckets[:half], 4, uris[0])
    spill(table.slice(half), buckets[half:], 4, uris[1])
    found = [gather(uris, first, first + 2, table.schema) for first in range(0, 16, 2)]
    for number, part in enumerate(found):
        assert (bucket_of(part["hash"].to_numpy(), 3) == number).all()
    assert pa.concat_tables(found).sort_by("hash").equals(table.sort_by("hash").combine_chunks()) or rows == 0
    assert sum(len(part) for part in found) == rows


def test_number_of_parts():
    assert [part_bits(rows, 100, 6) for rows in (0, 1, 100, 101, 200, 201, 10**9)] == [0, 0, 0, 1, 1, 2, 6]
    assert bucket_of(np.array([2**64 - 1], dtype=np.uint64), 0).tolist() == [0]
