"""Files of training sentences, whole and in pieces, sound and not."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from biomodels.errors import InputError
from biomodels.sentences.readers import Bad, Example, Nli, open_source, read


def rows(path, content, **options):
    path = Path(path)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(read(open_source(str(path), **options)))


def test_text_has_one_sentence_a_line(tmp_path):
    found = rows(tmp_path / "a.txt", '\ufefffirst one \r\n\n  \nÆ second, "quoted\tone\nlast'.encode())
    assert found == [
        (1, Example("first one")),
        (4, Example('Æ second, "quoted\tone')),
        (5, Example("last")),
    ]


def test_csv_of_one_to_five_columns_is_quoted_properly(tmp_path):
    found = rows(
        tmp_path / "a.csv", 'sent0,sent1,hard_neg\r\n"a, b","he said ""so""\nand left",c d\r\n,,\r\n\r\ne f,g h,i j\r\n'
    )
    assert found == [
        (2, Example("a, b", 'he said "so"\nand left', ("c d",))),
        (6, Example("e f", "g h", ("i j",))),
    ]
    assert rows(tmp_path / "b.csv", "text\nOne sentence\n") == [(2, Example("One sentence"))]
    assert rows(tmp_path / "c.csv", "one two,three four\n") == [(1, Example("one two", "three four"))]
    assert rows(tmp_path / "d.csv", "a,b,n1,n2,n3\np q,r s,t u,v w,x y\n")[0][1] == Example(
        "p q", "r s", ("t u", "v w", "x y")
    )


def test_the_header_is_found_by_rule_or_as_told(tmp_path):
    assert rows(tmp_path / "a.csv", "Hello,World\nx,y\n") == [(2, Example("x", "y"))]
    assert [line for line, _ in rows(tmp_path / "a.csv", "Hello,World\nx,y\n", header=False)] == [1, 2]
    assert [line for line, _ in rows(tmp_path / "a.csv", "same,same\nx,y\n")] == [1, 2]
    assert [line for line, _ in rows(tmp_path / "a.csv", "no header here,x\nx,y\n")] == [1, 2]
    assert rows(tmp_path / "a.csv", "two words,are header\nx,y\n", header=True) == [(2, Example("x", "y"))]


def test_tsv_knows_no_quotes(tmp_path):
    found = rows(tmp_path / "a.tsv", 'anchor\tpositive\n"open quote\tfine "\nx\ty\n')
    assert found == [(2, Example('"open quote', 'fine "')), (3, Example("x", "y"))]


def test_json_lines(tmp_path):
    lines = [
        {"sentence_1": "a"},
        {"anchor": "a", "positive": "b", "negative": "c"},
        {"query": "a", "pos": "b", "neg": ["c", "d"]},
        ["a", "b", "c"],
        ["a"],
        {"sent0": "a", "sent1": None},
    ]
    found = rows(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines)))
    assert [outcome for _, outcome in found] == [
        Example("a"),
        Example("a", "b", ("c",)),
        Example("a", "b", ("c", "d")),
        Example("a", "b", ("c",)),
        Example("a"),
        Example("a"),
    ]


NLI = [
    {"gold_label": "entailment", "sentence1": "p", "sentence2": "h1"},
    {"gold_label": "-", "sentence1": "p", "sentence2": "h2"},
    {"gold_label": "contradiction", "sentence1": "p", "sentence2": "h3"},
    {"gold_label": "neutral", "sentence1": "p", "sentence2": "h4"},
]


def test_nli_as_json_lines_and_as_the_table_of_snli(tmp_path):
    expected = [
        Nli("p", "h1", "entailment"),
        Nli("p", "h2", None),
        Nli("p", "h3", "contradiction"),
        Nli("p", "h4", "neutral"),
    ]
    found = rows(tmp_path / "snli.jsonl", "\n".join(map(json.dumps, NLI)))
    assert [outcome for _, outcome in found] == expected
    table = "gold_label\tsentence1_parse\tsentence1\tsentence2\tlabel1\n" + "".join(
        f"{row['gold_label']}\t( x )\t{row['sentence1']}\t{row['sentence2']}\tneutral\n" for row in NLI
    )
    assert [outcome for _, outcome in rows(tmp_path / "snli.txt", table)] == expected
    bad = rows(tmp_path / "bad.txt", table.replace("neutral\t(", "perhaps\t("))[-1]
    assert bad[0] == 5 and bad[1].reason.startswith("has the label 'perhaps'")


@pytest.mark.parametrize(
    ("name", "content", "line", "reason"),
    [
        ("a.csv", "x,y\na,b\nragged\n", 3, "has 1 column where 2 are needed"),
        ("a.csv", "x,y\na,b\nc,d,e\n", 3, "has 3 columns where 2 are needed"),
        ("a.csv", "x,y\na,b\nc,\n", 3, "has an empty sentence"),
        ("a.csv", 'x,y\na,b\n"c"d,e\n', 3, "is no CSV"),
        ("a.csv", b"x,y\na,b\ncaf\xe9,e\n", 3, "is not UTF-8"),
        ("a.txt", b"fine\ncaf\xe9\n", 2, "is not UTF-8"),
        ("a.txt", b"fine\na\0b\n", 2, "holds a NUL"),
        ("a.jsonl", '{"text": "a"}\n{"text": \n', 2, "is no JSON"),
        ("a.jsonl", '{"text": "a"}\n7\n', 2, "is neither an object nor a list"),
        ("a.jsonl", '{"text": "a"}\n{"words": "a"}\n', 2, "has none of the keys"),
        ("a.jsonl", '{"text": "a"}\n{"text": 7}\n', 2, "has a sentence that is no text"),
        ("a.jsonl", '{"text": "a"}\n{"text": "a", "neg": "b"}\n', 2, "has a hard negative but no second"),
        ("a.jsonl", '{"text": "a"}\n{"text": "half \\ud800"}\n', 2, "is not UTF-8"),
        ("a.jsonl", '{"text": "a"}\n' + "[" * 100_000 + "\n", 2, "is no JSON"),
    ],
)
def test_a_bad_row_is_told_with_its_line(tmp_path, name, content, line, reason):
    found = rows(tmp_path / name, content)
    assert [(number, outcome.reason.startswith(reason)) for number, outcome in found if isinstance(outcome, Bad)] == [
        (line, True)
    ]
    assert sum(isinstance(outcome, Example) for _, outcome in found) == 1


def test_a_quote_that_is_never_closed_does_not_swallow_the_file(tmp_path):
    with pytest.raises(InputError, match=r"a\.csv:3: a quoted field does not end"):
        rows(tmp_path / "a.csv", 'x,y\na,b\n"c,d\n' + "e,f\n" * 10)


def test_a_text_of_a_hundred_thousand_words(tmp_path):
    long = "word " * 100_000
    assert rows(tmp_path / "a.csv", f"x,y\n{long},b\n") == [(2, Example(long.strip(), "b"))]
    assert rows(tmp_path / "a.txt", long) == [(1, Example(long.strip()))]


def test_gzip_and_empty_and_missing(tmp_path):
    assert rows(tmp_path / "a.csv.gz", gzip.compress(b"x,y\na,b\n")) == [(2, Example("a", "b"))]
    for name in ("a.txt", "a.csv"):
        (tmp_path / name).write_text("\n \n")
        with pytest.raises(InputError, match="is empty"):
            open_source(str(tmp_path / name))
    with pytest.raises(InputError, match="cannot be read"):
        open_source(str(tmp_path / "missing"))


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1000])
def test_pieces_give_the_rows_of_the_whole(tmp_path, size):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{'x' * (i % 9)} line {i}\n{chr(10) * (i % 3)}" for i in range(40)))
    source = open_source(str(path))
    whole = [outcome for _, outcome in read(source)]
    starts = range(0, source.bytes, size)
    assert [row for start in starts for _, row in read(source, start, min(start + size, source.bytes))] == whole


def test_the_shared_triplets(shared_data):
    path = str(shared_data / "sentences" / "nli" / "snli_devtest_for_simcse.csv")
    found = [outcome for _, outcome in read(open_source(path))]
    assert len(found) == 6339
    assert {outcome.columns for outcome in found} == {3}
