"""The job on Ray: equal decades, exclusions, disjoint samples, and a choice that depends on seed and PMIDs alone."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from biomodels.artifacts import ArtifactBuilder
from biomodels.errors import InputError, UsageError
from biomodels.literature.articles import Article, Section, events_table
from biomodels.literature.merge import merge, pmid_hash
from biomodels.schemas import THREADS
from biomodels.shuffle import bucket_of
from ray_jobs import sample as job
from ray_jobs.command import load
from ray_jobs.sample import Config, main
from ray_jobs.shard.pubmed import Config as PubmedConfig
from ray_jobs.shard.pubmed import main as shard_pubmed

pytestmark = pytest.mark.ray


def article(pmid):
    """Most are eligible; by the PMID some are old, German, bilingual, retracted, undated, or without abstract."""
    languages = {3: ["de"], 4: ["en", "es"], 5: None}.get(pmid % 40, ["en"])
    return Article(
        pmid,
        "T",
        [Section(None, "a")] if pmid % 40 != 6 else [],
        year=None if pmid % 40 == 7 else 1975 + pmid % 50,
        languages=languages,
        retracted_by=["D016441"] if pmid % 40 == 8 else [],
    )


def is_eligible(pmid):
    return pmid % 40 not in (3, 4, 5, 6, 7, 8) and 1975 + pmid % 50 > 1980


def write_articles(out, pmids, bits) -> str:
    articles, _ = merge(events_table([article(pmid) for pmid in pmids], "x"))
    part = bucket_of(pmid_hash(articles["pmid"]), bits)
    builder = ArtifactBuilder.begin(str(out), "articles", config={}, inputs={})
    for number in range(1 << bits):
        builder.publish_table(f"part-{number:05d}.parquet", articles.filter(pa.array(part == number)))
    builder.commit({})
    return str(out)


@pytest.fixture(scope="module")
def articles(tmp_path_factory) -> str:
    return write_articles(tmp_path_factory.mktemp("sample") / "articles", range(1, 2001), 2)


def sample(articles, out, **options):
    given = {"articles": str(articles), "out": str(out)} | {key: str(value) for key, value in options.items()}
    return main(load(Config, None, given))


def rows(artifact):
    return [row for entry in artifact.files("part-") for row in artifact.read_table(entry).to_pylist()]


def pmids(artifact):
    return {row["pmid"] for row in rows(artifact)}


def test_equal_decades_and_disjoint_samples(ray_session, articles, tmp_path, monkeypatch):
    monkeypatch.setattr(job, "ROWS_PER_PART", 100)
    one = sample(articles, tmp_path / "one", n=303, per_decade=True)
    decades = Counter(row["year"] // 10 * 10 for row in rows(one))
    assert decades == {1980: 61, 1990: 61, 2000: 61, 2010: 60, 2020: 60}
    assert all(is_eligible(pmid) for pmid in pmids(one)) and len(one.files("part-")) == 4
    listed = [int(line) for line in Path(one.uri, "pmids.txt").read_text().split()]
    assert listed == sorted(pmids(one)) and len(listed) == one.facts["articles"] == 303
    assert sum(one.facts["eligible"].values()) == sum(map(is_eligible, range(1, 2001)))

    two = sample(articles, tmp_path / "two", n=303, per_decade=True, disjoint_from=one.uri)
    assert not pmids(one) & pmids(two) and two.facts["excluded"] == 303
    other = sample(articles, tmp_path / "other", n=303, per_decade=True, seed=14)
    assert 0 < len(pmids(one) & pmids(other)) < 150

    more = write_articles(
        tmp_path / "more", [*range(1, 2001), *(pmid for pmid in range(2001, 4000) if pmid % 40 == 3)], 3
    )
    again = sample(more, tmp_path / "again", n=303, per_decade=True)
    assert [entry.sha256 for entry in again.files("part-")] == [entry.sha256 for entry in one.files("part-")]
    assert sample(articles, tmp_path / "one", n=303, per_decade=True).manifest == one.manifest


def test_exclusions_and_a_corpus_that_is_too_small(ray_session, articles, tmp_path, capsys):
    listed = tmp_path / "pmids.txt"
    listed.write_text("# seen\n10\n\n11 # twice\n11\n")
    builder = ArtifactBuilder.begin(str(tmp_path / "threads"), "threads", config={}, inputs={})
    entry = dict.fromkeys(THREADS.names) | {"g2p_id": "G2P00001", "publications": [12, 13]}
    builder.publish_table("part-00000.parquet", pa.Table.from_pylist([entry], schema=THREADS))
    builder.commit({})
    found = sample(articles, tmp_path / "out", n=10_000, exclude=listed, threads=builder.uri)
    assert pmids(found) == {pmid for pmid in range(1, 2001) if is_eligible(pmid)} - {10, 11, 12, 13}
    assert "note: " in capsys.readouterr().err
    german = sample(articles, tmp_path / "german", n=5, languages="ger", after=1990)
    assert all(row["languages"] == ["de"] and row["year"] > 1990 for row in rows(german)) and len(rows(german)) == 5


def test_bad_input(ray_session, articles, tmp_path):
    listed = tmp_path / "pmids.txt"
    listed.write_text("10\nPMC11\n")
    with pytest.raises(InputError, match=r"pmids.txt:2: has 'PMC11' where a PMID is needed"):
        sample(articles, tmp_path / "out", n=5, exclude=listed)
    with pytest.raises(UsageError, match="no article can be sampled"):
        sample(articles, tmp_path / "out", n=5, after=2500)
    with pytest.raises(UsageError, match="--languages"):
        sample(articles, tmp_path / "out", n=5, languages="english")
    with pytest.raises(UsageError, match="--n"):
        sample(articles, tmp_path / "out", n=0)
    lines = tmp_path / "x.jsonl"
    lines.write_text('{"pmid": 1}\n')
    some = sample(articles, tmp_path / "some", n=5)
    with pytest.raises(UsageError, match="is a sample"):
        shard_pubmed(load(PubmedConfig, None, {"files": [str(lines)], "out": str(tmp_path / "x"), "update": some.uri}))
