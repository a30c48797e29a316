"""PubTator text: `PMID|t|title`, `PMID|a|abstract`, then annotations, one document after the other.

Format: https://www.ncbi.nlm.nih.gov/research/pubtator3/. Offsets of annotations count code points of the title, one
character, and the abstract.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from biomodels.literature.articles import Article, Parsed, Section, fold_space, parse_pmid
from biomodels.terminology.blocks import read_blocks
from biomodels.terminology.rejects import Reject

_TEXT = re.compile(r"([^|\t]*)\|([ta])\|(.*)", re.DOTALL)
_ANNOTATION_COLUMNS = 6


@dataclass(frozen=True)
class Annotation:
    """A mention. `identifiers` are the ids of its last column, split at `;`, `,` and `|`."""

    start: int
    end: int
    mention: str
    kind: str
    identifiers: tuple[str, ...]


@dataclass
class Document:
    """A document as it stands in the file."""

    pmid: int
    line: int
    title: str = ""
    abstract: str = ""
    annotations: list[Annotation] = field(default_factory=list)

    @property
    def text(self) -> str:
        """What the annotations' offsets count."""
        return f"{self.title} {self.abstract}"


def read_documents(uri: str) -> Iterator[Document | Reject]:
    """Stream the documents of a PubTator file, plain or gzip; lines that are none of the three kinds are rejects.

    Raises:
        InputError: the file cannot be read.
    """
    document: Document | None = None
    for block in read_blocks(uri):
        for number, raw in enumerate(block.data.split(b"\n"), start=block.first_line):
            try:
                line = raw.decode("utf-8").rstrip("\r")
            except UnicodeDecodeError as error:
                yield Reject.of(uri, number, f"is not UTF-8 at byte {error.start + 1} of the line", raw)
                continue
            if text := _TEXT.fullmatch(line):
                pmid = parse_pmid(text[1])
                if pmid is None:
                    yield Reject.of(uri, number, f"has a PMID that is no number: {text[1]!r}", raw)
                    continue
                if document is None or document.pmid != pmid or text[2] == "t":
                    if document is not None:
                        yield document
                    document = Document(pmid, number)
                if text[2] == "t":
                    document.title = text[3]
                else:
                    document.abstract = text[3]
            elif line.strip() and (document is None or not _annotate(document, line)):
                yield Reject.of(uri, number, "is neither a text nor an annotation of the text above", raw)
    if document is not None:
        yield document


def read_pubtator(uri: str) -> Iterator[Parsed]:
    """Stream the articles of a PubTator file; see `read_documents`. Annotations are passed over."""
    for found in read_documents(uri):
        if isinstance(found, Reject):
            yield found
        else:
            abstract = fold_space(found.abstract)
            yield Article(
                pmid=found.pmid,
                title=fold_space(found.title),
                sections=[Section(None, abstract)] if abstract else [],
            )


def _annotate(document: Document, line: str) -> bool:
    """Take in an annotation or a relation; say whether the line is one of the document."""
    columns = line.split("\t")
    if parse_pmid(columns[0]) != document.pmid or len(columns) < 4:
        return False
    if columns[1].isdigit() and columns[2].isdigit() and len(columns) >= _ANNOTATION_COLUMNS - 1:
        identifiers = re.split(r"[;,|]", columns[5]) if len(columns) >= _ANNOTATION_COLUMNS else []
        mention = Annotation(int(columns[1]), int(columns[2]), columns[3], columns[4], tuple(identifiers))
        document.annotations.append(mention)
    return True
