"""Small made-up corpora in each format."""

from __future__ import annotations

import json
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest

DDI = """<?xml version="1.0" encoding="UTF-8"?>
<document id="DDI-Made.d1">
  <sentence id="DDI-Made.d1.s0" text="Aspirin raises warfarin levels.&#xa;">
    <entity id="DDI-Made.d1.s0.e0" charOffset="0-6" type="brand" text="Aspirin"/>
    <entity id="DDI-Made.d1.s0.e1" charOffset="15-22" type="drug" text="warfarin"/>
    <pair id="DDI-Made.d1.s0.p0" e1="DDI-Made.d1.s0.e0" e2="DDI-Made.d1.s0.e1" ddi="true" type="mechanism"/>
  </sentence>
  <sentence id="DDI-Made.d1.s1" text=""/>
  <sentence id="DDI-Made.d1.s2" text="loop and thiazide diuretics">
    <entity id="DDI-Made.d1.s2.e0" charOffset="0-3;18-26" type="group" text="loop diuretics"/>
    <entity id="DDI-Made.d1.s2.e1" charOffset="9-26" type="group" text="thiazide diuretics"/>
    <pair id="DDI-Made.d1.s2.p0" e1="DDI-Made.d1.s2.e0" e2="DDI-Made.d1.s2.e1" ddi="true"/>
  </sentence>
  <sentence id="DDI-Made.d1.s3" text="A &amp;lt; B and CC with A">
    <entity id="DDI-Made.d1.s3.e0" charOffset="0-0" type="drug" text="A"/>
    <entity id="DDI-Made.d1.s3.e1" charOffset="7-7" type="drug" text="B"/>
    <entity id="DDI-Made.d1.s3.e2" charOffset="13-14" type="drug" text="CD"/>
    <entity id="DDI-Made.d1.s3.e3" charOffset="21-21" type="drug" text="a"/>
    <pair id="DDI-Made.d1.s3.p0" e1="DDI-Made.d1.s3.e0" e2="DDI-Made.d1.s3.e1" ddi="false"/>
    <pair id="DDI-Made.d1.s3.p1" e1="DDI-Made.d1.s3.e0" e2="DDI-Made.d1.s3.e2" ddi="false"/>
    <pair id="DDI-Made.d1.s3.p2" e1="DDI-Made.d1.s3.e0" e2="DDI-Made.d1.s3.e3" ddi="false"/>
    <pair id="DDI-Made.d1.s3.p3" e1="DDI-Made.d1.s3.e1" e2="DDI-Made.d1.s3.e2" ddi="true" type="effect"/>
  </sentence>
</document>
"""


@pytest.fixture
def ddi_file(tmp_path: Path) -> str:
    """A DDI document with one of nearly every irregularity."""
    path = tmp_path / "made_ddi.xml"
    path.write_text(DDI, encoding="utf-8")
    return str(path)


@pytest.fixture
def ppi_xml():
    """A function: a unified PPI corpus whose offsets are "inclusive" or "exclusive", listing all pairs or positives."""
    return _ppi_xml


def _ppi_xml(offsets: str, pairs: bool, separator: str = ",") -> str:
    text = "KinA binds KinB, and the alpha and beta subunits bind KinA"
    shift = -1 if offsets == "inclusive" else 0
    mentions = [
        ("KinA", [(0, 4)]),
        ("KinB", [(11, 15)]),
        ("alpha subunits", [(25, 30), (40, 48)]),
        ("beta subunits", [(35, 48)]),
    ]
    entities = "".join(
        f'<entity id="X.d0.s0.e{i}" text="{name}" type="protein" '
        f'charOffset="{separator.join(f"{start}-{end + shift}" for start, end in spans)}"/>'
        for i, (name, spans) in enumerate(mentions)
    )
    if pairs:
        relations = "".join(
            f'<pair id="X.d0.s0.p{n}" e1="X.d0.s0.e{a}" e2="X.d0.s0.e{b}" interaction="{(a, b) == (0, 1)}"/>'
            for n, (a, b) in enumerate([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
        )
    else:
        relations = '<interaction id="X.d0.s0.i0" e1="X.d0.s0.e1" e2="X.d0.s0.e0" type="PPI"/>'
    return (
        f'<corpus source="X"><document id="X.d0"><sentence id="X.d0.s0" text={quoteattr(text)}>{entities}{relations}'
        '</sentence><sentence id="X.d0.s1" text="No protein here."/></document></corpus>'
    )


@pytest.fixture
def bnl_line():
    """A function: a line of BNL's JSON."""
    return _bnl_line


def _bnl_line(number: int, label: str, *, sentence: int = 0, spans_1=((0, 4),), mention_1="KinA") -> str:
    text = "KinA binds KinB here"
    return json.dumps(
        {
            "id": f"X.d0.s{sentence}_X.d0.s{sentence}.p{number}",
            "text": text,
            "relation": [
                {
                    "relation_type": label,
                    "entity_1": mention_1,
                    "entity_1_idx": [list(span) for span in spans_1],
                    "entity_1_type": "protein",
                    "entity_2": "KinB",
                    "entity_2_idx": [[11, 15]],
                    "entity_2_type": "protein",
                }
            ],
        }
    )
