"""The dictionary of a names dataset as text, one `id||name` a line, and names read from such a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import numpy as np
import pyarrow as pa

from biomodels.artifacts import Artifact
from biomodels.terminology.blocks import Block
from biomodels.terminology.double_bar import SEPARATOR, write_lines
from biomodels.terminology.languages import UNKNOWN_LANGUAGE
from biomodels.terminology.names import group_numbers, run_starts
from biomodels.terminology.normalise import Normaliser
from biomodels.terminology.records import RECORDS, Parsed
from biomodels.terminology.rejects import Reject
from biomodels.terminology.visible import name_fault


class DictionaryFormat:
    """A file of `id||name` lines. It names no language, source or term type, and prefers no name."""

    boundary = b"\n"

    def parse(self, block: Block, file: str) -> Parsed:
        """Parse whole lines; blank ones are skipped, and white space around a field is dropped.

        Rejected are undecodable lines, those with another number of fields, and those without an id or with a name
        that shows nothing or holds a NUL.
        """
        found: list[tuple[str, str]] = []
        rejects: list[Reject] = []
        for number, line in enumerate(block.data.split(b"\n"), start=block.first_line):
            if not line.strip():
                continue
            try:
                fields = [field.strip() for field in line.decode("utf-8").split(SEPARATOR)]
            except UnicodeDecodeError as error:
                rejects.append(Reject.of(file, number, f"is not UTF-8 at byte {error.start + 1} of the line", line))
                continue
            if fault := _fault(fields):
                rejects.append(Reject.of(file, number, fault, line))
            else:
                found.append((fields[0], fields[1]))
        concepts, names = zip(*found, strict=True) if found else ((), ())
        count = len(found)
        columns = [
            *(pa.array(concepts, pa.string()), pa.array(names, pa.string())),
            *(pa.repeat(value, count) for value in (UNKNOWN_LANGUAGE, "", "")),
            *(pa.array(np.zeros(count, dtype=kind)) for kind in (np.int16, np.int8)),
        ]
        return Parsed(records=pa.table(columns, schema=RECORDS), rejects=rejects)


def write_dictionary_text(names: Artifact, sink: IO[bytes]) -> tuple[int, int]:
    """Write each concept's distinct normalised names, in the dataset's order; see `write_lines`.

    Returns:
        How many lines were written, and how many entries have no such form.
    """
    return write_lines(_entries(names), sink)


def _fault(fields: list[str]) -> str | None:
    if len(fields) != 2:
        return f"has {len(fields)} field{'' if len(fields) == 1 else 's'} around '||' where 2 are needed"
    return name_fault(fields[1]) if fields[0] else "has an empty concept id"


def _entries(names: Artifact) -> Iterator[list[pa.Array]]:
    normaliser = Normaliser.from_name(names.facts["normaliser"])
    for entry in names.files("part-"):
        table = names.read_table(entry, ["concept_id", "name_id", "name"]).combine_chunks()
        concepts, ids = group_numbers(table["concept_id"]), table["name_id"].to_numpy()
        order = np.lexsort((ids, concepts))  # stable, so that the first of equal rows stays the first
        distinct = table.take(pa.array(np.sort(order[run_starts(concepts[order], ids[order])])))
        yield [distinct["concept_id"].combine_chunks(), normaliser.column(distinct["name"])]
