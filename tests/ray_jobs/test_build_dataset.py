"""Job `build-dataset` on a small literature made here, and on the real labelled pairs."""

from __future__ import annotations

import json
from collections import Counter

import pyarrow as pa
import pytest

from biomodels import schemas, storage
from biomodels.artifacts import ArtifactBuilder, digest_bytes
from biomodels.errors import CompatibilityError, InputError, RejectRateError
from ray_jobs.build_dataset import Config, main

pytestmark = pytest.mark.ray


def artifact(uri, kind, schema, rows, parts=1):
    """Publish rows, dealt out to some parts; missing columns are null."""
    builder = ArtifactBuilder.begin(str(uri), kind, config={}, inputs={})
    for part in range(parts):
        builder.publish_table(f"part-{part:05d}.parquet", pa.Table.from_pylist(rows[part::parts], schema=schema))
    builder.commit({})
    return builder.uri


def abstract_of(pmid):
    return f"Abstract {pmid}."


def article(pmid, **other):
    text = f"Title {pmid}. {abstract_of(pmid)}"
    row = {"pmid": pmid, "title": f"Title {pmid}.", "abstract": abstract_of(pmid), "languages": ["en"]}
    return row | {"retracted": False, "text_digest": digest_bytes(text.encode())} | other


ENTRIES = [
    {
        "g2p_id": f"G2P{gene:02d}{i}",
        "hgnc_id": f"HGNC:{gene}",
        "gene_symbol": f"GENE{gene}",
        "disease_name": f"disease {gene}.{i}",
        "allelic_requirement": "biallelic_autosomal",
        "text": f"G2P{gene:02d}{i} - GENE{gene} - disease {gene}.{i}",
        "publications": [200 + gene] if i == 0 else [],
    }
    for gene in range(20)
    for i in range(2)
]


