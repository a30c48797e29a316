"""The readers: every offset dialect, every irregularity, bad files, and the counts of the real corpora."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from biomodels.errors import InputError
from biomodels.relations import bnl_json, ddi, ppi
from biomodels.relations.irregularities import KINDS
from biomodels.relations.offsets import DDI_DIALECT, moved, unescape
from biomodels.relations.records import Sentence, mention_at


def read(module, path) -> tuple[str, list[Sentence]]:
    offsets, sentences = module.read(str(path))
    return offsets, list(sentences)


def kinds(sentences) -> Counter[str]:
    found = Counter(odd.kind for sentence in sentences for odd in sentence.irregularities)
    assert set(found) <= set(KINDS)
    return found


def test_ddi(ddi_file):
    offsets, sentences = read(ddi, ddi_file)
    assert offsets == DDI_DIALECT.name
    assert kinds(sentences) == {
        "blank_edges": 1,
        "control_characters": 1,
        "discontinuous": 1,
        "double_escape": 1,
        "empty_sentence": 1,
        "mention_differs": 2,
        "missing_pairs": 1,
        "overlapping": 1,
        "untyped_positive": 1,
    }
    first, _, shared, escaped = sentences
    assert first.text == "Aspirin raises warfarin levels.\n"
    pair = first.pairs[0]
    assert (pair.label, pair.relation_type, pair.entity_1.type) == (True, "mechanism", "brand")
    assert (shared.pairs[0].label, shared.pairs[0].relation_type) == (True, None)
    assert mention_at(shared.text, shared.entities[0].spans) == "loop diuretics"
    assert escaped.text == "A < B and CC with A"
    assert [mention_at(escaped.text, entity.spans) for entity in escaped.entities] == ["A", "B", "CC", "A"]
    assert [pair.relation_type for pair in escaped.pairs] == [None, None, None, "effect"]
    odd = next(odd for odd in escaped.irregularities if odd.kind == "mention_differs")
    assert (odd.file, odd.line, odd.item) == ("made_ddi.xml", 17, "DDI-Made.d1.s3.e2") and "CC" in odd.detail


def test_offsets_may_count_the_unescaped_text():
    text, places = unescape("a &lt;b&#x3e; c")
    assert text == "a <b> c"
    assert moved(((6, 7),), places) == ((3, 4),) and moved(((2, 6),), places) == ((2, 3),)
    assert moved(((14, 15),), places) == ((6, 7),)
    assert unescape("AT&T; &c.")[0] == "AT&T; &c."


@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize(("offsets", "separator"), [("inclusive", ","), ("exclusive", ","), ("inclusive", ";")])
def test_ppi_dialects_are_told_by_the_text(tmp_path, ppi_xml, offsets, separator, pairs):
    path = tmp_path / "x.xml"
    path.write_text(ppi_xml(offsets, pairs, separator), encoding="utf-8")
    found, sentences = read(ppi, path)
    assert found.startswith(offsets) and repr(separator) in found
    (sentence, empty) = sentences
    assert [mention_at(sentence.text, entity.spans) for entity in sentence.entities] == [
        entity.text for entity in sentence.entities
    ]
    assert [(pair.id, pair.label) for pair in sentence.pairs] == [(f"X.d0.s0.p{n}", n == 0) for n in range(6)]
    assert kinds(sentences) == {"discontinuous": 1, "overlapping": 1} and not empty.pairs


def test_ppi_interactions_with_oneself_and_in_both_directions(tmp_path, ppi_xml):
    interactions = '<interaction e1="X.d0.s0.e0" e2="X.d0.s0.e1"/><interaction e1="X.d0.s0.e2" e2="X.d0.s0.e2"/>'
    path = tmp_path / "x.xml"
    path.write_text(ppi_xml("exclusive", False).replace("</sentence>", interactions + "</sentence>", 1))
    _, sentences = read(ppi, path)
    assert [pair.label for pair in sentences[0].pairs] == [True] + [False] * 5 + [True]
    found = kinds(sentences)
    assert (found["repeated_pair"], found["self_pair"]) == (1, 1)


def test_bnl(tmp_path, bnl_line):
    lines = [
        bnl_line(0, "positive"),
        bnl_line(1, "DDI-false", spans_1=((0, 15),), mention_1="KinA binds [E2]KinB"),
        bnl_line(0, "DDI-effect", sentence=1, spans_1=((0, 4), (16, 20)), mention_1="KinA here"),
        "",
        '{"id": "X", "text": "abc"}',
        bnl_line(1, "negative", sentence=2, spans_1=((0, 99),)),
    ]
    path = tmp_path / "test_0.json"
    path.write_text("\n".join(lines), encoding="utf-8")
    _, sentences = read(bnl_json, path)
    pairs = [pair for sentence in sentences for pair in sentence.pairs]
    assert [(pair.id, pair.label, pair.relation_type) for pair in pairs] == [
        ("X.d0.s0.p0", True, None),
        ("X.d0.s0.p1", False, None),
        ("X.d0.s1.p0", True, "effect"),
    ]
    assert {sentence.document_id for sentence in sentences if sentence.pairs} == {"X.d0"}
    assert kinds(sentences) == {"marker_in_mention": 1, "nested": 1, "discontinuous": 1}
    assert pairs[1].entity_1.text == "KinA binds KinB" and len(sentences[0].entities) == 3
    rejects = [reject for sentence in sentences for reject in sentence.rejects]
    assert [reject.line for reject in rejects] == [5, 6] and "'relation'" in rejects[0].reason


@pytest.mark.parametrize(
    ("module", "content", "message"),
    [
        (ddi, "<document id='D'><sentence id='S' text='a'>", "x:1: is no well-formed XML"),
        (ddi, "<document><sentence id='S' text='a'/></document>", "without the attribute id"),
        (ddi, "<document id='D'><sentence id='S'/></document>", "without the attribute text"),
        (ddi, "<document id='D'/>", "holds no <sentence>"),
        (ppi, "<sentence id='S' text='a'/>", "outside of a <document>"),
        (ppi, "not XML", "no well-formed XML"),
        (bnl_json, "<xml/>", "no JSON lines"),
    ],
)
def test_bad_files(tmp_path, module, content, message):
    path = tmp_path / "x"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        read(module, path)


def test_a_missing_file(tmp_path):
    for module in (ddi, ppi, bnl_json):
        with pytest.raises(InputError, match="cannot be read"):
            read(module, tmp_path / "none")


def test_bad_offsets(tmp_path, ddi_file, ppi_xml):
    text = Path(ddi_file).read_text()
    for bad in ("x-y", "6-0", "0-600", "0"):
        path = tmp_path / "bad.xml"
        path.write_text(text.replace('"0-6"', f'"{bad}"'))
        _, sentences = read(ddi, path)
        entity, pair = sentences[0].rejects
        assert (entity.line, pair.line) == (4, 6) and "not usable" in pair.reason and not sentences[0].pairs
    path.write_text(ppi_xml("exclusive", True).replace("KinA binds KinB,", "Nothing here is as it was and"))
    with pytest.raises(InputError, match="offsets of 4 of 4 mentions do not fit"):
        read(ppi, path)


def test_bad_pairs(tmp_path, ddi_file):
    text = Path(ddi_file).read_text()
    path = tmp_path / "bad.xml"
    for old, new, reason in [
        ('ddi="true" type="mechanism"', 'ddi="maybe"', "not true or false"),
        ('type="mechanism"', 'type="magic"', "not one of"),
        ('e2="DDI-Made.d1.s0.e1"', 'e2="DDI-Made.d1.s0.e9"', "not usable"),
    ]:
        path.write_text(text.replace(old, new))
        _, sentences = read(ddi, path)
        assert reason in sentences[0].rejects[0].reason and not sentences[0].pairs


def test_the_recognition_test_set_is_refused(tmp_path, ddi_file):
    folder = tmp_path / "Test for DrugNER task" / "DrugBank"
    folder.mkdir(parents=True)
    (folder / "x.xml").write_text(Path(ddi_file).read_text())
    with pytest.raises(InputError, match="DrugNER test set, whose pairs are all false"):
        read(ddi, folder / "x.xml")


def test_the_parser_neither_expands_entities_nor_reads_other_files(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    path = tmp_path / "x.xml"
    path.write_text(
        f'<!DOCTYPE d [<!ENTITY s SYSTEM "{secret}"><!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
        "<document id='D'><sentence id='S' text='x'>&s;&b;</sentence></document>"
    )
    _, sentences = read(ddi, path)
    assert [sentence.text for sentence in sentences] == ["x"]


def test_ddi_training_set(shared_data):
    folder = shared_data / "relations" / "ddi2013" / "Train"
    found = Counter()
    odd = Counter()
    types = Counter()
    for path in sorted(folder.glob("*/*.xml")):
        offsets, sentences = read(ddi, path)
        assert offsets == DDI_DIALECT.name
        for sentence in sentences:
            found["pairs"] += len(sentence.pairs)
            found["positive"] += sum(pair.label for pair in sentence.pairs)
            found["rejects"] += len(sentence.rejects)
            found["mentions"] += len(sentence.entities)
            found["wrong"] += sum(mention_at(sentence.text, e.spans) != e.text for e in sentence.entities)
            types.update(pair.relation_type for pair in sentence.pairs if pair.label)
        odd.update(kinds(sentences))
    assert found == Counter(pairs=27_792, positive=4_021, mentions=14_765, wrong=4)
    assert types == {"effect": 1687, "mechanism": 1319, "advise": 826, "int": 188, None: 1}
    assert odd == {
        "blank_edges": 1133,
        "control_characters": 116,
        "discontinuous": 38,
        "empty_sentence": 71,
        "mention_differs": 1,
        "mention_differs_in_blanks": 3,
        "overlapping": 47,
        "untyped_positive": 1,
    }


@pytest.mark.parametrize(
    ("corpus", "module", "pairs", "positive", "odd"),
    [
        ("ppi/AIMed", ppi, 5775, 991, {"nested": 162}),
        ("ppi/IEPA", ppi, 817, 335, {}),
        ("ppi/LLL", ppi, 330, 164, {}),
        ("ppi_folds/AIMed", bnl_json, 5834, 1000, {"nested": 164, "marker_in_mention": 148}),
        ("ppi_folds/LLL", bnl_json, 330, 164, {}),
    ],
)
def test_ppi_corpora(shared_data, corpus, module, pairs, positive, odd):
    files = sorted((shared_data / "relations" / corpus).glob("test_*.json" if module is bnl_json else "*.xml"))
    sentences = [sentence for path in files for sentence in read(module, path)[1]]
    found = [pair for sentence in sentences for pair in sentence.pairs]
    assert (len(found), sum(pair.label for pair in found)) == (pairs, positive)
    assert kinds(sentences) == odd
    assert all(mention_at(s.text, e.spans) == e.text for s in sentences for e in s.entities)
