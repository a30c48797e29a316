"""Gene2Phenotype entries of one gene: siblings, and those that no abstract can tell apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Entry(NamedTuple):
    """What decides whether two entries are siblings, or interchangeable."""

    g2p_id: str
    gene: str
    disease: str
    allelic_requirement: str


def siblings(entries: Iterable[Entry]) -> dict[str, list[str]]:
    """Return each entry's gene mates, itself included, sorted."""
    by_gene: dict[str, list[str]] = {}
    gene_of: dict[str, str] = {}
    for entry in entries:
        by_gene.setdefault(entry.gene, []).append(entry.g2p_id)
        gene_of[entry.g2p_id] = entry.gene
    return {g2p_id: sorted(by_gene[gene]) for g2p_id, gene in gene_of.items()}


def interchangeable(first: Entry, second: Entry) -> bool:
    """Say whether no abstract can tell two entries apart: X-linked ones of one gene and one disease name that differ
    only in zygosity (hemizygous or heterozygous)."""
    return (
        first.gene == second.gene
        and first.disease.casefold() == second.disease.casefold()
        and first.allelic_requirement != second.allelic_requirement
        and all(entry.allelic_requirement.startswith("monoallelic_X_he") for entry in (first, second))
    )
