"""Text forms of names and pairs: `id||name` and `id||name_1||name_2` lines, written and read."""

import io

import pyarrow as pa
import pytest

from biomodels.artifacts import Artifact, ArtifactBuilder
from biomodels.terminology.blocks import Block
from biomodels.terminology.dictionary_text import DictionaryFormat, write_dictionary_text
from biomodels.terminology.double_bar import write_lines
from biomodels.terminology.names import build_names
from biomodels.terminology.normalise import Normaliser
from biomodels.terminology.records import RECORDS, TYPES

ENTRIES = [("A", "One"), ("A", "one"), ("A", "a||b"), ("A", "|x"), ("B|", "Two"), ("C||D", "Three"), ("E", "e|")]


@pytest.fixture
def names(tmp_path) -> Artifact:
    columns = zip(*[(*entry, "en", "S", "PT", 0, 0) for entry in ENTRIES], strict=True)
    records = pa.table([pa.array(c, f.type) for c, f in zip(columns, RECORDS, strict=True)], schema=RECORDS)
    builder = ArtifactBuilder.begin(str(tmp_path / "names"), "names", config={}, inputs={})
    builder.publish_table("part-00000.parquet", build_names(records, TYPES.empty_table(), Normaliser()).table)
    builder.commit({"normaliser": "nfc-ws-lower"})
    return Artifact.open(str(tmp_path / "names"), "names")


def test_dictionary_lines_split_into_what_they_were_made_of_and_the_rest_is_counted(names):
    sink = io.BytesIO()
    assert write_dictionary_text(names, sink) == (3, 3)
    lines = sink.getvalue().decode().splitlines()
    assert [line.split("||") for line in lines] == [["A", "one"], ["A", "|x"], ["E", "e|"]]


def test_every_line_written_is_read_as_it_was():
    nasty = ["a", "|a", "a|", "|", "a||b", "a\nb", "a\rb", "ü|x"]
    rows = [(concept, one, two) for concept in nasty for one in nasty for two in nasty]
    arrays = [pa.array([None, *column]).slice(1) for column in zip(*rows, strict=True)]  # with an offset
    sink = io.BytesIO()
    written, left_out = write_lines([arrays, [array.slice(0, 0) for array in arrays]], sink)
    text = sink.getvalue().decode()
    expected = [row for row in rows if not set("\n\r") & set("".join(row)) and "||".join(row).split("||") == list(row)]
    assert [tuple(line.split("||")) for line in text.split("\n")[:-1]] == expected
    assert (written, left_out) == (len(expected), len(rows) - len(expected))


def test_a_dictionary_file_is_read_and_its_bad_lines_are_rejected():
    data = b"C1||Name\r\n\nC1 || other name \nC2\n||x\nC3|| \nC4||a||b\nC5||\xff\nC6||a\x00b\nD1|D2||Both"
    parsed = DictionaryFormat().parse(Block(0, 1, data), "dir/d.txt")
    assert [(row["concept_id"], row["name"]) for row in parsed.records.to_pylist()] == [
        ("C1", "Name"),
        ("C1", "other name"),
        ("D1|D2", "Both"),
    ]
    assert {row["language"] for row in parsed.records.to_pylist()} == {"und"}
    found = [(item.line, item.reason) for item in parsed.rejects]
    assert [line for line, _ in found] == [4, 5, 6, 7, 8, 9]
    reasons = ["has 1 field ", "empty concept id", "empty name", "has 3 fields", "not UTF-8", "NUL"]
    assert all(reason in given for reason, (_, given) in zip(reasons, found, strict=True))
    assert parsed.rows == 9 and DictionaryFormat().parse(Block(0, 1, b"\n"), "d").rows == 0
