"""Gene2Phenotype exports: CSV files of (gene, disease, inheritance, mechanism) entries, by layout.

Exports since February 2025 have G2P ids. Columns were renamed in 2026: "molecular mechanism categorisation" became
"molecular mechanism support", and the old name now means something else. Older exports have no ids and other
vocabularies; they are read only when their layout is named.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from biomodels.artifacts import digest_json
from biomodels.errors import InputError, UsageError
from biomodels.schemas import THREAD_FIELDS
from biomodels.terminology.blocks import read_chunks

CELL_CHARACTERS = 1 << 24

_G2P_ID = re.compile(r"G2P\d{5,}")
_HGNC_ID = re.compile(r"(?:HGNC:)?(\d+)")
_LIST = re.compile(r"\s*;\s*")

_COLUMNS = {name: name.replace("_", " ") for name in THREAD_FIELDS} | {"disease_mondo": "disease mondo"}
_LISTS = {"phenotypes": "phenotypes", "publications": "publications", "panels": "panel"}


@dataclass(frozen=True)
class Entry:
    """One row of an export. `values` has the thread's fields; a blank cell is None, all else is verbatim."""

    values: Mapping[str, str | None]
    phenotypes: list[str]
    publications: list[int]
    panels: list[str]
    unreadable_publications: int = 0

    @property
    def g2p_id(self) -> str:
        """The entry's id."""
        return self.values["g2p_id"] or ""


@dataclass(frozen=True)
class Layout:
    """Where the fields are. Column names are lower case."""

    columns: Mapping[str, tuple[str, ...]]
    """Field → the names that its column may have; the first one that is there counts."""
    constants: tuple[str, ...] = ()
    """Fields that the layout does not have; they stay blank."""
    convert: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    """Field → what brings its cells into today's vocabulary."""
    lists: Mapping[str, str] = field(default_factory=lambda: _LISTS)


def _renamed(**names: str) -> Callable[[str], str]:
    """Return the function that replaces whole items of a list in one cell."""
    table = {old.replace("_", " ").lower(): new for old, new in names.items()}

    def convert(cell: str) -> str:
        return "; ".join(table.get(item.replace("_", " ").lower(), item) for item in _LIST.split(cell) if item)

    return convert


CURRENT = Layout(
    {name: (column,) for name, column in _COLUMNS.items()}
    | {
        "variant_consequence": ("variant consequence", "inferred variant consequence"),
        "molecular_mechanism_support": ("molecular mechanism support", "molecular mechanism categorisation"),
    }
)
"""The exports since February 2025."""

_LEGACY = {
    **{name: (_COLUMNS[name],) for name in ("gene_symbol", "gene_mim", "hgnc_id", "disease_name", "disease_mim")},
    "previous_gene_symbols": ("prev symbols",),
    "allelic_requirement": ("allelic requirement",),
    "variant_consequence": ("mutation consequence",),
}
_LEGACY_LISTS = _LISTS | {"publications": "pmids"}
_LEGACY_CONVERT: dict[str, Callable[[str], str]] = {
    "disease_mim": _renamed(No_disease_mim=""),
    "previous_gene_symbols": _renamed(),
    "variant_consequence": _renamed(),
    "allelic_requirement": _renamed(
        monoallelic_X_hem="monoallelic_X_hemizygous",
        monoallelic_X_het="monoallelic_X_heterozygous",
        monoallelic_Y_hem="monoallelic_Y_hemizygous",
    ),
}

LEGACY = {
    "2025-01": Layout(
        _LEGACY
        | {
            "confidence": ("confidence category",),
            "cross_cutting_modifier": ("cross cutting modifier",),
            "variant_types": ("variant consequence",),
            "disease_mondo": ("disease ontology",),
        },
        ("g2p_id", "molecular_mechanism", "molecular_mechanism_support"),
        _LEGACY_CONVERT
        | {
            "cross_cutting_modifier": _renamed(
                potential_IF="potential secondary finding", imprinted="imprinted region"
            ),
            "variant_types": _renamed(),
        },
        _LEGACY_LISTS,
    ),
    "2021": Layout(
        _LEGACY | {"confidence": ("ddd category",)},
        (
            *("g2p_id", "cross_cutting_modifier", "variant_types", "disease_mondo"),
            *("molecular_mechanism", "molecular_mechanism_support"),
        ),
        _LEGACY_CONVERT | {"confidence": _renamed(confirmed="definitive", probable="strong", possible="limited")},
        _LEGACY_LISTS,
    ),
}
"""Layouts without G2P ids, by the name of the option that maps them."""

LAYOUTS = ("auto", *LEGACY)


