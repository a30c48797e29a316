"""What the tests of several jobs share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from biomodels import schemas
from biomodels.artifacts import ArtifactBuilder
from biomodels.terminology.normalise import Normaliser, name_id


@pytest.fixture(scope="session")
def write_names() -> Callable[..., str]:
    """The function that writes a small `names` artifact."""
    return _write_names


def _write_names(out: Path, count: int, files: int = 3, **changes: object) -> str:
    """A `names` artifact in which every concept has three names, and every 50th name is a homonym."""
    normalise = Normaliser()
    rows = []
    for i in range(count):
        name = f"Disease {i if i % 50 else i // 100} of the {'heart' if i % 2 else 'kidney'}"
        rows.append(
            {
                "concept_id": f"C{i // 3:04d}",
                "name_id": name_id(normalise(name)),
                "name": name,
                "language": "en",
                "source": "TEST",
                "term_type": "PT" if i % 3 == 0 else "SY",
                "preferred": i % 3 == 0,
                "semantic_types": ["T047"],
            }
            | changes
        )
    table = pa.Table.from_pylist(rows, schema=schemas.NAMES)
    builder = ArtifactBuilder.begin(str(out), "names", config={}, inputs={})
    size = -(-max(count, 1) // files)
    for number in range(files):
        builder.publish_table(f"part-{number:05d}.parquet", table.slice(number * size, size))
    builder.commit({"normaliser": normalise.name})
    return str(out)
