"""The job on Ray: versions, deletions, updates, kills, bad files, and equal bytes whichever way the work is cut."""

import gzip
import hashlib
from functools import partial
from pathlib import Path

import pytest

from biomodels import storage
from biomodels.artifacts import Artifact
from biomodels.errors import ArtifactError, InputError, RejectRateError, UsageError
from biomodels.literature.articles import Deletion
from biomodels.literature.pubmed import read_pubmed
from ray_jobs.command import load, user_error
from ray_jobs.shard import article_files, article_parts
from ray_jobs.shard.pubmed import Config, main

pytestmark = pytest.mark.ray


def record(pmid, title="A title.", abstract=None, version=1):
    inside = f"<Abstract><AbstractText>{abstract}</AbstractText></Abstract>" if abstract else ""
    return (
        f'<PubmedArticle><MedlineCitation Status="MEDLINE"><PMID Version="{version}">{pmid}</PMID><Article>'
        f"<Journal><JournalIssue><PubDate><Year>{1980 + pmid % 45}</Year></PubDate></JournalIssue></Journal>"
        f"<ArticleTitle>{title}</ArticleTitle>{inside}<Language>eng</Language></Article></MedlineCitation>"
        "</PubmedArticle>\n"
    )


def deletion(*pmids):
    return "<DeleteCitation>" + "".join(f'<PMID Version="1">{pmid}</PMID>' for pmid in pmids) + "</DeleteCitation>"


def write(path, *records):
    text = '<?xml version="1.0" encoding="utf-8"?>\n<PubmedArticleSet>\n' + "".join(records) + "</PubmedArticleSet>\n"
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return path


def shard(out, *files, **options):
    given = {"out": str(out), "files": [str(file) for file in files]}
    return main(load(Config, None, given | {key: str(value) for key, value in options.items()}))


def bad_input(kind, match, out, *files, **options):
    with pytest.raises(Exception) as caught:  # Ray wraps what a task raises
        shard(out, *files, **options)
    error = user_error(caught.value)
    assert isinstance(error, kind), caught.value
    assert match in str(error), error


def table(artifact, prefix="part-"):
    return [row for entry in artifact.files(prefix) for row in artifact.read_table(entry).to_pylist()]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[Path]:
    """Three files of NLM: the second revises, deletes and adds versions; the third revives and deletes."""
    folder = tmp_path_factory.mktemp("pubmed")
    first = [record(pmid, f"First {pmid}.", f"Text of {pmid}.") for pmid in range(1, 601)]
    second = [
        *(record(pmid, f"Second {pmid}.") for pmid in range(1, 51)),  # revised, now without abstract
        record(60, "Version three.", "v3", version=3),
        record(60, "Version two.", "v2", version=2),
        record(701, "New.", "new"),
        deletion(100, 101, 102, 999),
        record(102, "Back in the same file.", "b"),
    ]
    third = [deletion(1, 60), record(100, "Revived.", "r"), record(2, "Third 2.", "t"), record(102, "Again.")]
    names = [f"pubmed26n{number:04d}.xml.gz" for number in (9, 10, 11)]
    return [write(folder / name, *rows) for name, rows in zip(names, [first, second, third], strict=True)]


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(article_parts, "ROWS_PER_PART", 200)


def test_versions_deletions_and_order(ray_session, files, tmp_path, small_parts):
    articles = shard(tmp_path / "all", files[2], files[0], files[1])
    rows = {row["pmid"]: row for row in table(articles)}
    assert len(rows) == articles.facts["articles"] == 600 + 1 - 3  # new: 701; gone: 1, 60, 101
    assert len(articles.files("part-")) == 4
    assert rows[2]["title"] == "Third 2." and rows[3]["title"] == "Second 3." and rows[3]["abstract"] == ""
    assert rows[100]["title"] == "Revived." and rows[102]["title"] == "Again."
    assert rows[60 + 1]["source_file"] == "pubmed26n0009.xml.gz"
    deleted = table(articles, "deleted")
    assert [(row["pmid"], row["source_file"][9:13]) for row in deleted] == [
        *((1, "0011"), (60, "0011"), (101, "0010"), (999, "0010")),
    ]
    assert articles.facts["files"][1] == {
        "name": "pubmed26n0010.xml.gz",
        "records": 54,
        "deletions": 4,
        "later_versions": 2,
        "without_abstract": 50,
        "rejects": 0,
    }
    assert sum(articles.facts["decades"].values()) == len(rows)
    two = shard(tmp_path / "two", *files[:2])
    assert {row["pmid"]: row["title"] for row in table(two)}[60] == "Version three."


