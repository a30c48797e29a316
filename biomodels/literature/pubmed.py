"""PubMed XML, as NLM distributes it: `PubmedArticleSet` files of the baseline and the daily updates.

Format: https://dtd.nlm.nih.gov/ncbi/pubmed/doc/out/250101/. A file is read as a stream: of a record nothing stays but
its `Article`. Entities and DTDs are never loaded, and a file that declares entities is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lxml import etree

from biomodels.errors import InputError
from biomodels.literature.articles import (
    Article,
    Deletion,
    Parsed,
    Section,
    fold_space,
    parse_languages,
    parse_pmid,
    parse_year,
)
from biomodels.terminology.blocks import read_chunks
from biomodels.terminology.rejects import Reject

CHUNK_BYTES = 1 << 18
UNLABELLED = "UNLABELLED"
PLAIN_LANGUAGE = "plain-language-summary"

RETRACTION_TYPES = {
    "D016441": "Retracted Publication",
    "D016440": "Retraction of Publication",
    "D016425": "Published Erratum",
    "D000075742": "Expression of Concern",
    "D016438": "Duplicate Publication",
}
"""MeSH unique ids of the publication types that flag an article."""

RETRACTION_REFERENCES = frozenset(
    {
        *("RetractionIn", "RetractionOf", "ExpressionOfConcernIn", "ExpressionOfConcernFor"),
        *("RepublishedIn", "RetractedandRepublishedIn"),
    }
)
"""`RefType`s of CommentsCorrections that flag an article. Sound articles have `ErratumIn` and `CommentIn` too."""

_ROOTS = ("PubmedArticleSet", "PubmedBookArticleSet")
_RECORDS = ("PubmedArticle", "PubmedBookArticle", "DeleteCitation")

_Element = Any


def read_pubmed(uri: str) -> Iterator[Parsed]:
    """Stream a PubMed XML file, plain or gzip.

    Yields:
        An `Article` per record, a `Deletion` per PMID of a `DeleteCitation`, and a `Reject` per record that has no
        usable PMID, version or text; in the order of the file.

    Raises:
        InputError: the file is no well-formed PubMed XML, is cut short, or declares entities.
    """
    parser = etree.XMLPullParser(
        events=("start", "end"),
        tag=(*_ROOTS, *_RECORDS),
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    checked = False
    try:
        for chunk in read_chunks(uri, CHUNK_BYTES):
            parser.feed(chunk)
            for kind, element in parser.read_events():
                if not checked:
                    _check_head(element, uri)
                    checked = True
                if kind == "end" and element.tag in _RECORDS:
                    yield from _read_record(element, uri)
                    element.clear()
                    while element.getprevious() is not None:
                        del element.getparent()[0]
        root = parser.close()
    except etree.XMLSyntaxError as error:
        raise InputError.at(uri, error.lineno, f"is no well-formed XML ({error.msg})", "fetch it again") from error
    if not checked:
        _check_head(root, uri)


def _check_head(element: _Element, uri: str) -> None:
    """Judge a file by its first element of interest, before anything of it is used."""
    tree = element.getroottree()
    declared = tree.docinfo.internalDTD
    if declared is not None and any(True for _ in declared.iterentities()):
        raise InputError.at(uri, 1, "declares entities, which PubMed files never do", "do not use it")
    root = tree.getroot().tag
    if root not in _ROOTS:
        raise InputError.at(uri, 1, f"is no PubMed XML: its root is <{root}>", f"give a file of <{_ROOTS[0]}>")


def _read_record(element: _Element, uri: str) -> Iterator[Parsed]:
    if element.tag == "DeleteCitation":
        for pmid in element.iterfind("PMID"):
            number = parse_pmid(pmid.text or "")
            if number is None:
                yield Reject.of(uri, pmid.sourceline, "deletes what is no PMID", pmid.text or "")
            else:
                yield Deletion(number)
        return
    try:
        yield _book(element) if element.tag == "PubmedBookArticle" else _article(element)
    except _UnusableError as error:
        shown = element.findtext(".//PMID") or ""
        yield Reject.of(uri, element.sourceline, str(error), f"PMID {shown}")


class _UnusableError(Exception):
    """A record that cannot be used; the message says why."""


def _article(element: _Element) -> Article:
    citation = element.find("MedlineCitation")
    if citation is None:
        raise _UnusableError("is a record without MedlineCitation")
    pmid, version = _identity(citation)
    article = citation.find("Article")
    if article is None:
        raise _UnusableError("is a record without Article")
    return Article(
        pmid=pmid,
        version=version,
        title=_text(article.find("ArticleTitle")),
        sections=_sections(article.find("Abstract")),
        year=_year(article.find("Journal/JournalIssue/PubDate")),
        languages=_languages(article),
        publication_types=_publication_types(article.iterfind("PublicationTypeList/PublicationType")),
        status=citation.get("Status"),
        retracted_by=_retracted_by(citation, article.iterfind("PublicationTypeList/PublicationType")),
        vernacular_title=_text(article.find("VernacularTitle")) or None,
        plain_language_summary=_plain_language(citation),
    )


def _book(element: _Element) -> Article:
    document = element.find("BookDocument")
    if document is None:
        raise _UnusableError("is a record without BookDocument")
    pmid, version = _identity(document)
    return Article(
        pmid=pmid,
        version=version,
        title=_text(document.find("ArticleTitle")) or _text(document.find("Book/BookTitle")),
        sections=_sections(document.find("Abstract")),
        year=_year(document.find("Book/PubDate")),
        languages=_languages(document),
        publication_types=_publication_types(document.iterfind("PublicationType")),
        retracted_by=_retracted_by(document, document.iterfind("PublicationType")),
        vernacular_title=_text(document.find("VernacularTitle")) or None,
        book=True,
    )


def _identity(record: _Element) -> tuple[int, int]:
    element = record.find("PMID")
    if element is None:
        raise _UnusableError("is a record without PMID")
    pmid = parse_pmid(element.text or "")
    if pmid is None:
        raise _UnusableError(f"has a PMID that is no number: {element.text!r}")
    version = element.get("Version", "1")
    if not version.isascii() or not version.isdigit() or len(version) > 6:
        raise _UnusableError(f"has a version that is no number: {version!r}")
    return pmid, int(version)


def _text(element: _Element | None) -> str:
    """Return all text inside an element, that of inline markup and formulas included, with its white space folded."""
    if element is None:
        return ""
    if not len(element):
        return fold_space(element.text or "")
    if next(element.iter(etree.Entity), None) is not None:
        raise _UnusableError("refers to an entity, whose text is not known")
    return fold_space("".join(element.itertext()))


def _sections(abstract: _Element | None) -> list[Section]:
    if abstract is None:
        return []
    found = []
    for element in abstract.iterfind("AbstractText"):
        if text := _text(element):
            label = fold_space(element.get("Label", "")).rstrip(":").rstrip()
            found.append(Section(label if label and label.upper() != UNLABELLED else None, text))
    return found


def _year(date: _Element | None) -> int | None:
    if date is None:
        return None
    return parse_year(date.findtext("Year") or date.findtext("MedlineDate") or "")


def _languages(record: _Element) -> list[str] | None:
    return parse_languages(element.text or "" for element in record.iterfind("Language")) or None


def _publication_types(elements: Iterator[_Element]) -> list[str]:
    return [text for element in elements if (text := _text(element))]


def _retracted_by(record: _Element, publication_types: Iterator[_Element]) -> list[str]:
    """Return the unique ids and reference types that flag an article, sorted."""
    types = {element.get("UI") for element in publication_types}
    references = {element.get("RefType") for element in record.iterfind("CommentsCorrectionsList/CommentsCorrections")}
    return sorted((types & RETRACTION_TYPES.keys()) | (references & RETRACTION_REFERENCES))


def _plain_language(citation: _Element) -> str | None:
    """Return the summary for lay readers; other abstracts are never mixed with the abstract."""
    for other in citation.iterfind("OtherAbstract"):
        if other.get("Type") == PLAIN_LANGUAGE:
            return " ".join(section.text for section in _sections(other)) or None
    return None
