"""Gene tables: HGNC's complete set and custom downloads, and NCBI's gene_info, as one kind of record."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from biomodels.errors import InputError
from biomodels.terminology.blocks import read_chunks

HUMAN = "9606"


@dataclass(frozen=True)
class Gene:
    """What a gene is called. Strings are as in the table."""

    hgnc_id: str
    symbol: str
    name: str
    aliases: tuple[str, ...] = ()
    previous: tuple[str, ...] = ()
    alias_names: tuple[str, ...] = ()
    previous_names: tuple[str, ...] = ()
    entrez_id: str | None = None


@dataclass(frozen=True)
class _Table:
    """How a table of one kind is read."""

    marks: tuple[str, ...]
    """Columns by which it is known."""
    gene: Callable[[Mapping[str, str]], Gene | None]
    """Make a gene of a row; None for a row that is no gene in use."""


def read_genes(uris: Iterable[str]) -> dict[str, Gene]:
    """Read one or more gene tables (TSV or CSV, plain or gzip).

    Forms, known by their header: HGNC's complete set (`hgnc_id`, `symbol`, …; lists joined by `|`), HGNC's custom
    downloads (`HGNC ID`, `Approved symbol`, …; lists joined by `, `), NCBI's gene_info (`#tax_id`, `GeneID`, …). Genes
    that are withdrawn, not human, or not HGNC's are passed over.

    Returns:
        HGNC id → gene. Of a gene that is in several tables, symbol and name are the first one's, lists are united.

    Raises:
        InputError: a table has none of these forms, or no gene.
    """
    genes: dict[str, Gene] = {}
    for uri in uris:
        found = list(_read_table(uri))
        if not found:
            raise InputError.at(uri, None, "holds no gene in use", "give a gene table of HGNC or NCBI")
        for gene in found:
            known = genes.get(gene.hgnc_id)
            genes[gene.hgnc_id] = gene if known is None else _unite(known, gene)
    return genes


def _read_table(uri: str) -> Iterator[Gene]:
    text = io.StringIO(b"".join(read_chunks(uri, 1 << 20)).decode("utf-8", errors="replace"), newline="")
    first = text.readline()
    text.seek(0)
    delimiter = "\t" if "\t" in first else ","
    # Custom downloads quote the items of a list, not the cell.
    quoting = csv.QUOTE_NONE if first.startswith(("#", "HGNC ID")) else csv.QUOTE_MINIMAL
    # quoting is one of csv's constants
    reader = csv.DictReader(text, delimiter=delimiter, quoting=quoting)  # type: ignore[call-overload]
    columns = [name.strip() for name in reader.fieldnames or []]
    reader.fieldnames = columns
    table = next((table for table in _TABLES if set(table.marks) <= set(columns)), None)
    if table is None:
        shown = ", ".join(columns[:4]) or "nothing"
        raise InputError.at(
            uri, 1, f"is no known gene table (columns: {shown}, …)", "give HGNC's complete set or NCBI's gene_info"
        )
    for row in reader:
        if any(row.get(mark) is None for mark in table.marks):
            raise InputError.at(uri, reader.line_num, "has too few columns", "mend the row or fetch the table again")
        if gene := table.gene(row):
            yield gene


def _complete_set(row: Mapping[str, str]) -> Gene | None:
    if row.get("status", "Approved") != "Approved":
        return None
    return Gene(
        hgnc_id=row["hgnc_id"],
        symbol=row["symbol"],
        name=row["name"],
        aliases=_items(row.get("alias_symbol")),
        previous=_items(row.get("prev_symbol")),
        alias_names=_items(row.get("alias_name")),
        previous_names=_items(row.get("prev_name")),
        entrez_id=_known(row.get("entrez_id")),
    )


def _custom_download(row: Mapping[str, str]) -> Gene | None:
    if row.get("Status", "Approved") != "Approved":
        return None
    entrez = row.get("NCBI Gene ID(supplied by NCBI)") or row.get("NCBI Gene ID")
    return Gene(
        hgnc_id=row["HGNC ID"],
        symbol=row["Approved symbol"],
        name=row["Approved name"],
        aliases=_items(row.get("Alias symbols"), ", "),
        previous=_items(row.get("Previous symbols"), ", "),
        alias_names=_quoted_items(row.get("Alias names")),
        previous_names=_quoted_items(row.get("Previous names") or row.get("Previous name")),
        entrez_id=_known(entrez),
    )


def _gene_info(row: Mapping[str, str]) -> Gene | None:
    hgnc = re.search(r"HGNC:(\d+)", row["dbXrefs"])
    if row["#tax_id"] != HUMAN or hgnc is None:
        return None
    symbol = _known(row.get("Symbol_from_nomenclature_authority")) or row["Symbol"]
    synonyms = tuple(name for name in _items(row["Synonyms"]) if name != symbol)
    return Gene(
        hgnc_id=f"HGNC:{hgnc[1]}",
        symbol=symbol,
        name=_known(row.get("Full_name_from_nomenclature_authority")) or row["description"],
        aliases=synonyms,
        alias_names=_items(row.get("Other_designations")),
        entrez_id=row["GeneID"],
    )


_TABLES = (
    _Table(("hgnc_id", "symbol", "name"), _complete_set),
    _Table(("HGNC ID", "Approved symbol", "Approved name"), _custom_download),
    _Table(("#tax_id", "GeneID", "Symbol", "Synonyms", "dbXrefs", "description"), _gene_info),
)


def _known(cell: str | None) -> str | None:
    """Return a cell's content, or None where it says that there is none."""
    plain = (cell or "").strip()
    return plain if plain not in ("", "-", "NA") else None


def _items(cell: str | None, separator: str = "|") -> tuple[str, ...]:
    plain = _known(cell)
    return tuple(item.strip() for item in plain.split(separator) if item.strip()) if plain else ()


def _quoted_items(cell: str | None) -> tuple[str, ...]:
    """Return the names of a list whose items may hold commas and then stand in quotes."""
    plain = _known(cell)
    if plain is None:
        return ()
    return tuple(item.strip() for item in next(csv.reader([plain], skipinitialspace=True)) if item.strip())


def _unite(one: Gene, other: Gene) -> Gene:
    def both(name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*getattr(one, name), *getattr(other, name))))

    lists = ("aliases", "previous", "alias_names", "previous_names")
    united: dict[str, tuple[str, ...]] = {name: both(name) for name in lists}
    # the fields that are united are tuples, given by name
    return replace(one, entrez_id=one.entrez_id or other.entrez_id, **united)  # type: ignore[arg-type]
