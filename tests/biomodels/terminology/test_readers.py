"""MRCONSO, MRSTY, OBO and TSV files: what is read, what is rejected, and that blocks do not matter."""

import gzip
import time

import pyarrow as pa
import pytest

from biomodels.errors import InputError
from biomodels.terminology.blocks import Block, read_blocks
from biomodels.terminology.languages import to_iso
from biomodels.terminology.mrconso import MrconsoFormat, MrstyFormat
from biomodels.terminology.obo import OboFormat
from biomodels.terminology.records import read
from biomodels.terminology.tsv import TsvFormat

META = """\
C0000001|ENG|P|L01|PF|S01|Y|A01||M1|D1|MSH|MH|D1|Headache|0|N|256|
C0000001|ENG|S|L02|VO|S02|N|A02||||SNM|SY|X|Cephalalgia; "cranial" pain|0|E||
C0000001|GER|P|L03|PF|S03|Y|A03||||MSHGER|MH|D1|Kopfschmerz|3|N||
C0000002|nna|P|L04|PF|S04|Y|A04||||HPONNA|PT|D2|Épilepsie 癫痫|0|O||
C0000003|ENG|P|L05|PF|S05|Y|A05||||HPO|PT|D3|  padded  |0|Y||
"""


def parse(form, data, file="dir/F.RRF"):
    return form.parse(Block(0, 1, data if isinstance(data, bytes) else data.encode()), file)


def reasons(parsed):
    return [(item.line, item.reason) for item in sorted(parsed.rejects)]


def test_mrconso_columns_ranks_and_states():
    parsed = parse(MrconsoFormat(), META)
    assert not parsed.rejects and parsed.rows == 5
    rows = parsed.records.to_pylist()
    assert rows[0] == {
        "concept_id": "C0000001",
        "name": "Headache",
        "language": "en",
        "source": "MSH",
        "term_type": "MH",
        "rank": 0,
        "state": 0,
    }
    assert [row["name"] for row in rows[1:]] == [
        'Cephalalgia; "cranial" pain',
        "Kopfschmerz",
        "Épilepsie 癫痫",
        "  padded  ",
    ]
    assert [row["language"] for row in rows] == ["en", "en", "de", "nna", "en"]
    assert [row["rank"] for row in rows] == [0, 8 + 4 + 2 + 16, 1, 1 + 16, 16]
    assert [row["state"] for row in rows] == [0, 1, 0, 2, 1]


def test_mrconso_bad_rows_become_rejects_and_the_rest_is_kept():
    lines = META.encode().splitlines()
    good = lines[0]
    bad = [
        good.removesuffix(b"|"),
        good + b"x|",
        good + b"x",
        good.replace(b"Headache", b"Kopf\xe4"),
        good.replace(b"Headache", b" \xc2\xa0 "),
        good.replace(b"C0000001", b""),
        good.replace(b"ENG", b"E1G"),
        good.replace(b"|N|", b"|?|"),
        good.replace(b"Headache", b"Head\rache"),
        b"nonsense",
    ]
    parsed = parse(MrconsoFormat(), b"\r\n".join([good, b"", *bad, good]))
    assert parsed.records["name"].to_pylist() == ["Headache", "Headache"]
    assert parsed.rows == 12
    found = reasons(parsed)
    assert [line for line, _ in found] == list(range(3, 13))
    expected = ["does not end with |", "has 19 columns where 18 are needed", "has 19 columns where 18 are needed"]
    expected += ["UTF-8 at byte", "empty name", "empty concept id", "LAT", "SUPPRESS", "carriage return"]
    expected += ["has 1 column where 18 are needed"]
    assert all(part in reason for part, (_, reason) in zip(expected, found, strict=True)), found
    assert all(item.file == "F.RRF" and len(item.content) <= 200 for item in parsed.rejects)
    assert "Kopf\\xe4" in sorted(parsed.rejects)[3].content


INVISIBLE = ["\u200b\u200b", "\x00\x01", " \ufeff\u00a0\u2028", "\x85\x1f", "\u00ad"]
SEEN = ["\u200bnaive\u200d", "\u05d0\u200f", "\x01x"]
WITH_NUL = ["a\x00b", "ab\x00"]


@pytest.mark.parametrize("kind", ["mrconso", "obo", "tsv"])
def test_names_that_show_nothing_or_hold_a_nul_are_rejected(kind):
    names = [*INVISIBLE, *WITH_NUL, *SEEN]
    if kind == "mrconso":
        line = META.splitlines()[0]
        parsed = parse(MrconsoFormat(), "".join(line.replace("Headache", name) + "\n" for name in names))
        lines = range(1, 1 + len(names))
    elif kind == "obo":
        parsed = parse(OboFormat(), "".join(f"[Term]\nid: X:1\nname: {name}\n" for name in names))
        lines = range(3, 3 + 3 * len(names), 3)
        synonyms = "".join(f'synonym: "{name}" EXACT []\n' for name in names)
        more = parse(OboFormat(), f"[Term]\nid: X:1\nname: x\n{synonyms}")
        assert more.records["name"].to_pylist() == ["x", *SEEN]
        assert [reason for _, reason in reasons(more)] == [reason for _, reason in reasons(parsed)]
    else:
        parsed = parse(TsvFormat(("concept_id", "name")), "id\tn\n" + "".join(f"A\t{name}\n" for name in names))
        lines = range(2, 2 + len(names))
    assert [name.strip() for name in parsed.records["name"].to_pylist()] == SEEN
    found = reasons(parsed)
    assert [line for line, _ in found] == list(lines)[: -len(SEEN)]
    assert all("empty name" in reason for _, reason in found[: len(INVISIBLE)])
    assert all("NUL" in reason for _, reason in found[len(INVISIBLE) :])


