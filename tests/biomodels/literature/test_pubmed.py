"""PubMed XML: what becomes of each kind of element, and that no text is lost."""

import gzip

import pytest
from lxml import etree

from biomodels.literature.articles import (
    Article,
    Deletion,
    Section,
    events_table,
    join_sections,
    parse_pmid,
    section_spans,
    translated_title,
)
from biomodels.literature.pubmed import read_pubmed
from biomodels.terminology.rejects import Reject

RICH = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2025//EN" "https://dtd.nlm.nih.gov/x.dtd">
<PubmedArticleSet>
<PubmedArticle><MedlineCitation Status="MEDLINE" Owner="NLM">
<PMID Version="2">11</PMID>
<Article><Journal><JournalIssue><PubDate><MedlineDate>1998 Dec-1999 Jan</MedlineDate></PubDate></JournalIssue></Journal>
<ArticleTitle>[Loss of NF-&#954;B in <i>Mus</i> T<sub>1</sub>,
  T<sub>2</sub>].</ArticleTitle>
<Abstract>
<AbstractText Label="AIM" NlmCategory="OBJECTIVE">A &lt; B<!-- note --> &amp; <b>c</b>.</AbstractText>
<AbstractText Label="METHODS"> </AbstractText>
<AbstractText Label="UNLABELLED">Plain.</AbstractText>
<AbstractText Label="Result:">x<sup>2</sup> in <mml:math xmlns:mml="m"><mml:mi>y</mml:mi></mml:math></AbstractText>
<CopyrightInformation>Copyright.</CopyrightInformation></Abstract>
<Language>ger</Language><Language>eng</Language>
<PublicationTypeList><PublicationType UI="D016428">Journal Article</PublicationType>
<PublicationType UI="D016441">Retracted Publication</PublicationType></PublicationTypeList>
<VernacularTitle>Verlust.</VernacularTitle></Article>
<CommentsCorrectionsList><CommentsCorrections RefType="ErratumIn"><PMID Version="1">1</PMID></CommentsCorrections>
<CommentsCorrections RefType="RetractionIn"><PMID Version="1">2</PMID></CommentsCorrections></CommentsCorrectionsList>
<OtherAbstract Type="Publisher" Language="ger"><AbstractText>Nicht.</AbstractText></OtherAbstract>
<OtherAbstract Type="plain-language-summary" Language="eng"><AbstractText>Easy.</AbstractText></OtherAbstract>
</MedlineCitation></PubmedArticle>
<PubmedArticle><MedlineCitation><PMID>12</PMID><Article><ArticleTitle/></Article>
<CommentsCorrectionsList><CommentsCorrections RefType="ErratumIn"/><CommentsCorrections RefType="CommentIn"/>
</CommentsCorrectionsList></MedlineCitation></PubmedArticle>
<PubmedBookArticle><BookDocument><PMID Version="1">20301295</PMID>
<Book><BookTitle book="gene">Reviews</BookTitle><PubDate><Year>1993</Year></PubDate></Book>
<ArticleTitle book="gene" part="a">A <i>Disease</i></ArticleTitle><Language>eng</Language>
<PublicationType UI="D016454">Review</PublicationType>
<Abstract><AbstractText Label="CLINICAL">Text.</AbstractText></Abstract></BookDocument></PubmedBookArticle>
<PubmedArticle><PubmedData/></PubmedArticle>
<PubmedArticle><MedlineCitation><Article/></MedlineCitation></PubmedArticle>
<PubmedArticle><MedlineCitation><PMID>1&foo;</PMID><Article><ArticleTitle>a<i/>&foo;</ArticleTitle></Article>
</MedlineCitation></PubmedArticle>
<DeleteCitation><PMID Version="1">31</PMID><PMID Version="1">32</PMID></DeleteCitation>
</PubmedArticleSet>
"""


@pytest.fixture
def rich(tmp_path) -> list:
    path = tmp_path / "rich.xml"
    path.write_text(RICH, encoding="utf-8")
    return list(read_pubmed(str(path)))


def test_an_article_keeps_all_its_text(rich):
    article = rich[0]
    assert article == Article(
        pmid=11,
        version=2,
        title="[Loss of NF-κB in Mus T1, T2].",
        sections=[Section("AIM", "A < B & c."), Section(None, "Plain."), Section("Result", "x2 in y")],
        year=1998,
        languages=["de", "en"],
        publication_types=["Journal Article", "Retracted Publication"],
        status="MEDLINE",
        retracted_by=["D016441", "RetractionIn"],
        vernacular_title="Verlust.",
        plain_language_summary="Easy.",
    )
    assert article.abstract == "AIM: A < B & c. Plain. Result: x2 in y"
    spans = section_spans(article.sections)
    assert [article.abstract[start:end] for start, end in spans] == [section.text for section in article.sections]


def test_errata_and_comments_retract_nothing(rich):
    assert rich[1] == Article(pmid=12, title="", sections=[])


def test_books_rejects_and_deletions(rich):
    book, *rejects, first, second = rich[2:]
    assert (book.pmid, book.title, book.abstract, book.year, book.book) == (
        *(20301295, "A Disease", "CLINICAL: Text.", 1993, True),
    )
    assert [type(reject) for reject in rejects] == [Reject] * 3
    assert [reject.reason.split(":")[0] for reject in rejects] == [
        "is a record without MedlineCitation",
        "is a record without PMID",
        "refers to an entity, whose text is not known",
    ]
    assert rejects[0].line == 32 and (first, second) == (Deletion(31), Deletion(32))


def test_events_as_a_table(rich):
    rows = events_table([event for event in rich if not isinstance(event, Reject)], "f.xml").to_pylist()
    assert rows[0]["translated_title"] == "Loss of NF-κB in Mus T1, T2" and rows[0]["retracted"]
    assert [section["label"] for section in rows[0]["sections"]] == ["AIM", None, "Result"]
    assert rows[1]["sections"] == [] and not rows[1]["retracted"] and rows[1]["languages"] is None
    assert rows[3] == dict.fromkeys(rows[3], None) | {"pmid": 31, "source_file": "f.xml"}


@pytest.mark.parametrize(
    ("title", "plain"),
    [
        ("[A title].", "A title"),
        ("[A title (author's transl)].", "A title"),
        ("[A title] (author's transl)", "A title"),
        ("[3H]thymidine uptake.", None),
        ("A title.", None),
        ("", None),
    ],
)
def test_translated_titles(title, plain):
    assert translated_title(title) == plain


def test_pmids():
    assert parse_pmid(" 12 ") == 12
    assert [parse_pmid(text) for text in ("", "0", "012", "-1", "1.0", "PMC1", "٣", "9" * 12)] == [None] * 8


def whole_text(element) -> str:
    return " ".join(etree.tostring(element, method="text", encoding="unicode", with_tail=False).split())


@pytest.mark.slow
def test_nothing_of_a_real_update_file_is_lost(pubmed_files):
    """Compare every title and abstract with the text content of the XML, read as one tree."""
    path = pubmed_files / "pubmed21n1298.xml.gz"
    with gzip.open(path) as stream:
        tree = etree.parse(stream)
    parsed = list(read_pubmed(str(path)))
    articles = [event for event in parsed if isinstance(event, Article)]
    assert len(articles) == 20_788 and len({article.pmid for article in articles}) == 20_783
    assert len(parsed) - len(articles) == 20
    for article, citation in zip(articles, tree.iterfind("PubmedArticle/MedlineCitation"), strict=True):
        assert article.pmid == int(citation.findtext("PMID"))
        assert article.title == whole_text(citation.find("Article/ArticleTitle"))
        texts = [text for part in citation.iterfind("Article/Abstract/AbstractText") if (text := whole_text(part))]
        assert [section.text for section in article.sections] == texts
        labels = [section.label for section in article.sections if section.label]
        plain = join_sections([Section(None, section.text) for section in article.sections])
        assert plain == " ".join(texts)
        assert sum(len(label) + 2 for label in labels) + len(plain) == len(article.abstract)
