"""Trade names from MRREL.RRF (UMLS Reference Manual, chapter 3.3): a drug borrows the names of its brands, and back.

SapBERT's recipe takes each relation `has_tradename` or `tradename_of` between CUI1, the head, and CUI2, the tail, and
gives the head the tail's names; a later relation of the same head replaces what an earlier one gave.
"""

from __future__ import annotations

from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from biomodels.terminology.blocks import Block
from biomodels.terminology.delimited import read_rows
from biomodels.terminology.records import RELATIONS, Parsed

MRREL_COLUMNS = (
    *("CUI1", "AUI1", "STYPE1", "REL", "CUI2", "AUI2", "STYPE2", "RELA"),
    *("RUI", "SRUI", "SAB", "SL", "RG", "DIR", "SUPPRESS", "CVF"),
)
TRADENAME_RELATIONS = ("has_tradename", "tradename_of")

Tradenames = Literal["last", "all"]
"""A head borrows from the tail of its last relation to a concept with names, as the reference does; or from all."""

NAME_COLUMNS = ("concept_id", "name_id", "name", "language", "source")

BORROWED = pa.schema(
    [
        ("concept_id", pa.string()),
        ("name_id", pa.int64()),
        ("name", pa.string()),
        ("language", pa.string()),
        ("source", pa.string()),
        ("line", pa.int64()),
    ]
)
"""Names with the concept that borrows them, and the line of the relation."""


class MrrelFormat:
    """MRREL.RRF: 16 columns, each followed by `|`; only relations of trade names are taken."""

    boundary = b"\n"

    def parse(self, block: Block, file: str) -> Parsed:
        """Parse whole lines. Rows with another number of columns, or an empty CUI1 or CUI2, are rejected."""
        rows = read_rows(block, file, "|", MRREL_COLUMNS, ["CUI1", "CUI2", "RELA"], closed=True)
        rows.reject_blank("CUI1", "first concept id (CUI1)")
        rows.reject_blank("CUI2", "second concept id (CUI2)")
        table = rows.table.append_column("line", pa.array(rows.lines))
        table = table.filter(pc.is_in(table["RELA"], pa.array(TRADENAME_RELATIONS)))
        relations = pa.table([table["CUI2"], table["CUI1"], table["line"]], schema=RELATIONS)
        return Parsed(relations=relations, rejects=rows.rejects, passed_over=len(rows.lines) - relations.num_rows)


def borrow(names: pa.Table, relations: pa.Table) -> pa.Table:
    """Return the names (schema BORROWED) that heads may borrow from the concepts of a part of the names dataset.

    Args:
        names: the part, with `NAME_COLUMNS`.
        relations: all relations (schema RELATIONS) whose tails may lie in the part, in any order.
    """
    last = relations.group_by(["concept_id", "head"]).aggregate([("line", "max")])
    found = last.join(names.select(NAME_COLUMNS), keys="concept_id", join_type="inner", use_threads=False)
    columns = [found["head"], *(found[name] for name in NAME_COLUMNS[1:]), found["line_max"]]
    keys = [(name, "ascending") for name in ("concept_id", "line", "name_id", "name", "language", "source")]
    return pa.table(columns, schema=BORROWED).sort_by(keys)


def chosen(borrowed: pa.Table, mode: Tradenames) -> pa.Table:
    """Return of the names that heads may borrow those that they do; all that concern a head must be there."""
    if mode == "all" or not borrowed.num_rows:
        return borrowed
    last = borrowed.group_by("concept_id").aggregate([("line", "max")])["line_max"]
    return borrowed.filter(pc.is_in(borrowed["line"], last))  # a line has one head, so lines tell heads apart
