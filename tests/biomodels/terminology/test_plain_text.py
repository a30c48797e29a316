from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from biomodels.errors import InputError
from biomodels.schemas import NAMES
from biomodels.terminology.normalise import Normaliser, name_id
from biomodels.terminology.plain_text import count_lines, read_plain_text
from biomodels.terminology.rejects import Reject

TEXT = b"Heart  attack\r\n\n  \nmyocardial infarction\nheart attack\nbad \xff\nnul \0\n\xe2\x80\x8b\nlast"


@pytest.mark.parametrize("packed", [False, True])
def test_each_line_is_a_name_and_a_concept(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "names.txt"
    path.write_bytes(gzip.compress(TEXT) if packed else TEXT)
    rejects: list[Reject] = []
    table = pa.concat_tables(read_plain_text(str(path), Normaliser(), rejects))
    assert table.schema == NAMES
    rows = table.to_pylist()
    assert [row["name"] for row in rows] == ["Heart  attack", "myocardial infarction", "heart attack", "last"]
    assert [row["concept_id"] for row in rows] == ["heart attack", "myocardial infarction", "heart attack", "last"]
    assert [row["name_id"] for row in rows] == [name_id(row["concept_id"]) for row in rows]
    assert [(reject.line, reject.reason) for reject in rejects] == [
        (6, "is not UTF-8 at byte 5 of the line"),
        (7, "has a NUL in its name"),
        (8, "has an empty name"),
    ]
    assert count_lines(str(path)) == 9


def test_a_dictionary_is_no_text_file_of_names(tmp_path: Path) -> None:
    path = tmp_path / "dictionary.txt"
    path.write_text("D001||fever\n")
    with pytest.raises(InputError, match=r"dictionary.txt:1: looks like id\|\|name"):
        count_lines(str(path))
