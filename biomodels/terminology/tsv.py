"""Names from a tab-separated file with a header line: the form for a terminology of one's own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from biomodels.errors import InputError
from biomodels.terminology.blocks import Block, head_lines
from biomodels.terminology.delimited import iso_codes, read_rows
from biomodels.terminology.languages import UNKNOWN_LANGUAGE
from biomodels.terminology.records import RECORDS, TYPES, Parsed

REQUIRED = ("concept_id", "name")
OPTIONAL = ("language", "source", "term_type", "preferred", "semantic_types")
TRUE, FALSE = ("1", "true", "yes", "y", "t"), ("0", "false", "no", "n", "f", "")
TYPE_SEPARATOR = "|"


@dataclass(frozen=True)
class TsvFormat:
    """A TSV file with the columns of its header, in the header's order.

    `concept_id` and `name` are required; `language` (any code that `to_iso` takes; "und" if absent), `source`,
    `term_type`, `preferred` (1/0, true/false, yes/no) and `semantic_types` (joined by `|`) are optional; other columns
    are ignored. There is no quoting.
    """

    columns: tuple[str, ...]
    boundary = b"\n"

    @classmethod
    def of(cls, uri: str) -> TsvFormat:
        """Read the header of a file.

        Raises:
            InputError: a required column is missing, or a column stands twice.
        """
        try:
            header = next(head_lines(uri), b"").decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError.at(uri, 1, f"the header is not UTF-8 ({error})", "save the file as UTF-8") from error
        columns = tuple(name.strip() for name in header.split("\t"))
        if missing := [name for name in REQUIRED if name not in columns]:
            remedy = f"the header must name {', '.join(REQUIRED)}, and may name {', '.join(OPTIONAL)}"
            raise InputError.at(uri, 1, f"the header lacks {', '.join(missing)} (it has: {', '.join(columns)})", remedy)
        if len(set(columns)) != len(columns):
            raise InputError.at(uri, 1, "the header names a column twice", "give each column its own name")
        return cls(columns)

    def parse(self, block: Block, file: str) -> Parsed:
        """Parse whole lines; the first line of the file is the header."""
        if block.first_line == 1:
            block = Block(block.index, 2, block.data.partition(b"\n")[2])
        wanted = [name for name in (*REQUIRED, *OPTIONAL) if name in self.columns]
        rows = read_rows(block, file, "\t", self.columns, wanted, closed=False)
        rows.reject_blank("concept_id", "concept_id")
        rows.reject_blank("name", "name")
        rows.reject_nul("name", "name")
        if "language" in self.columns:
            rows.reject_where(pc.is_null(iso_codes(rows.table["language"])), "has a language that is no language code")
        if "preferred" in self.columns:
            known = pc.is_in(_lowered(rows.table), pa.array([*TRUE, *FALSE]))
            rows.reject_where(pc.invert(known), "has a preferred other than 1, 0, true, false, yes, no")
        table = rows.table
        count = table.num_rows
        none = pa.repeat("", count)
        rank = np.zeros(count, dtype=np.int16)
        if "preferred" in self.columns:
            rank += pc.is_in(_lowered(table), pa.array(FALSE)).to_numpy().astype(np.int16)
        columns = [
            table["concept_id"],
            table["name"],
            iso_codes(table["language"]) if "language" in self.columns else pa.repeat(UNKNOWN_LANGUAGE, count),
            table["source"] if "source" in self.columns else none,
            table["term_type"] if "term_type" in self.columns else none,
            rank,
            np.zeros(count, dtype=np.int8),
        ]
        records = pa.table(columns, schema=RECORDS)
        types = _types(table) if "semantic_types" in self.columns else TYPES.empty_table()
        return Parsed(records=records, types=types, rejects=rows.rejects)


def _lowered(table: pa.Table) -> pa.ChunkedArray:
    return pc.utf8_lower(pc.utf8_trim_whitespace(table["preferred"]))


def _types(table: pa.Table) -> pa.Table:
    """Return one row per (concept, semantic type)."""
    lists = pc.split_pattern(table["semantic_types"], TYPE_SEPARATOR).combine_chunks()
    owners = table["concept_id"].combine_chunks().take(pc.list_parent_indices(lists))
    types = pc.utf8_trim_whitespace(lists.flatten())
    return pa.table([owners, types], schema=TYPES).filter(pc.not_equal(types, ""))
