"""The job without Ray: threads as a dataset, by every rendering."""

import json
from pathlib import Path

import pytest

from biomodels.artifacts import digest_bytes
from biomodels.errors import ArtifactError, InputError, UsageError
from biomodels.literature.threads import Renderer
from ray_jobs.command import load
from ray_jobs.shard.threads import Config, main

HEADER = (
    "g2p id,gene symbol,gene mim,hgnc id,previous gene symbols,disease name,disease mim,disease MONDO,"
    "allelic requirement,cross cutting modifier,confidence,variant consequence,variant types,molecular mechanism,"
    "molecular mechanism support,molecular mechanism categorisation,molecular mechanism evidence,phenotypes,"
    "publications,additional mined publications,panel,comments,date of last review,review"
)
ROWS = (
    "G2P00002,BBB,,2,B1; B2,B disease,,MONDO:2,biallelic_autosomal,,strong,uncertain,,undetermined,inferred,,,"
    "HP:0000001,12; NBK1; 3,,DD; Eye,,,",
    "G2P00001,AAA,100,1,,A disease,200,,monoallelic_autosomal,,limited,uncertain,,undetermined,inferred,,,,,,DD,,,",
)


@pytest.fixture
def export(tmp_path) -> Path:
    path = tmp_path / "g2p.csv"
    path.write_text("\n".join([HEADER, *ROWS]) + "\n")
    return path


def shard(export, out, **options):
    return main(load(Config, None, {"g2p": str(export), "out": str(out), **options}))


def test_threads_of_an_export(export, tmp_path, capsys):
    threads = shard(export, tmp_path / "out")
    first, second = threads.read_table(threads.entry("part-00000.parquet")).to_pylist()
    assert first["text"] == (
        "G2P00001 - AAA - 100.0 - HGNC:1 - nan - A disease - 200 - nan - monoallelic_autosomal - nan - limited - "
        "uncertain - nan - undetermined - inferred"
    )
    assert first["text_digest"] == digest_bytes(first["text"].encode()) and first["disease_mondo"] is None
    assert second["publications"] == [12, 3] and second["panels"] == ["DD", "Eye"] and second["gene_mim"] is None
    assert second["renderer"] == threads.facts["renderer"] == Renderer().digest
    assert Renderer(**json.loads(Path(threads.uri, "renderer.json").read_bytes())).digest == Renderer().digest
    assert threads.facts["unreadable_publications"] == 1
    assert "2   of 2 genes" in capsys.readouterr().out
    assert shard(export, tmp_path / "again").manifest == threads.manifest
    export.write_text(export.read_text().replace("A disease", "Another"))
    with pytest.raises(ArtifactError, match="different: inputs"):
        shard(export, tmp_path / "out")


def test_renderings_that_need_more(export, tmp_path):
    genes = tmp_path / "genes.tsv"
    genes.write_text("hgnc_id\tsymbol\tname\tstatus\nHGNC:1\tAAA\ta gene\tApproved\n")
    named = shard(export, tmp_path / "named", rendering="genename", genes=str(genes))
    texts = named.read_table(named.entry("part-00000.parquet"))["text"].to_pylist()
    assert " - nan - a gene - A disease" in texts[0] and " - B1; B2 - nan - B disease" in texts[1]
    hpo, mondo = tmp_path / "hp.obo", tmp_path / "mondo.obo"
    hpo.write_text("[Term]\nid: HP:0000001\nname: Tall\n")
    mondo.write_text(
        '[Term]\nid: MONDO:2\nname: B\ndef: "A \\"B\\"  thing." [x]\nsynonym: "Bee" EXACT []\nsynonym: "C" BROAD []\n'
    )
    context = shard(export, tmp_path / "context", rendering="context", hpo=str(hpo), mondo=str(mondo))
    text = context.read_table(context.entry("part-00000.parquet"))["text"].to_pylist()[1]
    assert 'Disease Synonyms: Bee\nDisease Definition: A "B" thing.\nPhenotypes: Tall\n' in text
    assert len({named.facts["renderer"], context.facts["renderer"], Renderer().digest}) == 3


def test_bad_input(export, tmp_path):
    for options, message in [
        ({"rendering": "genename"}, "needs --genes"),
        ({"rendering": "context", "hpo": "x"}, "needs --hpo and --mondo"),
        ({"genes": "x"}, "needs none of"),
        ({"float_fields": "gene"}, "there is no field gene"),
        ({"layout": "2016"}, "--layout"),
    ]:
        with pytest.raises(UsageError, match=message):
            shard(export, tmp_path / "out", **options)
    with pytest.raises(InputError, match="check --g2p"):
        shard(tmp_path / "none.csv", tmp_path / "out")
    genes = tmp_path / "genes.tsv"
    genes.write_text("a\tb\n1\t2\n")
    with pytest.raises(InputError, match="is no known gene table"):
        shard(export, tmp_path / "out", rendering="genename", genes=str(genes))
    export.write_text(HEADER.replace("confidence", "confidence category") + "\n" + ROWS[0])
    with pytest.raises(InputError, match="lacks the column confidence"):
        shard(export, tmp_path / "out")
