"""PubTator files.

Lines are `pmid|t|title`, `pmid|a|abstract` and `pmid<TAB>start<TAB>end<TAB>mention<TAB>type<TAB>ids[<TAB>parts]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from biomodels import storage
from biomodels.errors import InputError
from biomodels.evaluation.entity_linking.benchmark import BIOSYN_LOADER, Benchmark, Mention, Part, seen_mentions
from biomodels.evaluation.entity_linking.dictionary import SPLIT_IDS, read_dictionary
from biomodels.evaluation.entity_linking.options import ReadOptions
from biomodels.evaluation.entity_linking.preprocess import BioSynForm, read_spelling
from biomodels.evaluation.entity_linking.text_files import Lines, raw_lines
from biomodels.evaluation.linking import NamedIds

_TEXT = re.compile(r"(\d+)\|([ta])\|(.*)", re.DOTALL)
_SPLITS = {
    "train": re.compile(r"(?:NCBItrainset_corpus|CDR_TrainingSet\.PubTator)\.txt(?:\.gz)?"),
    "dev": re.compile(r"(?:NCBIdevelopset_corpus|CDR_DevelopmentSet\.PubTator)\.txt(?:\.gz)?"),
    "test": re.compile(r"(?:NCBItestset_corpus|CDR_TestSet\.PubTator)\.txt(?:\.gz)?"),
}
_TYPES = {"bc5cdr-disease": {"Disease"}, "bc5cdr-chemical": {"Chemical"}}
_NO_CONCEPT = {"-1", ""}
_DATABASE = re.compile(r"^(?:MESH|OMIM|UMLS):")


class Annotation(NamedTuple):
    """An annotated mention; `parts` are those of a composite, if the corpus writes them out."""

    start: int
    end: int
    mention: str
    type: str
    ids: tuple[str, ...]
    parts: str


class Document(NamedTuple):
    """One abstract; `text` is title and abstract, joined by a blank, which the spans count."""

    pmid: str
    text: str
    annotations: list[Annotation]


def splits(files: Sequence[str]) -> dict[str, str]:
    """Return the published files of NCBI disease or BC5CDR among `files`, by split."""
    return {s: file for s, form in _SPLITS.items() for file in files if form.fullmatch(file.rsplit("/", 1)[-1])}


def documents(uri: str, encoding: str = "utf-8") -> Iterator[Document]:
    """Yield the documents of a file.

    Raises:
        InputError: a line is neither text nor annotation, is in another encoding, or has a span outside of the text.
    """
    text: dict[str, str] = {}
    pmid, annotations = "", list[Annotation]()
    for number, raw in enumerate(raw_lines(uri), 1):
        try:
            line = raw.decode(encoding).removeprefix("\ufeff").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise InputError.at(uri, number, f"is not {encoding} (byte {error.start})", "give --encoding") from error
        if found := _TEXT.fullmatch(line):
            if found[2] == "t" and text:
                yield Document(pmid, _joined(text), annotations)
                text, annotations = {}, []
            pmid = found[1]
            text[found[2]] = found[3]
        elif line.strip():
            annotation = _annotation(uri, number, line, len(_joined(text)))
            if annotation:
                annotations.append(annotation)
    if text:
        yield Document(pmid, _joined(text), annotations)


def _joined(text: dict[str, str]) -> str:
    return f"{text.get('t', '')} {text.get('a', '')}"


def _annotation(uri: str, number: int, line: str, length: int) -> Annotation | None:
    columns = line.split("\t")
    if len(columns) > 1 and columns[1] == "CID":
        return None  # a relation of BC5CDR
    if len(columns) not in (5, 6, 7) or not (columns[1].isdigit() and columns[2].isdigit()):
        form = "pmid|t|title, pmid|a|abstract or pmid<TAB>start<TAB>end<TAB>mention<TAB>type<TAB>ids"
        raise InputError.at(uri, number, f"is not of the form {form}", "mend the line")
    start, end, mention, kind = int(columns[1]), int(columns[2]), columns[3], columns[4]
    if not start < end <= length:
        raise InputError.at(uri, number, f"the span {start}-{end} is not in the text of {length}", "mend the line")
    field = columns[5].strip() if len(columns) > 5 else ""
    if field in _NO_CONCEPT:
        return None
    ids = tuple(_DATABASE.sub("", part.strip()) for part in SPLIT_IDS.split(field))
    return Annotation(start, end, mention, kind, ids, columns[6] if len(columns) > 6 else "")


def read(name: str, options: ReadOptions, lines: Lines, files: Sequence[str]) -> Benchmark:
    """Read NCBI disease or BC5CDR as published; the dictionary, which they lack, is `options.dictionary`."""
    if not options.dictionary:
        raise InputError(f"--data {options.data}: PubTator files have no dictionary; give it by --dictionary")
    dictionary = read_dictionary(lines, options.dictionary)
    found = splits(files)
    split = "test" if "test" in found else "dev"
    if split not in found:
        raise InputError(f"--data {options.data}: has neither a test nor a development set, only {sorted(found)}")
    spelling = read_spelling(lines, options.spelling) if options.spelling else {}
    form = BioSynForm(spelling) if options.preprocess == "biosyn" else None

    def mentions(uri: str) -> tuple[list[Mention], int]:
        return mentions_of(documents(uri, options.encoding or "utf-8"), _TYPES.get(name), dictionary, form)

    test, dropped = mentions(storage.join(options.data, found[split]))
    others = [file for other, file in found.items() if other not in (split, "test")]
    seen = [m for file in others for m in mentions(storage.join(options.data, file))[0]]
    notes = [f"{dropped} mentions were left out because a gold id of theirs is not in the dictionary."] * bool(dropped)
    part = Part(split, test, dictionary, dictionary, BIOSYN_LOADER, seen_mentions(seen))
    return Benchmark(name, [part], notes, lines.rejects)


def mentions_of(
    found: Iterator[Document], types: set[str] | None, dictionary: NamedIds, form: BioSynForm | None
) -> tuple[list[Mention], int]:
    """Turn annotations into mentions, and count those left out because the dictionary lacks one of their ids.

    Args:
        found: the documents.
        types: of annotations to take; None for all.
        dictionary: the names; a mention all of whose ids it lacks could not be linked.
        form: BioSyn's pre-processing, or None to take the mentions as they stand in the text.
    """
    known = frozenset().union(*set(dictionary.ids))
    mentions, dropped = [], 0
    for document in found:
        abbreviations = form.abbreviations(document.text) if form else {}
        for a in document.annotations:
            if types is not None and a.type not in types:
                continue
            if not set(a.ids) <= known:
                dropped += 1
                continue
            text = form.mention(a.mention, a.parts, len(a.ids), abbreviations) if form else a.mention
            parts = text.count("|") + 1
            gold = (frozenset(a.ids),) * (parts if form else 1)
            identity = f"{document.pmid}:{a.start}|{a.end}"
            mentions.append(Mention(identity, document.pmid, text, gold, "en", document.text, a.start, a.end))
    return mentions, dropped
