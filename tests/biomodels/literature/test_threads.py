"""Gene2Phenotype exports of every layout, and threads byte for byte."""

import csv
import gzip
import io

import pytest

from biomodels.errors import InputError, UsageError
from biomodels.literature.g2p import Entry, read_g2p
from biomodels.literature.threads import Knowledge, Renderer, parse_flat

HEADER_2025 = (
    "g2p id,gene symbol,gene mim,hgnc id,previous gene symbols,disease name,disease mim,disease MONDO,"
    "allelic requirement,cross cutting modifier,confidence,inferred variant consequence,variant types,"
    "molecular mechanism,molecular mechanism categorisation,molecular mechanism evidence,phenotypes,publications,panel,"
    "comments,date of last review"
)
NF1_2025 = (
    "G2P00410,NF1,613113,HGNC:7765,,NF1-related neurofibromatosis,162200,,monoallelic_autosomal,,definitive,"
    "absent gene product,,loss of function,inferred,,HP:0000007; HP:0001250,1; 22; NBK1,DD; Eye,,2025-01-28"
)
HEADER_2026 = (
    "g2p id,gene symbol,gene mim,hgnc id,previous gene symbols,disease name,disease mim,disease MONDO,"
    "allelic requirement,cross cutting modifier,confidence,variant consequence,variant types,molecular mechanism,"
    "molecular mechanism support,molecular mechanism categorisation,molecular mechanism evidence,phenotypes,"
    "publications,additional mined publications,panel,comments,date of last review,review"
)
NF1_2026 = (
    "G2P00410,NF1,613113,7765,,NF1-related neurofibromatosis,162200,,monoallelic_autosomal,,definitive,"
    'absent gene product,,loss of function,inferred,other,,"HP:0000007; HP:0001250",1; 22,3,DD,"a ""b"", c",2026,'
)
FLAT = (
    "G2P00410 - NF1 - 613113.0 - HGNC:7765 - nan - NF1-related neurofibromatosis - 162200 - nan - "
    "monoallelic_autosomal - nan - definitive - absent gene product - nan - loss of function - inferred"
)
HEADER_2025_01 = (
    '"gene symbol","gene mim","disease name","disease mim","confidence category","allelic requirement",'
    '"mutation consequence",phenotypes,"organ specificity list",pmids,panel,"prev symbols","hgnc id",'
    '"gene disease pair entry date","cross cutting modifier","mutation consequence flag","confidence value flag",'
    'comments,"variant consequence","disease ontology"'
)
OLD = (
    'ATR,601215,"A DISEASE","No disease mim",strong,monoallelic_X_hem,"uncertain;absent gene product",HP:1;HP:2,Eye,'
    '1;2,DD,"A1;B2",882,"2015-07-22","potential IF",,,,missense_variant;x,MONDO:1'
)


def read(tmp_path, *lines, layout="auto", newline="\n"):
    path = tmp_path / "g2p.csv"
    path.write_bytes(newline.join(lines).encode())
    return read_g2p(str(path), layout)


@pytest.mark.parametrize(("header", "row"), [(HEADER_2025, NF1_2025), (HEADER_2026, NF1_2026)])
def test_both_layouts_render_the_published_string(tmp_path, header, row):
    (entry,) = read(tmp_path, header, row, newline="\r\n")
    assert Renderer().render(entry) == FLAT
    assert entry.phenotypes == ["HP:0000007", "HP:0001250"] and entry.publications == [1, 22]
    assert entry.values["hgnc_id"] == "HGNC:7765"
    assert parse_flat(FLAT, Renderer()) == entry.values


def test_columns_may_come_in_any_order_and_case(tmp_path):
    names, cells = HEADER_2025.split(","), NF1_2025.split(",")
    header, row = (",".join(reversed(values)) for values in ([f" {name.upper()} " for name in names], cells))
    assert Renderer().render(read(tmp_path, header, row)[0]) == FLAT


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            [HEADER_2025.replace("molecular mechanism categorisation", "mechanism support"), NF1_2025],
            "categorisation|support",
        ),
        ([HEADER_2025.replace("hgnc id", "hgnc"), NF1_2025], "g2p.csv:1: lacks the column hgnc id"),
        ([HEADER_2025, NF1_2025, NF1_2025], "g2p.csv:3: has G2P00410 a second time"),
        ([HEADER_2025, NF1_2025 + ",x"], "g2p.csv:2: has 22 cells where 21"),
        ([HEADER_2025, NF1_2025.replace("G2P00410", "410")], "a G2P id is needed"),
        ([HEADER_2025, NF1_2025.replace("HGNC:7765", "NF1")], "an HGNC id is needed"),
        ([HEADER_2025.replace("panel", "comments"), NF1_2025], "two columns 'comments'"),
        ([HEADER_2025], "holds no entry"),
        ([""], "lacks the columns"),
        ([HEADER_2025, NF1_2025.replace("162200", '"162"200')], "is no CSV"),
        ([HEADER_2025_01, OLD], "--layout 2025-01 maps it"),
        (["gene symbol,gene mim,disease name,disease mim,DDD category", "A,1,B,2,c"], "before 2021, without HGNC ids"),
    ],
)
def test_bad_exports(tmp_path, lines, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, *lines)


