"""The last word on each PMID: the vectorised merge against a loop over the events."""

import random

import pyarrow as pa
import pytest

from biomodels.errors import InputError, UsageError
from biomodels.literature.articles import Article, Deletion, events_table
from biomodels.literature.merge import KEYS, latest, merge, pmid_hash
from biomodels.literature.sources import check_md5, detect_format, in_order


def by_hand(events):
    """PMID → row number of the article that is left, or of the deletion."""
    left = {}
    for row, (pmid, version) in enumerate(events):
        if version is None:
            left[pmid] = (row, None)
        else:
            known = left.get(pmid)
            if known is None or known[1] is None or version >= known[1]:
                left[pmid] = (row, version)
    return left


@pytest.mark.parametrize("seed", range(20))
def test_merge_equals_a_loop(seed):
    rng = random.Random(seed)
    events = [(rng.randint(1, 40), rng.choice([None, 1, 1, 1, 2, 3])) for _ in range(rng.randint(0, 200))]
    found = latest(pa.table([list(column) for column in zip(*events, strict=True)] or [[], []], schema=KEYS))
    expected = by_hand(events)
    assert set(found.articles.tolist()) == {row for row, version in expected.values() if version is not None}
    assert set(found.deletions.tolist()) == {row for row, version in expected.values() if version is None}


def test_in_order_merges_are_associative():
    """What is left of a first file may stand for it, which is what makes an update equal a full build."""
    rng = random.Random(3)
    for _ in range(50):
        events = [
            Article(rng.randint(1, 9), str(number), [], version=rng.randint(1, 3))
            if rng.random() < 0.7
            else Deletion(rng.randint(1, 9))
            for number in range(60)
        ]
        cut = rng.randint(0, 60)
        articles, deleted = merge(events_table(events[:cut], "x"))
        empty = {name: pa.nulls(deleted.num_rows, articles.schema.field(name).type) for name in articles.column_names}
        gone = pa.table(empty | {name: deleted[name] for name in deleted.column_names}, articles.schema)
        two = merge(pa.concat_tables([articles, gone, events_table(events[cut:], "x")]))
        assert two == merge(events_table(events, "x"))


def test_rows_are_in_the_order_of_their_hashes():
    articles, _ = merge(events_table([Article(pmid, "", []) for pmid in range(1, 500)], "x"))
    hashes = pmid_hash(articles["pmid"])
    assert (hashes[1:] > hashes[:-1]).all()


def test_order_of_files():
    given = ["z/pubmed26n0010.xml.gz", "first.jsonl", "pubmed26n0002.xml", "pubmed25n1300.xml.gz", "b.xml"]
    assert in_order(given) == [
        "pubmed25n1300.xml.gz",
        "first.jsonl",
        "pubmed26n0002.xml",
        "z/pubmed26n0010.xml.gz",
        "b.xml",
    ]
    with pytest.raises(UsageError, match="given twice"):
        in_order(["a/x.xml", "b/x.xml"])


def test_formats_and_md5(tmp_path):
    for name, text, form in [("a", " \n<?xml", "xml"), ("b", '{"pmid"', "jsonl"), ("c", "12|t|x", "pubtator")]:
        (tmp_path / name).write_text(text)
        assert detect_format(str(tmp_path / name)) == form
        assert not check_md5(str(tmp_path / name))
    for text, message in [("", "is empty"), ("x\n", "is neither")]:
        (tmp_path / "d").write_text(text)
        with pytest.raises(InputError, match=message):
            detect_format(str(tmp_path / "d"))