def read_g2p(uri: str, layout: str = "auto") -> list[Entry]:
    """Read an export, plain or gzip.

    Args:
        uri: the CSV file.
        layout: "auto" for one with G2P ids, else a key of `LEGACY`, whose entries get ids made from their content.

    Returns:
        The entries, sorted by id.

    Raises:
        InputError: a column is missing, a row has another width, an id or an HGNC id is malformed, an id occurs twice,
            or the export has an older layout that was not named.
        UsageError: there is no such layout.
    """
    if layout not in LAYOUTS:
        raise UsageError(f"layout {layout!r}: choose one of {', '.join(LAYOUTS)}")
    rows = _rows(uri)
    line, cells = next(rows, (1, []))
    header = [re.sub(r"\s+", " ", cell).strip().lower() for cell in cells]
    if repeated := next((name for name in header if header.count(name) > 1), None):
        raise InputError.at(uri, line, f"has two columns {repeated!r}", "mend the header")
    if layout == "auto":
        _refuse_legacy(header, uri)
    chosen = CURRENT if layout == "auto" else LEGACY[layout]
    places = _places(chosen, header, uri)
    entries: dict[str, Entry] = {}
    for line, cells in rows:
        if len(cells) != len(header):
            raise InputError.at(uri, line, f"has {len(cells)} cells where {len(header)} are needed", "mend the row")
        entry = _entry(chosen, places, cells, uri, line)
        if entry.g2p_id in entries:
            raise InputError.at(uri, line, f"has {entry.g2p_id} a second time", "keep one of the two rows")
        entries[entry.g2p_id] = entry
    if not entries:
        raise InputError.at(uri, None, "holds no entry", "give a Gene2Phenotype export")
    return [entries[g2p_id] for g2p_id in sorted(entries)]


def _rows(uri: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not empty, with the number of the line in which each one ends."""
    try:
        text = b"".join(read_chunks(uri, 1 << 20)).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError.at(uri, None, f"is not UTF-8 at byte {error.start + 1}", "convert it to UTF-8") from error
    csv.field_size_limit(CELL_CHARACTERS)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        raise InputError.at(uri, reader.line_num, f"is no CSV ({error})", "mend its quotes") from error


def _refuse_legacy(header: list[str], uri: str) -> None:
    if "g2p id" in header:
        return
    for name, layout in LEGACY.items():
        if all(columns[0] in header for columns in layout.columns.values()):
            raise InputError.at(
                uri, 1, f"has the layout of {name}, without G2P ids", f"--layout {name} maps it, with ids of our own"
            )
    if "gene symbol" in header and "hgnc id" not in header:
        raise InputError.at(uri, 1, "has a layout of before 2021, without HGNC ids", "give a newer export")


def _places(layout: Layout, header: list[str], uri: str) -> dict[str, int]:
    """Return the column number of each field and list."""
    wanted = dict(layout.columns) | {name: (column,) for name, column in layout.lists.items()}
    places = {
        name: header.index(found)
        for name, columns in wanted.items()
        if (found := next((column for column in columns if column in header), None)) is not None
    }
    missing = [wanted[name][0] for name in wanted if name not in places]
    if missing:
        raise InputError.at(
            uri, 1, f"lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}", "give a whole export"
        )
    return places


def _entry(layout: Layout, places: Mapping[str, int], cells: list[str], uri: str, line: int) -> Entry:
    values: dict[str, str | None] = dict.fromkeys(THREAD_FIELDS)
    for name in layout.columns:
        cell = cells[places[name]]
        values[name] = layout.convert.get(name, str)(cell) or None
    hgnc = _HGNC_ID.fullmatch(values["hgnc_id"] or "")
    if hgnc is None and values["hgnc_id"]:
        raise InputError.at(uri, line, f"has {values['hgnc_id']!r} where an HGNC id is needed", "write HGNC:1234")
    values["hgnc_id"] = f"HGNC:{hgnc[1]}" if hgnc else None
    if "g2p_id" in layout.constants:
        values["g2p_id"] = "LEGACY" + digest_json(values)[:10]
    elif not _G2P_ID.fullmatch(values["g2p_id"] or ""):
        raise InputError.at(uri, line, f"has {values['g2p_id']!r} where a G2P id is needed", "write G2P00001")
    listed = {name: [item for item in _LIST.split(cells[places[name]].strip()) if item] for name in layout.lists}
    numbers = [int(item) for item in listed["publications"] if item.isascii() and item.isdigit()]
    return Entry(values, listed["phenotypes"], numbers, listed["panels"], len(listed["publications"]) - len(numbers))