@pytest.fixture(scope="module")
def literature(tmp_path_factory):
    """Articles 1-60 with labels, 200-299 without; PMID 61 is not among the articles; 290 ff. are no corpus."""
    at = tmp_path_factory.mktemp("literature")
    rows = [article(pmid) for pmid in [*range(1, 61), *range(200, 290)]]
    rows += [article(290, languages=["fr"]), article(291, retracted=True), article(292, languages=None)]
    artifact(at / "articles", "articles", schemas.ARTICLES, rows, parts=3)
    artifact(at / "threads", "threads", schemas.THREADS, ENTRIES)
    gate = [
        {
            "pmid": row["pmid"],
            "g2p_ids": [f"G2P{row['pmid'] % 20:02d}0", f"G2P{row['pmid'] % 20:02d}1"] if row["pmid"] % 2 == 0 else [],
            "text_digest": row["text_digest"],
        }
        for row in rows
    ]
    artifact(at / "candidates", "candidates", schemas.CANDIDATES, gate, parts=2)
    pairs = [
        {"pmid": pmid, "g2p_id": f"G2P{pmid % 20:02d}0", "label": int(pmid % 3 == 0), "label_source": "curated"}
        for pmid in range(1, 61)
    ]
    pairs += [
        {"pmid": 3, "g2p_id": "G2P030", "label": 1, "label_source": "silver"},  # repeated
        {"pmid": 5, "g2p_id": "G2P050", "label": 1},  # conflict
        {"pmid": 7, "g2p_id": "G2P990", "label": 1},  # no such entry
        {"pmid": 61, "g2p_id": "G2P010", "label": 1},  # no text
        {"pmid": 62, "g2p_id": "G2P010", "label": 1, "title": "Own", "abstract": "text."},
    ]
    (at / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    ranked = [
        {"pmid": pmid, "g2p_ids": [entry["g2p_id"] for entry in ENTRIES], "scores": [0.9 - i / 100 for i in range(40)]}
        for pmid in range(1, 61)
    ]
    (at / "ranked.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ranked))
    return at


def config(literature, out, **other):
    given = {role: str(literature / role) for role in ("articles", "threads", "candidates")}
    given |= {"pairs": str(literature / "pairs.jsonl"), "ranked": str(literature / "ranked.jsonl"), "out": str(out)}
    return Config.model_validate(given | {"folds": 3, "hard_negatives": 2, "mining_skip": 0} | other)


def rows_of(dataset):
    tables = [
        dataset.read_table(entry) for entry in dataset.files() if entry.path.split("/")[0] in ("train", "dev", "test")
    ]
    return pa.concat_tables(tables).to_pylist()


@pytest.fixture(scope="module")
def dataset(literature, tmp_path_factory, ray_session):
    return main(config(literature, tmp_path_factory.mktemp("out") / "labelled"))


def test_rows(dataset):
    rows = rows_of(dataset)
    texts = {entry["g2p_id"]: entry["text"] for entry in ENTRIES}
    for row in rows:
        own = row["pmid"] == 62
        assert row["text_a"] == ("Own text." if own else f"Title {row['pmid']}. {abstract_of(row['pmid'])}")
        assert row["text_b"] == texts[row["g2p_id"]]
        assert row["list_id"] == str(row["pmid"])
        assert (row["fold"] is None) == (row["split"] != "train")
    counts = Counter(row["provenance"] for row in rows)
    assert counts["curated"] == 59  # 60 but the conflict
    assert counts["annotated"] == 1
    assert counts["mined"] >= 10
    assert counts["sibling"] > 10
    corpus = {row["pmid"] for row in rows if row["provenance"] == "corpus"}
    assert corpus == set(range(220, 290, 2)) | {292}  # 200-219 are cited; 290 and 291 are no English text
    for split in ("train", "dev", "test"):
        mine = [row["list_id"] for row in rows if row["split"] == split]
        assert len([1 for i, name in enumerate(mine) if i == 0 or name != mine[i - 1]]) == len(
            set(mine)
        )  # no list is cut


def test_no_text_and_no_pmid_is_in_two_splits(dataset):
    for column in ("pmid", "text_a", "group"):
        where: dict[object, set[str]] = {}
        for row in rows_of(dataset):
            where.setdefault(row[column], set()).add(row["split"])
        assert all(len(splits) == 1 for splits in where.values())


def test_report_and_rejects(dataset):
    report = storage.read_json(dataset.file_uri("report.json"))
    assert report["given"] == 65
    assert report["not_used"] == {"unknown_entry": 1, "no_text": 1, "repeated": 1, "conflict": 2}
    assert report["conflicting_pairs"] == 1
    assert report["corpus"] == {"abstracts": 73, "passing_gate": 37, "usable": 36}
    assert report["counts"] == dataset.facts["counts"]
    rejects = dataset.read_table(dataset.entry("rejects/rejects.parquet")).to_pylist()
    assert [(row["line"], row["reason"].split(":")[0]) for row in rejects] == [
        *((5, "conflict"), (61, "repeated"), (62, "conflict"), (63, "unknown entry"), (64, "no text"))
    ]


def test_killed_at_any_file_it_ends_with_the_same_bytes(literature, dataset, tmp_path, monkeypatch, ray_session):
    real, published = ArtifactBuilder.publish, []

    def once(self, path, write):
        if path not in published:
            published.append(path)
            raise KeyboardInterrupt
        return real(self, path, write)

    monkeypatch.setattr(ArtifactBuilder, "publish", once)
    for _ in range(20):
        try:
            again = main(config(literature, tmp_path / "labelled"))
            break
        except KeyboardInterrupt:
            continue
    assert len(published) == 5
    assert again.digest == dataset.digest
    again.verify()


def test_leaks_in_the_input_stop_the_job(literature, tmp_path, ray_session):
    def pairs(*rows):
        (tmp_path / "pairs.csv").write_text("pmid,g2p_id,label,split\n" + "".join(f"{row}\n" for row in rows))
        return str(tmp_path / "pairs.csv")

    twice = pairs("9,G2P010,1,train", "9,G2P020,0,test")
    with pytest.raises(InputError, match=r"leak: .* is in train .PMID 9. and in test .PMID 9."):
        main(config(literature, tmp_path / "a", pairs=twice))
    same = artifact(
        tmp_path / "same", "articles", schemas.ARTICLES, [article(9), article(9) | {"pmid": 900}, article(10)]
    )
    twins = pairs("9,G2P010,1,train", "900,G2P020,0,test")
    with pytest.raises(InputError, match=r"leak: text .* is in train .PMID 9. and in test .PMID 900."):
        main(config(literature, tmp_path / "b", pairs=twins, articles=same, candidates=None, ranked=None))
    (tmp_path / "frozen.txt").write_text("900\n")
    with pytest.raises(InputError, match="PMID 9: its text, under another PMID, is in a frozen benchmark"):
        only = pairs("9,G2P010,1,", "10,G2P010,1,")
        frozen = str(tmp_path / "frozen.txt")
        main(config(literature, tmp_path / "c", pairs=only, articles=same, candidates=None, ranked=None, frozen=frozen))


def test_inputs_that_do_not_fit(literature, tmp_path, ray_session):
    stale = artifact(
        tmp_path / "stale",
        "candidates",
        schemas.CANDIDATES,
        [{"pmid": 250, "g2p_ids": ["G2P010"], "text_digest": "of an older text"}],
    )
    with pytest.raises(CompatibilityError, match=r"PMID 250 .*run the gate again"):
        main(config(literature, tmp_path / "a", candidates=stale))
    (tmp_path / "ranked.jsonl").write_text('{"pmid": 3, "g2p_ids": ["G2P999"]}\n')
    with pytest.raises(CompatibilityError, match="--ranked: name G2P999"):
        main(config(literature, tmp_path / "b", ranked=str(tmp_path / "ranked.jsonl")))
    (tmp_path / "pairs.jsonl").write_text('{"pmid": "x", "g2p_id": "G2P010", "label": 1}\n{"pmid": 1}\n')
    with pytest.raises(RejectRateError, match=r"pairs.jsonl:1: pmid: 'x' is no PMID"):
        main(config(literature, tmp_path / "c", pairs=str(tmp_path / "pairs.jsonl")))
    (tmp_path / "pairs.jsonl").write_text('{"pmid": 3, "g2p_id": "G2P010", "label": 1}\n')
    with pytest.raises(InputError, match=r"no labelled pair is left for the (train|dev) split"):
        main(config(literature, tmp_path / "d", pairs=str(tmp_path / "pairs.jsonl")))
    with pytest.raises(InputError, match="no row is usable: 1 name entries"):
        (tmp_path / "pairs.jsonl").write_text('{"pmid": 3, "g2p_id": "retired", "label": 1}\n')
        main(config(literature, tmp_path / "e", pairs=str(tmp_path / "pairs.jsonl")))
