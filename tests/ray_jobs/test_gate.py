"""The job on Ray: candidates by tier, learning from the corpus, PubTator, the audit, resuming, and bad input."""

import csv
import io
from pathlib import Path

import pytest

from biomodels import storage
from biomodels.artifacts import ArtifactBuilder
from biomodels.errors import ArtifactError, InputError, UsageError
from biomodels.literature.articles import Article, Section, events_table
from biomodels.literature.merge import merge
from biomodels.schemas import ARTICLES, THREADS
from ray_jobs import gate_parts
from ray_jobs.command import load
from ray_jobs.gate import Config, main

pytestmark = pytest.mark.ray

GENES = [
    ("HGNC:1", "KAT6X", "lysine acetyltransferase 6X", "MOZX", "QKF1", "101"),
    ("HGNC:2", "PCAG", "pancreatic carboxylase", "PCA", "", "102"),
    ("HGNC:3", "AR", "androgen receptor", "", "", "103"),
    ("HGNC:4", "OTHER1", "androgen receptor binding factor", "AR2", "MOZX", "104"),  # not in the panel
    ("HGNC:5", "OTHER2", "other", "KAT6X", "", "105"),
]
PANEL = [
    ("G2P00011", "HGNC:1", "KAT6X", "Arboleda-like syndrome", "OTHER2; K6"),
    ("G2P00010", "HGNC:1", "KAT6X", "Genitopatellar-like syndrome", None),
    ("G2P00020", "HGNC:2", "PCAG", "carboxylase deficiency", None),
    ("G2P00030", "HGNC:3", "AR", "androgen insensitivity", None),
]
TEXTS = {
    1: "Mutations in KAT6X cause a syndrome.",
    2: "Lysine acetyltransferase-6X is an enzyme.",
    3: "We studied QKF1 in a family.",
    4: "Principal component analysis (PCA) was done.",
    5: "PCA was done.",
    6: "PCA mutations were found.",
    7: "The androgen receptor binding factor is another protein.",
    8: "The androgen  receptor (AR) binds.",
    9: "Arterial roughness, AR, was high.",
    10: "An AR gene deletion.",
    11: "aKAT6X KAT6X1 xPCAG.",
    12: "Nothing here.",
    13: "Pyruvate (PCA) by principal component (PCA).",
    14: "PCAG and PCA.",
    15: "OTHER2 was expressed.",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("gate")
    events = [Article(pmid, "", [Section(None, text)]) for pmid, text in TEXTS.items()]
    articles, _ = merge(events_table(events, "x.jsonl"))
    builder = ArtifactBuilder.begin(str(folder / "articles"), "articles", config={}, inputs={})
    hashes = gate_parts_of(articles)
    for number in range(2):
        rows = [row for row, part in zip(articles.to_pylist(), hashes, strict=True) if part == number]
        builder.publish_table(f"part-{number:05d}.parquet", articles.from_pylist(rows, schema=ARTICLES))
    builder.commit({})
    rows = [
        dict.fromkeys(THREADS.names)
        | {"g2p_id": g2p, "hgnc_id": hgnc, "gene_symbol": symbol, "disease_name": name, "previous_gene_symbols": more}
        for g2p, hgnc, symbol, name, more in PANEL
    ]
    builder = ArtifactBuilder.begin(str(folder / "threads"), "threads", config={}, inputs={})
    builder.publish_table("part-00000.parquet", articles.from_pylist(rows, schema=THREADS))
    builder.commit({})
    header = "hgnc_id\tsymbol\tname\talias_symbol\tprev_symbol\tentrez_id\tstatus"
    lines = [header, *("\t".join([*gene, "Approved"]) for gene in GENES)]
    (folder / "hgnc.tsv").write_text("\n".join(lines) + "\n")
    return folder


def gate_parts_of(articles):
    from biomodels.literature.merge import pmid_hash
    from biomodels.shuffle import bucket_of

    return bucket_of(pmid_hash(articles["pmid"]), 1).tolist()


def gate(data, out, **options):
    given = {"articles": str(data / "articles"), "threads": str(data / "threads"), "genes": str(data / "hgnc.tsv")}
    return main(load(Config, None, given | {"out": str(out), **options}))


def candidates(artifact) -> dict[int, tuple[list[str], list[str]]]:
    rows = [row for entry in artifact.files("part-") for row in artifact.read_table(entry).to_pylist()]
    return {row["pmid"]: (row["g2p_ids"], row["sources"]) for row in sorted(rows, key=lambda row: row["pmid"])}


def audit(artifact) -> dict[str, dict[str, str]]:
    text = Path(artifact.uri, "strings.csv").read_text(encoding="utf-8")
    return {row["string"]: row for row in csv.DictReader(io.StringIO(text))}


def test_candidates_filters_and_audit(ray_session, data, tmp_path):
    found = gate(data, tmp_path / "out")
    kat6x = ["G2P00010", "G2P00011"]
    assert candidates(found) == {
        1: (kat6x, ["symbol"]),
        2: (kat6x, ["name"]),
        3: (kat6x, ["previous"]),
        4: ([], []),  # the text defines it as something else
        5: ([], []),  # so does the corpus
        6: (["G2P00020"], ["alias"]),  # but here it is called a gene
        7: ([], []),  # the longest name is another gene's
        8: (["G2P00030"], ["name", "symbol"]),
        9: ([], []),  # two letters need support
        10: (["G2P00030"], ["symbol"]),
        11: ([], []),  # inside longer words
        12: ([], []),
        13: ([], []),
        14: (["G2P00020"], ["alias", "symbol"]),  # two strings of one gene
        15: ([], []),  # another gene's approved symbol
    }
    assert found.facts["articles"] == 15 and found.facts["passing"] == 7 and found.facts["pairs"] == 10
    assert found.facts["passing_by_tier"] == {"alias": 2, "name": 2, "previous": 1, "symbol": 4}
    rows = audit(found)
    assert "MOZX" not in rows  # nobody writes it
    assert (rows["PCA"]["hits"], rows["PCA"]["passed"], rows["PCA"]["doubt"]) == ("5", "2", "acronym")
    assert (rows["PCA"]["learned_defined"], rows["PCA"]["learned_compatible"]) == ("2", "0")
    assert rows["AR"]["doubt"] == "short" and rows["AR"]["gene_symbol"] == "AR"
    again = gate(data, tmp_path / "again")
    assert again.manifest == found.manifest

    plain = gate(data, tmp_path / "plain", filters="none", tiers="alias,symbol")
    passing = {pmid for pmid, (ids, _) in candidates(plain).items() if ids}
    assert passing == {1, 4, 5, 6, 13, 14}
    frequent = gate(data, tmp_path / "frequent", filters="frequency", max_share="0.3")
    assert candidates(frequent)[5] == ([], []) and audit(frequent)["PCA"]["doubt"] == "frequent"


def test_pubtator_and_earlier_statistics(ray_session, data, tmp_path):
    file = tmp_path / "gene2pubtator3"
    file.write_text(
        "12\tGene\t102;101\tNothing|none\tPubTator3\n5\tGene\t999\tPCA\tx\n3\tGene\t102\tPCX\tx\n4\tGene\t102\tPCA\tx\n"
        "5\tDisease\t102\tPCA\tx\nbad line\n"
    )
    with pytest.raises(Exception, match="1 of 6 rows are malformed"):
        gate(data, tmp_path / "out", pubtator=str(file))
    found = gate(data, tmp_path / "out", pubtator=str(file), max_reject_rate="0.5")
    assert candidates(found)[12] == (["G2P00010", "G2P00011", "G2P00020"], ["pubtator"])
    assert candidates(found)[4] == (["G2P00020"], ["pubtator"])
    assert candidates(found)[5] == ([], []) and candidates(found)[3][1] == ["previous"]
    assert [entry.rows for entry in found.files("rejects/")] == [1]

    small = tmp_path / "small"
    small.mkdir()
    (small / "threads").symlink_to(data / "threads")
    (small / "hgnc.tsv").symlink_to(data / "hgnc.tsv")
    articles, _ = merge(events_table([Article(5, "", [Section(None, TEXTS[5])])], "y"))
    builder = ArtifactBuilder.begin(str(small / "articles"), "articles", config={}, inputs={})
    builder.publish_table("part-00000.parquet", articles)
    builder.commit({})
    assert candidates(gate(small, tmp_path / "alone"))[5] == (["G2P00020"], ["alias"])
    learned = gate(small, tmp_path / "learned", statistics=str(tmp_path / "out"))
    assert candidates(learned)[5] == ([], []) and audit(learned)["PCA"]["learned_defined"] == "2"
    assert learned.facts["learned_from_articles"] == 15


class KilledError(Exception):
    """Stands for the end of the driver at a chosen moment."""


def test_interrupted_runs_go_on(ray_session, data, tmp_path, monkeypatch):
    whole = gate(data, tmp_path / "whole")
    original = gate_parts.fan_out
    for count in (1, 2):
        left = iter(range(count - 1, -1, -1))

        def stopping(*args, left=left, **options):
            for result in original(*args, **options):
                yield result
                if next(left) == 0:
                    raise KilledError

        with monkeypatch.context() as patch, pytest.raises(KilledError):
            patch.setattr(gate_parts, "fan_out", stopping)
            gate(data, tmp_path / "out")
        assert list((tmp_path / "out" / "_work" / "counts").iterdir())
    assert list((tmp_path / "out").glob("part-*.parquet"))
    result = gate(data, tmp_path / "out")
    assert result.manifest == whole.manifest and not storage.exists(str(tmp_path / "out" / "_work"))
    with pytest.raises(ArtifactError, match=r"config\.tiers"):
        gate(data, tmp_path / "out", tiers="symbol")


def test_bad_input(ray_session, data, tmp_path):
    table = tmp_path / "genes.tsv"
    for text, kind, message in [
        ("a\tb\n1\t2\n", InputError, "is no known gene table"),
        ("", InputError, "is no known gene table"),
        ("hgnc_id\tsymbol\tname\nHGNC:9\tX\tx\n", InputError, "holds no gene of the panel"),
        ("hgnc_id\tsymbol\tname\tstatus\nHGNC:1\tX\tx\tEntry Withdrawn\n", InputError, "holds no gene in use"),
        ("hgnc_id\tsymbol\tname\nHGNC:1\n", InputError, "genes.tsv:2: has too few columns"),
    ]:
        table.write_text(text)
        with pytest.raises(kind, match=message):
            gate(data, tmp_path / "out", genes=str(table))
    for options, message in [
        ({"tiers": "symbol,title"}, "there is no title"),
        ({"filters": "strict"}, "there is no strict"),
        ({"max_share": "0"}, "--max-share"),
        ({"genes": ""}, "--genes"),
    ]:
        with pytest.raises(UsageError, match=message):
            gate(data, tmp_path / "out", **options)
    with pytest.raises(InputError, match="check --genes"):
        gate(data, tmp_path / "out", genes=str(tmp_path / "none.tsv"))
    with pytest.raises(ArtifactError, match="where 'threads' is needed"):
        gate(data, tmp_path / "out", threads=str(data / "articles"))
