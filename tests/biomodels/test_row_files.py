"""Rows of JSON lines and CSV files, good and bad."""

from __future__ import annotations

import gzip

import pytest
from pydantic import AliasChoices, BaseModel, Field

from biomodels.errors import InputError
from biomodels.row_files import read_rows
from biomodels.terminology.rejects import Reject


class Row(BaseModel):
    number: int
    name: str = Field("none", validation_alias=AliasChoices("name", "full name"))


def write(path, text):
    path.write_bytes(text.encode())
    return str(path)


def read(path):
    return [row if isinstance(row, Reject) else (row[0], row[1].number, row[1].name) for row in read_rows(path, Row)]


def test_json_lines(tmp_path):
    path = write(
        tmp_path / "r", '{"number": 1, "other": 2}\n\n{"number": "x"}\n[1]\n{"number": 2, "full name": "é"}\nno\n'
    )
    rows = read(path)
    assert [row for row in rows if not isinstance(row, Reject)] == [(1, 1, "none"), (5, 2, "é")]
    rejects = [row for row in rows if isinstance(row, Reject)]
    assert [(item.file, item.line) for item in rejects] == [("r", 3), ("r", 4), ("r", 6)]
    assert "number: Input should be a valid integer" in rejects[0].reason
    assert [item.reason.split(" (")[0] for item in rejects[1:]] == ["is no JSON object", "is no JSON"]


@pytest.mark.parametrize("tab", [",", "\t"])
def test_csv_with_quotes_and_blank_cells(tmp_path, tab):
    text = f'number{tab}full name\r\n1{tab}"a ""b""\nc"\r\n2{tab}\r\n3\r\n\r\nx{tab}d\r\n5{tab}e\r\n'
    path = tmp_path / "r.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.encode()))
    rows = read(str(path))
    assert [row for row in rows if not isinstance(row, Reject)] == [(2, 1, 'a "b"\nc'), (4, 2, "none"), (8, 5, "e")]
    assert [(row.line, row.reason[:31]) for row in rows if isinstance(row, Reject)] == [
        (5, "has 1 fields where the header h"),
        (7, "number: Input should be a valid"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("name\na\n", "r:1: has no column number; it has: name"),
        ("number,number\n1,2\n", "names a column twice"),
        ('number,name\n1,"a\n', "is no CSV"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read(write(tmp_path / "r", text))


def test_other_bytes(tmp_path):
    (tmp_path / "r").write_bytes(b"number,name\n1,\xff\n")
    with pytest.raises(InputError, match="r:2: is not UTF-8"):
        read(str(tmp_path / "r"))
    cut = gzip.compress(b"number,name\n" + b"1,a\n" * 1000)
    (tmp_path / "r").write_bytes(cut[: len(cut) // 2])
    with pytest.raises(InputError, match="damaged gzip"):
        read(str(tmp_path / "r"))
    with pytest.raises(InputError, match="cannot be read"):
        read(str(tmp_path / "absent"))