def test_update_equals_full_build(ray_session, files, tmp_path, monkeypatch):
    monkeypatch.setattr(article_parts, "ROWS_PER_PART", 300)
    more = write(files[0].parent / "pubmed26n0012.xml.gz", *(record(pmid) for pmid in range(2000, 2900)))
    full = shard(tmp_path / "full", *files, more)
    one = shard(tmp_path / "one", files[0])
    two = shard(tmp_path / "two", files[2], files[1], update=one.uri)
    three = shard(tmp_path / "three", more, files[1], update=two.uri)  # a file that is there already changes nothing
    assert three.manifest == full.manifest and len(full.files("part-")) > len(two.files("part-"))
    manifests = [Path(artifact.uri, "manifest.json").read_bytes() for artifact in (full, three)]
    assert manifests[0] == manifests[1]
    three.verify()
    bad_input(UsageError, "comes before files", tmp_path / "late", files[1], update=shard(tmp_path / "x", files[2]).uri)
    bad_input(UsageError, "choose another directory", two.uri, more, update=two.uri)
    other = write(tmp_path / files[1].name, record(5))
    bad_input(ArtifactError, "with another content", tmp_path / "other", other, update=two.uri)


class KilledError(Exception):
    """Stands for the end of the driver at a chosen moment."""


def interrupted_after(count, original):
    left = iter(range(count - 1, -1, -1))

    def stopping(*args, **options):
        for result in original(*args, **options):
            yield result
            if next(left) == 0:
                raise KilledError

    return stopping


def test_interrupted_runs_go_on(ray_session, files, tmp_path, small_parts, monkeypatch):
    whole = shard(tmp_path / "whole", *files)
    out = tmp_path / "out"
    for module, count, pattern in [
        (article_files, 1, "summary.json"),
        (article_files, 1, "summary.json"),
        (article_parts, 3, "summary.json"),
        (article_parts, 17, "part-*.parquet"),
    ]:
        with monkeypatch.context() as patch, pytest.raises(KilledError):
            patch.setattr(module, "fan_out", interrupted_after(count, module.fan_out))
            shard(out, *files)
        assert list(out.rglob(pattern))
    stamps = {path: path.stat().st_mtime_ns for path in out.glob("part-*")}
    result = shard(out, *files)
    assert stamps.items() <= {path: path.stat().st_mtime_ns for path in out.glob("part-*")}.items()
    assert result.manifest == whole.manifest and not storage.exists(str(out / "_files"))


def test_a_bad_file_is_reported_after_the_others_are_read(ray_session, files, tmp_path, monkeypatch):
    good, cut, changed = (tmp_path / file.name for file in files)
    good.write_bytes(files[0].read_bytes())
    cut.write_bytes(files[1].read_bytes()[:-200])
    changed.write_bytes(files[2].read_bytes())
    Path(f"{changed}.md5").write_text(f"MD5({changed.name})= {'0' * 32}\n")
    Path(f"{good}.md5").write_text(f"{hashlib.md5(good.read_bytes()).hexdigest()}  {good.name}\n")
    out = tmp_path / "out"
    bad_input(InputError, "2 of 3 files cannot be used", out, good, cut, changed)
    kept = next((out / "_files").rglob("summary.json")).stat().st_mtime_ns
    cut.write_bytes(files[1].read_bytes())  # fetched again
    bad_input(InputError, "its .md5 says 000", out, good, cut, changed)
    bad_input(InputError, "is missing", out, good, cut, require_md5=True)
    Path(f"{changed}.md5").write_text("nothing")
    bad_input(InputError, "holds no MD5", out, good, cut, changed)
    assert kept in {path.stat().st_mtime_ns for path in (out / "_files").rglob("summary.json")}
    Path(f"{changed}.md5").unlink()
    result = shard(out, good, cut, changed)
    assert result.manifest == shard(tmp_path / "whole", *files).manifest


