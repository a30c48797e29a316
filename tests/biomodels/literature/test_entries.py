"""Siblings and interchangeable entries."""

from __future__ import annotations

from biomodels.literature.entries import Entry, interchangeable, siblings

HEM = Entry("G2P1", "HGNC:8806", "PDHA1-related PDH deficiency", "monoallelic_X_hemizygous")
HET = Entry("G2P2", "HGNC:8806", "PDHA1-related PDH Deficiency", "monoallelic_X_heterozygous")


def test_siblings_are_the_entries_of_one_gene():
    alone = Entry("G2P9", "HGNC:1", "x", "biallelic_autosomal")
    assert siblings([HET, alone, HEM]) == {"G2P1": ["G2P1", "G2P2"], "G2P2": ["G2P1", "G2P2"], "G2P9": ["G2P9"]}


def test_only_zygosity_on_the_x_chromosome_is_interchangeable():
    assert interchangeable(HEM, HET)
    assert interchangeable(HEM._replace(allelic_requirement="monoallelic_X_hem"), HET)
    assert not interchangeable(HEM, HET._replace(disease="another"))
    assert not interchangeable(HEM, HET._replace(gene="HGNC:2"))
    assert not interchangeable(HEM, HET._replace(allelic_requirement="biallelic_autosomal"))
    assert not interchangeable(HEM, HEM._replace(g2p_id="G2P3"))
