"""Names and semantic types of a UMLS release: MRCONSO.RRF and MRSTY.RRF (UMLS Reference Manual, chapter 3.3)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from biomodels.terminology.blocks import Block
from biomodels.terminology.delimited import iso_codes, read_rows
from biomodels.terminology.records import ACTIVE, OBSOLETE, RECORDS, SUPPRESSED, TYPES, Parsed

MRCONSO_COLUMNS = (
    *("CUI", "LAT", "TS", "LUI", "STT", "SUI", "ISPREF", "AUI", "SAUI"),
    *("SCUI", "SDUI", "SAB", "TTY", "CODE", "STR", "SRL", "SUPPRESS", "CVF"),
)
MRSTY_COLUMNS = ("CUI", "TUI", "STN", "STY", "ATUI", "CVF")

STATES = {"N": ACTIVE, "E": SUPPRESSED, "Y": SUPPRESSED, "O": OBSOLETE}
"""SUPPRESS: no, by an editor, by the source's or term type's rule, obsolete."""

OUT_OF_USE = 16
"""Added to the rank of a name that is suppressed or obsolete, which puts it behind all others."""


class MrconsoFormat:
    """MRCONSO.RRF: 18 columns, each followed by `|`."""

    boundary = b"\n"

    def parse(self, block: Block, file: str) -> Parsed:
        """Parse whole lines.

        Rejected are rows with another number of columns, undecodable bytes, an empty CUI or STR, a NUL in STR, a LAT
        that is no language code, or an unknown SUPPRESS. A name's rank is the sum of 8 unless TS=P, 4 unless STT=PF, 2
        unless ISPREF=Y, 1 unless it is English, and `OUT_OF_USE`.
        """
        wanted = ["CUI", "LAT", "TS", "STT", "ISPREF", "SAB", "TTY", "STR", "SUPPRESS"]
        rows = read_rows(block, file, "|", MRCONSO_COLUMNS, wanted, closed=True)
        rows.reject_blank("CUI", "concept id (CUI)")
        rows.reject_blank("STR", "name (STR)")
        rows.reject_nul("STR", "name (STR)")
        language = iso_codes(rows.table["LAT"])
        rows.reject_where(pc.is_null(language), "has a LAT that is no language code")
        known = pc.is_in(rows.table["SUPPRESS"], pa.array(list(STATES)))
        rows.reject_where(pc.invert(known), "has a SUPPRESS other than N, O, E, Y")
        table = rows.table
        language = iso_codes(rows.table["LAT"])
        state = np.zeros(table.num_rows, dtype=np.int8)
        for code, value in STATES.items():
            state[_equal(table["SUPPRESS"], code)] = value
        rank = (
            8 * ~_equal(table["TS"], "P")
            + 4 * ~_equal(table["STT"], "PF")
            + 2 * ~_equal(table["ISPREF"], "Y")
            + 1 * ~_equal(language, "en")
            + OUT_OF_USE * (state != ACTIVE)
        )
        columns = [table["CUI"], table["STR"], language, table["SAB"], table["TTY"], rank.astype(np.int16), state]
        return Parsed(records=pa.table(columns, schema=RECORDS), rejects=rows.rejects)


class MrstyFormat:
    """MRSTY.RRF: 6 columns, each followed by `|`; only CUI and TUI are used."""

    boundary = b"\n"

    def parse(self, block: Block, file: str) -> Parsed:
        """Parse whole lines. Rows with another number of columns, or an empty CUI or TUI, are rejected."""
        rows = read_rows(block, file, "|", MRSTY_COLUMNS, ["CUI", "TUI"], closed=True)
        rows.reject_blank("CUI", "concept id (CUI)")
        rows.reject_blank("TUI", "semantic type (TUI)")
        return Parsed(types=rows.table.rename_columns(TYPES.names).cast(TYPES), rejects=rows.rejects)


def _equal(column: pa.Array | pa.ChunkedArray, value: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = pc.equal(column, value).to_numpy(zero_copy_only=False)
    return found