def test_hostile_and_malformed_input(ray_session, tmp_path):
    laughs = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 12))
    hostile = {
        "laughs.xml": f'<!DOCTYPE PubmedArticleSet [<!ENTITY l0 "ha">{laughs}]>'
        f"<PubmedArticleSet>{record(1, '&l11;')}</PubmedArticleSet>",
        "external.xml": '<!DOCTYPE PubmedArticleSet [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
        f"<PubmedArticleSet>{record(1, '&x;')}</PubmedArticleSet>",
        "attribute.xml": f'<!DOCTYPE PubmedArticleSet [<!ENTITY l0 "ha">{laughs}]>'
        '<PubmedArticleSet a="&l11;"></PubmedArticleSet>',
        "other.xml": "<html><body/></html>",
        "text.txt": "PMID- 1\nTI  - a\n",
        "empty.xml": "",
        "bare.xml": "<PubmedArticleSet></PubmedArticleSet>",
    }
    for name, text in hostile.items():
        Path(tmp_path, name).write_text(text)
        bad_input(InputError, name, tmp_path / "out", tmp_path / name)
    bad_input(InputError, "check the path", tmp_path / "out", tmp_path / "none.xml")
    bad_input(UsageError, "given twice", tmp_path / "out", tmp_path / "bare.xml", tmp_path / "x" / "bare.xml")
    odd = write(
        tmp_path / "odd.xml.gz",
        record(7, "Long.", "word " * 200_000),
        *(record(pmid) for pmid in (8, 9)),
        record(1).replace(">1<", ">PMC12<"),
        record(1).replace('Version="1"', 'Version="one"'),
        deletion("x"),
    )
    bad_input(RejectRateError, "has a PMID that is no number: 'PMC12'", tmp_path / "odd", odd)
    articles = shard(tmp_path / "odd", odd, max_reject_rate=0.5)
    assert [row["reason"].split(":")[0] for row in table(articles, "rejects")] == [
        *("has a PMID that is no number", "has a version that is no number", "deletes what is no PMID"),
    ]
    assert [row["line"] for row in table(articles, "rejects")] == [6, 7, 8]
    assert {row["pmid"]: len(row["abstract"]) for row in table(articles)}[7] == 999_999


def test_a_file_of_malformed_lines_is_not_read_to_its_end(ray_session, tmp_path, monkeypatch):
    lines = tmp_path / "a.jsonl"
    lines.write_text("{}\n" * 4000)
    read = partial(article_files._read, article_files.Reading(str(tmp_path), "auto", False))
    monkeypatch.setattr(article_files, "MOST_REJECTS", 1500)
    failure = read({"uri": str(lines), "name": "a.jsonl", "sha256": "0", "size": 1})["failure"]
    assert "a.jsonl:2000: has more than 1,500 malformed records" in failure and "check that it is jsonl" in failure


def test_json_lines_and_pubtator(ray_session, tmp_path):
    lines = tmp_path / "a.jsonl"
    lines.write_text(
        '{"pmid": "12", "title": "T", "abstract": "A  b", "year": 1999, "language": "eng;spa", "x": 1}\n\n'
        '{"pmid": 13, "title": null, "sections": [{"label": "AIM", "text": "x"}, {"label": null, "text": "y"}]}\n'
        '{"pmid": "PMC5", "title": "T"}\n{"pmid": 14, "title": 3}\nno json\n'
    )
    pubtator = tmp_path / "b.txt"
    pubtator.write_text("13|t|Newer\n13|a|Text\n13\t0\t5\tNewer\tGene\t1\n\n15|t|Title\n15|a|\n\nx|t|y\n")
    articles = shard(tmp_path / "out", lines, pubtator, max_reject_rate=0.6)
    rows = {row["pmid"]: row for row in table(articles)}
    assert rows.keys() == {12, 13, 15}
    assert rows[12]["languages"] == ["en", "es"] and rows[12]["abstract"] == "A b" and rows[12]["year"] == 1999
    assert rows[13]["title"] == "Newer" and rows[13]["languages"] is None
    assert [(row["file"], row["line"]) for row in table(articles, "rejects")] == [
        *(("a.jsonl", 4), ("a.jsonl", 5), ("a.jsonl", 6), ("b.txt", 8)),
    ]
    alone = {row["pmid"]: row for row in table(shard(tmp_path / "alone", lines, max_reject_rate=0.9))}
    assert alone[13]["abstract"] == "AIM: x y" and alone[13]["sections"][1] == {"label": None, "text": "y"}


def test_opened_as_an_artifact(ray_session, files, tmp_path):
    shard(tmp_path / "out", files[0])
    assert Artifact.open(str(tmp_path / "out"), "articles").manifest.inputs.keys() == {files[0].name}


@pytest.mark.slow
def test_a_real_update_file_after_an_earlier_one(ray_session, pubmed_files, tmp_path):
    update = pubmed_files / "pubmed21n1298.xml.gz"
    deleted = [item.pmid for item in read_pubmed(str(update)) if isinstance(item, Deletion)]
    earlier = write(tmp_path / "pubmed21n1297.xml.gz", *(record(pmid) for pmid in [*deleted, 7]))
    before = shard(tmp_path / "before", earlier)
    assert before.facts["articles"] == 21
    full = shard(tmp_path / "full", update, earlier)
    assert full.facts["articles"] == 20_783 + 1 and full.facts["deleted"] == 20
    assert full.facts["files"][1]["records"] == 20_788
    pmids = {row["pmid"] for entry in full.files("part-") for row in full.read_table(entry, ["pmid"]).to_pylist()}
    assert len(pmids) == 20_784 and 7 in pmids and not pmids & set(deleted)
    assert shard(tmp_path / "updated", update, update=before.uri).manifest == full.manifest