def test_mrsty():
    parsed = parse(MrstyFormat(), "C1|T047|B2|Disease|AT1||\nC1||B2|Disease|AT1||\nC2|T033|x\n")
    assert parsed.types.to_pylist() == [{"concept_id": "C1", "semantic_type": "T047"}]
    assert [line for line, _ in reasons(parsed)] == [2, 3]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("size", [1, 90, 1 << 20])
def test_blocks_hold_whole_lines_of_plain_and_gzip_files(tmp_path, packed, size):
    path = tmp_path / "meta"  # the name says nothing: the first bytes do
    path.write_bytes(gzip.compress(META.encode()) if packed else META.encode())
    blocks = list(read_blocks(str(path), size))
    assert b"".join(block.data for block in blocks).decode() == META
    assert all(block.data.endswith(b"\n") for block in blocks)
    assert [block.first_line for block in blocks] == [
        1 + b"".join(block.data for block in blocks[:number]).count(b"\n") for number in range(len(blocks))
    ]
    assert sum(block.consumed for block in blocks) == path.stat().st_size
    table = pa.concat_tables([parsed.records for parsed in read(str(path), MrconsoFormat(), size)])
    assert table.equals(parse(MrconsoFormat(), META).records.combine_chunks())


@pytest.mark.parametrize("boundary", [b"\n", b"\n[", b"\n[T"])
def test_blocks_are_cut_at_boundaries_that_lie_across_reads(tmp_path, boundary):
    path = tmp_path / "text"
    text = b"".join(b"x" * number + boundary for number in range(12)) + b"\n\n[end"
    path.write_bytes(text)
    for size in range(1, 20):
        blocks = list(read_blocks(str(path), size, boundary))
        assert b"".join(block.data for block in blocks) == text
        cuts = [0]  # after each read, at the last boundary so far
        for read_to in range(0, len(text) + size, max(size, 3)):
            cut = text.rfind(boundary, cuts[-1], read_to) + 1
            cuts += [cut] if cut else []
        assert [len(text) - len(b"".join(b.data for b in blocks[number:])) for number in range(len(blocks))] == cuts
        assert [block.first_line for block in blocks] == [1 + text[:cut].count(b"\n") for cut in cuts]


def test_a_long_line_in_small_blocks_takes_linear_time(tmp_path):
    path = tmp_path / "long"
    text = b"x" * (8 << 20) + b"\nend"
    path.write_bytes(text)
    start = time.process_time()
    assert [block.data for block in read_blocks(str(path), 64)] == [text[:-3], b"end"]
    assert time.process_time() - start < 10  # copying what is there with every read would move half a terabyte


def test_unreadable_files(tmp_path):
    with pytest.raises(InputError, match=r"none: cannot be read .*check the path"):
        list(read_blocks(str(tmp_path / "none")))
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(META.encode() * 100)[:-20])
    with pytest.raises(InputError, match="damaged gzip"):
        list(read_blocks(str(cut)))


OBO = """\
format-version: 1.2
ontology: demo

[Term]
id: HP:0000001
name: Seizure
alt_id: HP:0009999
synonym: "Epileptic \\"fit\\"" EXACT layperson [PMID:1]
synonym: "Convulsion" []
synonym: "Fits" NARROW obsolete_synonym []
synonym: broken EXACT []

[Typedef]
id: part_of
name: part of

[Term]
id: HP:0000002
name: obsolete Thing
is_obsolete: true

[Term]
id: local
name: Local term

[Term]
id: HP:0000003
synonym: "Orphan" BROAD []

[Term]
name: No id
"""


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_obo(tmp_path, size):
    path = tmp_path / "demo.obo"
    path.write_text(OBO, encoding="utf-8")
    parsed = list(read(str(path), OboFormat.of(str(path)), size))
    rows = [tuple(row.values()) for part in parsed for row in part.records.to_pylist()]
    assert rows == [
        ("HP:0000001", "Seizure", "en", "HP", "LABEL", 0, 0),
        ("HP:0000001", 'Epileptic "fit"', "en", "HP", "EXACT", 1, 0),
        ("HP:0000001", "Convulsion", "en", "HP", "RELATED", 4, 0),
        ("HP:0000001", "Fits", "en", "HP", "NARROW", 18, 2),
        ("HP:0000002", "obsolete Thing", "en", "HP", "LABEL", 16, 2),
        ("local", "Local term", "en", "demo", "LABEL", 0, 0),
        ("HP:0000003", "Orphan", "en", "HP", "BROAD", 3, 0),
    ]
    rejects = [item for part in parsed for item in part.rejects]
    assert sorted((item.line, item.reason) for item in rejects) == [
        (11, "is a synonym without a quoted name"),
        (26, "is a term without name"),
        (30, "is a term without id"),
    ]


