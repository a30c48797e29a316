"""JSON lines and PubTator documents, line by line."""

import gzip

from biomodels.literature.articles import Article, Section
from biomodels.literature.jsonl import read_jsonl
from biomodels.literature.pubtator import Annotation, read_documents, read_pubtator
from biomodels.terminology.rejects import Reject


def test_json_lines(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    lines = [
        '{"pmid": 1, "title": " A\\n b ", "abstract": "c", "language": ["eng", "xx1"], "pubtypes": ["Review"]}',
        '{"pmid": "2", "sections": [{"label": "", "text": "x"}, {"label": "B", "text": " "}], "version": 2}',
        '{"pmid": 9, "title": null, "abstract": null, "year": null, "language": null, "version": null, '
        '"sections": null, "status": null, "pubtypes": null, "retracted_by": null}',
        '{"pmid": 3.5}',
        '{"pmid": true}',
        '{"title": "x"}',
        '{"pmid": 4, "year": "long ago"}',
        "[1]",
        '{"pmid": 5, "title": "' + "x" * 1_000_000 + '"}',
    ]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    one, two, empty, *rejects, long = read_jsonl(str(path))
    assert one == Article(1, "A b", [Section(None, "c")], languages=["en", "und"], publication_types=["Review"])
    assert two == Article(2, "", [Section(None, "x")], version=2)
    assert empty == Article(9, "", [])
    assert [(reject.line, reject.reason.split(":")[0]) for reject in rejects if isinstance(reject, Reject)] == [
        *((4, "pmid"), (5, "pmid"), (6, "pmid"), (7, "year")),
        (8, "Input should be an object"),
    ]
    assert isinstance(long, Article) and len(long.title) == 1_000_000


PUBTATOR = b"""1|t|A title
1|a|An abstract | with bars
1\t0\t1\tA\tGene\t7;8
1\tCID\tD1\tD2

2|t|Next
2|a|
stray line
2\tx
9|t|Last\r
\xff
"""


def test_pubtator(tmp_path):
    path = tmp_path / "p.txt"
    path.write_bytes(PUBTATOR)
    found = list(read_documents(str(path)))
    documents = [item for item in found if not isinstance(item, Reject)]
    assert [(item.pmid, item.line, item.text) for item in documents] == [
        *((1, 1, "A title An abstract | with bars"), (2, 6, "Next "), (9, 10, "Last ")),
    ]
    assert documents[0].annotations == [Annotation(0, 1, "A", "Gene", ("7", "8"))]
    assert [item.line for item in found if isinstance(item, Reject)] == [8, 9, 11]
    articles = [item for item in read_pubtator(str(path)) if isinstance(item, Article)]
    assert articles[1] == Article(2, "Next", [])
