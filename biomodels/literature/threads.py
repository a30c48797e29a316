"""Threads: the text of a Gene2Phenotype entry that a cross-encoder reads beside an abstract.

A rendering is written down as a `Renderer`, whose digest goes into every dataset and model that reads its texts: what a
model was trained on and what it is asked about are the same bytes, or the digests differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, ConfigDict

from biomodels.artifacts import digest_json
from biomodels.errors import InputError
from biomodels.literature.g2p import Entry
from biomodels.schemas import THREAD_FIELDS

Rendering = Literal["flat", "genename", "context"]

FLOAT_FIELDS = ("gene_mim",)
"""Columns that pandas reads as floats, since some cell of theirs is blank and all others are numbers."""

BLANK_CELLS = (
    *("", " ", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"),
    *("NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
"""What pandas.read_csv reads as missing."""

_CONTEXT = (
    ("G2P ID", "g2p_id"),
    ("Gene Symbol", "gene_symbol"),
    ("Disease Name", "disease_name"),
    ("Previous Gene Symbols (former names of this gene, not disease names)", "previous_gene_symbols"),
    ("Disease Synonyms", "disease_synonyms"),
    ("Disease Definition", "disease_definition"),
    ("Phenotypes", "phenotypes"),
    ("Allelic Requirement", "allelic_requirement"),
    ("Molecular Mechanism", "molecular_mechanism"),
    ("Variant Consequence", "variant_consequence"),
)


@dataclass(frozen=True)
class Knowledge:
    """What renderings say beyond the export."""

    gene_names: Mapping[str, str] = field(default_factory=dict)
    """HGNC id → the gene's full name."""
    phenotype_names: Mapping[str, str] = field(default_factory=dict)
    """HPO id → name."""
    disease_synonyms: Mapping[str, list[str]] = field(default_factory=dict)
    """MONDO id → exact synonyms."""
    disease_definitions: Mapping[str, str] = field(default_factory=dict)
    """MONDO id → definition."""


class Renderer(BaseModel):
    """The written form of a rendering. Equal digests mean equal texts for equal entries.

    Three renderings: "flat" joins the fields by " - "; "genename" has the gene's full name after its previous symbols;
    "context" has a line for each thing that is known. In the first two a blank is `nan` and the cells of
    `float_fields` end in `.0`: so does pandas write the export back, and so were published models trained.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rendering: Rendering = "flat"
    fields: tuple[str, ...] = THREAD_FIELDS
    separator: str = " - "
    blank: str = "nan"
    blank_cells: tuple[str, ...] = BLANK_CELLS
    float_fields: tuple[str, ...] = FLOAT_FIELDS
    sources: dict[str, str] = {}
    """Role → digest of the files that `Knowledge` was read from."""

    @property
    def digest(self) -> str:
        """The identity of the rendering."""
        return digest_json(self.model_dump(mode="json"))

    def render(self, entry: Entry, knowledge: Knowledge | None = None) -> str:
        """Return the text of an entry.

        Raises:
            InputError: a cell of `float_fields` is no number.
        """
        known = knowledge or Knowledge()
        if self.rendering == "context":
            return self._context(entry, known)
        cells = {name: self._cell(name, entry) for name in self.fields}
        if self.rendering == "genename":
            cells["previous_gene_symbols"] += self.separator + (
                known.gene_names.get(entry.values["hgnc_id"] or "") or self.blank
            )
        return self.separator.join(cells[name] for name in self.fields)

    def _cell(self, name: str, entry: Entry) -> str:
        value = entry.values[name]
        if value is None or value in self.blank_cells:
            return self.blank
        if name in self.float_fields:
            if not (value.isascii() and value.isdigit()):
                raise InputError(
                    f"{entry.g2p_id}: {name} is {value!r}, which is no whole number; "
                    "mend it, or leave the column out of --float-fields"
                )
            return f"{int(value)}.0"
        return value

    def _context(self, entry: Entry, known: Knowledge) -> str:
        """Return a line for each field that is not blank."""
        mondo = entry.values["disease_mondo"] or ""
        found: dict[str, str | None] = dict(entry.values) | {
            "disease_synonyms": "; ".join(known.disease_synonyms.get(mondo, [])),
            "disease_definition": known.disease_definitions.get(mondo),
            "phenotypes": "; ".join(known.phenotype_names.get(code, code) for code in entry.phenotypes),
        }
        lines = [(title, found[name]) for title, name in _CONTEXT]
        return "\n".join(f"{title}: {value}" for title, value in lines if value and value not in self.blank_cells)


def parse_flat(text: str, renderer: Renderer) -> dict[str, str | None]:
    """Take a flat thread apart again.

    Raises:
        InputError: it has not as many fields as the rendering.
    """
    cells = text.split(renderer.separator)
    if len(cells) != len(renderer.fields):
        raise InputError(f"{text[:60]!r}… has {len(cells)} fields, not {len(renderer.fields)}; is it a flat thread?")
    values: dict[str, str | None] = {}
    for name, cell in zip(renderer.fields, cells, strict=True):
        plain = cell.removesuffix(".0") if name in renderer.float_fields else cell
        values[name] = None if cell == renderer.blank else plain
    return values