def test_obo_drops_nothing_in_silence():
    parsed = parse(
        OboFormat("x"),
        b"format-version: 1.4\n\n"
        b"[Term] ! a comment\nid: X:1 ! one\nname: One\nname: Uno\nid: X:9\n! a comment\n"  # 3 to 8
        b'synonym "Ein"\nsynonym : "Eins" EXACT []\njust words\n: nothing\n\n'  # 9 to 13
        b"[Term\nid: X:2\nname: Two\n\n"
        b"[term]\nid: X:3\nname: Three\n\n"
        b"[]\nid: X:4\n\n[Term] x\nid: X:5\n[T\xe4rm]\nname: Six\n\n"  # 22, 25, 27
        b"[Typedef]\nid: part_of\nno colon\n\n[Instance]\nid: i\n\n[Term]\nid: X:7\nname: Seven\n",
        "x.obo",
    )
    assert [(row["concept_id"], row["name"]) for row in parsed.records.to_pylist()] == [
        ("X:1", "One"),
        ("X:1", "Eins"),
        ("X:7", "Seven"),
    ]
    header = "is no stanza header such as [Term]; its stanza is not read"
    tagless = "is a line of a term without a tag and a colon"
    assert reasons(parsed) == [
        (6, "is a second name of its term"),
        (7, "is a second id of its term"),
        (9, tagless),
        (11, tagless),
        (12, tagless),
        (14, header),
        (18, header),
        (22, header),
        (25, header),
        (27, "is not UTF-8 at byte 3 of the line"),
    ]
    assert [item.content for item in sorted(parsed.rejects)][2:7] == [
        'synonym "Ein"',
        "just words",
        ": nothing",
        "[Term",
        "[term]",
    ]


def test_obo_without_terms(tmp_path):
    path = tmp_path / "empty.obo"
    path.write_text("format-version: 1.2\nontology: demo\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"empty\.obo: holds no \[Term\]"):
        OboFormat.of(str(path))


def test_tsv(tmp_path):
    path = tmp_path / "my.tsv"
    path.write_text(
        "\ufeffname\tlanguage\tconcept_id\tnote\tpreferred\tsemantic_types\n"
        "Heart attack\tENG\tA1\tx\t0\tT047|T046\n"
        "Myocardial infarction\t\tA1\t\tYes\t\n"
        "Herzinfarkt\tde\tA1\t\t\tT047\n"
        "too\tfew\n"
        "Name\ten\tA2\t\tmaybe\t\n"
        "Name\tklingon\tA2\t\t1\t\n"
        "\ten\tA2\t\t1\t\n",
        encoding="utf-8",
    )
    parsed = list(read(str(path), TsvFormat.of(str(path)), block_bytes=60))
    rows = [tuple(row.values()) for part in parsed for row in part.records.to_pylist()]
    assert rows == [
        ("A1", "Heart attack", "en", "", "", 1, 0),
        ("A1", "Myocardial infarction", "und", "", "", 0, 0),
        ("A1", "Herzinfarkt", "de", "", "", 1, 0),
    ]
    types = {tuple(row.values()) for part in parsed for row in part.types.to_pylist()}
    assert types == {("A1", "T047"), ("A1", "T046")}
    assert sorted(item.line for part in parsed for item in part.rejects) == [5, 6, 7, 8]


def test_tsv_headers(tmp_path):
    path = tmp_path / "bad.tsv"
    path.write_text("id\tname\nA\tb\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"bad\.tsv:1: the header lacks concept_id \(it has: id, name\)"):
        TsvFormat.of(str(path))
    path.write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="lacks concept_id, name"):
        TsvFormat.of(str(path))


def test_language_codes():
    umls = "ENG SPA FRE GER ITA JPN CHI DUT CZE TUR POR RUS SWE FIN NOR DAN HUN POL KOR SCR LAV EST GRE BAQ HEB UKR ARA"
    iso = "en es fr de it ja zh nl cs tr pt ru sv fi no da hu pl ko hr lv et el eu he uk ar"
    assert [to_iso(code) for code in umls.split()] == iso.split()
    assert [to_iso(code) for code in ("TWI", "nna", "DTP", "pt-BR", "deu", "EN")] == [
        "tw",
        "nna",
        "dtp",
        "pt",
        "de",
        "en",
    ]
    for wrong in ("", "e", "xx", "engl", "E1G"):
        with pytest.raises(ValueError, match="no language code"):
            to_iso(wrong)


def test_real_sample(shared_data):
    sample = shared_data / "terminology" / "sample"
    rows = rejected = 0
    for parsed in read(str(sample / "MRCONSO.RRF"), MrconsoFormat(), 1 << 20):
        rows += parsed.rows
        rejected += len(parsed.rejects)
    assert (rows, rejected) == (27_860, 0)
