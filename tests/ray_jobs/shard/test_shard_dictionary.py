"""The dictionary file of a names dataset, and that the job's summary tells what it lacks."""

from pathlib import Path

import pyarrow as pa
import pytest

from biomodels.artifacts import Artifact, ArtifactBuilder
from biomodels.schemas import NAMES, PAIRS
from biomodels.terminology.names import build_names
from biomodels.terminology.normalise import Normaliser
from biomodels.terminology.records import RECORDS, TYPES
from ray_jobs.shard.dictionary import export_dictionary
from ray_jobs.shard.terminology import Result, _summary

ENTRIES = [("A", "One"), ("A", "one"), ("A", "a||b"), ("A", "|x"), ("B|", "Two"), ("C||D", "Three"), ("E", "e|")]


@pytest.fixture
def names(tmp_path) -> Artifact:
    columns = zip(*[(*entry, "en", "S", "PT", 0, 0) for entry in ENTRIES], strict=True)
    records = pa.table([pa.array(c, f.type) for c, f in zip(columns, RECORDS, strict=True)], schema=RECORDS)
    table, _ = build_names(records, TYPES.empty_table(), Normaliser())
    assert table.schema.equals(NAMES)
    builder = ArtifactBuilder.begin(str(tmp_path / "names"), "names", config={}, inputs={})
    builder.publish_table("part-00000.parquet", table)
    facts = {"names": 7, "concepts": 4, "languages": {"en": 7}, "removed": {}, "rows": {"tsv": 7}, "rejects": 0}
    builder.commit(facts | {"normaliser": "nfc-ws-lower"})
    return Artifact.open(str(tmp_path / "names"), "names")


@pytest.fixture
def pairs(tmp_path) -> Artifact:
    builder = ArtifactBuilder.begin(str(tmp_path / "pairs"), "pairs", config={}, inputs={})
    builder.publish_table("part-00000.parquet", PAIRS.empty_table())
    builder.commit({"pairs": 0})
    return Artifact.open(str(tmp_path / "pairs"), "pairs")


def test_lines_split_into_what_they_were_made_of_and_the_rest_is_told(names, pairs, tmp_path):
    dictionary = export_dictionary(names, str(tmp_path / "dictionary"))
    lines = Path(dictionary.uri, "dictionary.txt").read_text(encoding="utf-8").splitlines()
    assert [line.split("||") for line in lines] == [["A", "one"], ["A", "|x"], ["E", "e|"]]
    assert dictionary.facts == {"names": 3, "left_out": 3}
    shown = _summary(Result(names, pairs, None, dictionary)).splitlines()
    assert shown[-1].split()[:2] == ["entries", "3"] and shown[-1].endswith("dictionary.txt; left out for ||: 3")
    assert "entries" not in _summary(Result(names, pairs, None, None))