def test_other_bad_input(tmp_path):
    with pytest.raises(UsageError, match="choose one of auto, 2025-01, 2021"):
        read(tmp_path, HEADER_2025, layout="2016")
    path = tmp_path / "latin.csv"
    path.write_bytes(HEADER_2025.encode() + b"\nG2P0\xe9")
    with pytest.raises(InputError, match="is not UTF-8"):
        read_g2p(str(path))
    (entry,) = read(tmp_path, HEADER_2025, NF1_2025.replace("613113", "MIM:613113"))
    with pytest.raises(InputError, match="--float-fields"):
        Renderer().render(entry)


def test_an_old_layout_is_mapped_when_it_is_named(tmp_path):
    (entry,) = read(tmp_path, HEADER_2025_01, OLD, layout="2025-01")
    (again,) = read(tmp_path, HEADER_2025_01, OLD, layout="2025-01")
    assert entry == again and entry.g2p_id.startswith("LEGACY")
    text = Renderer().render(entry).split(" - ", 1)[1]
    assert text == (
        "ATR - 601215.0 - HGNC:882 - A1; B2 - A DISEASE - nan - MONDO:1 - monoallelic_X_hemizygous - "
        "potential secondary finding - strong - uncertain; absent gene product - missense_variant; x - nan - nan"
    )


def test_other_renderings(tmp_path):
    (entry,) = read(tmp_path, HEADER_2025, NF1_2025.replace("162200,,", "162200,MONDO:7,"))
    known = Knowledge(
        gene_names={"HGNC:7765": "neurofibromin 1"},
        phenotype_names={"HP:0001250": "Seizure"},
        disease_synonyms={"MONDO:7": ["NF", "von R."]},
        disease_definitions={"MONDO:7": "A disease."},
    )
    genename = Renderer(rendering="genename", sources={"genes": "0"})
    assert " - HGNC:7765 - nan - neurofibromin 1 - NF1-related" in genename.render(entry, known)
    assert " - HGNC:7765 - nan - nan - NF1-related" in genename.render(entry)
    context = Renderer(rendering="context")
    assert context.render(entry, known).split("\n") == [
        "G2P ID: G2P00410",
        "Gene Symbol: NF1",
        "Disease Name: NF1-related neurofibromatosis",
        "Disease Synonyms: NF; von R.",
        "Disease Definition: A disease.",
        "Phenotypes: HP:0000007; Seizure",
        "Allelic Requirement: monoallelic_autosomal",
        "Molecular Mechanism: loss of function",
        "Variant Consequence: absent gene product",
    ]
    assert len({renderer.digest for renderer in (Renderer(), genename, context, Renderer(float_fields=()))}) == 4


def test_the_digest_of_the_published_rendering_is_fixed():
    assert Renderer().digest == "608c6b7e8a29ce42b97aae74f45739f8"


def test_every_annotated_thread_renders_again(shared_data, tmp_path):
    """Fields are taken from the published strings, written as an export, read and rendered: 13,980 equal strings."""
    with (shared_data / "literature" / "litdd_annotated_pmid.csv").open(encoding="utf-8", newline="") as stream:
        published = [row["g2p_lgmde"] for row in csv.DictReader(stream)]
    assert len(published) == 13_980
    parsed = {text: parse_flat(text, Renderer()) for text in published}
    columns = HEADER_2025.split(",")
    names = ["disease_mondo" if name == "disease MONDO" else name.replace(" ", "_") for name in columns]
    names[11], names[14] = "variant_consequence", "molecular_mechanism_support"
    sink = io.StringIO(newline="")
    writer = csv.writer(sink)
    writer.writerow(columns)
    for values in parsed.values():
        writer.writerow([values.get(name) or "" for name in names])
    path = tmp_path / "export.csv.gz"
    path.write_bytes(gzip.compress(sink.getvalue().encode()))
    rendered = {entry.g2p_id: Renderer().render(entry) for entry in read_g2p(str(path))}
    assert [rendered[parsed[text]["g2p_id"] or ""] for text in published] == published


def test_real_exports(shared_data):
    entries = read_g2p(str(shared_data / "literature" / "G2P_DD_2025-01-28_reconstructed.csv"))
    assert len(entries) == 2755 and len({entry.values["hgnc_id"] for entry in entries}) == 2446
    assert all(isinstance(entry, Entry) and Renderer().render(entry).count(" - ") >= 14 for entry in entries)
    legacy = read_g2p(str(shared_data / "literature" / "DDG2P_2025-01-28.csv.gz"), "2025-01")
    assert len(legacy) == 2755
