"""DDIExtraction-2013 XML: `<document><sentence text><entity/>…<pair e1 e2 ddi type/>…`.

Every two drugs of a sentence are a pair. A positive pair has a type: mechanism, effect, advise or int.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from biomodels.errors import InputError
from biomodels.relations.corpus_xml import (
    FileStyle,
    finish,
    new_sentence,
    read_entities,
    read_style,
    referred,
    reject_pair,
    sentence_elements,
)
from biomodels.relations.offsets import DDI_DIALECT
from biomodels.relations.records import Irregularity, Pair, Sentence

TYPES = ("advise", "effect", "int", "mechanism")
"""The types of a positive pair."""

NOT_RELATIONS = "Test for DrugNER task"
"""The corpus's folder of test documents for drug recognition: its pairs are all false, so it tests no relation."""


def read(uri: str) -> tuple[str, Iterator[Sentence]]:
    """Read a file.

    Returns:
        How it writes offsets, and its sentences.

    Raises:
        InputError: it is the DrugNER test set, or no DDI document.
    """
    if f"/{NOT_RELATIONS}/" in uri:
        raise InputError.at(
            uri,
            None,
            "is of the DrugNER test set, whose pairs are all false: it is no relation test set",
            "use the folder 'Test for DDI Extraction task'",
        )
    style = read_style(uri, DDI_DIALECT)
    return style.dialect.name, _sentences(uri, style)


def _sentences(uri: str, style: FileStyle) -> Iterator[Sentence]:
    file = os.path.basename(uri)
    for document, element in sentence_elements(uri):
        sentence = new_sentence(document, element, uri)
        entities = read_entities(element, sentence, style.dialect, uri)
        for item in element.iterfind("pair"):
            ends = referred(item, sentence, entities, uri)
            if ends is None:
                continue
            answer, kind = (item.get("ddi") or "").lower(), item.get("type")
            if answer not in ("true", "false"):
                reject_pair(item, sentence, f"ddi is {item.get('ddi')!r}, not true or false", uri)
                continue
            if kind is not None and kind not in TYPES:
                reject_pair(item, sentence, f"type is {kind!r}, not one of {', '.join(TYPES)}", uri)
                continue
            label = answer == "true"
            pair = Pair(item.get("id") or "", *ends, label, kind if label else None)
            sentence.pairs.append(pair)
            if label and kind is None:
                sentence.irregularities.append(
                    Irregularity("untyped_positive", file, item.sourceline, sentence.id, pair.id, "")
                )
        count = len(element.findall("entity"))
        listed = len(element.findall("pair"))
        if listed != count * (count - 1) // 2:
            detail = f"{listed} of {count * (count - 1) // 2}"
            sentence.irregularities.append(
                Irregularity("missing_pairs", file, element.sourceline, sentence.id, sentence.id, detail)
            )
        yield finish(sentence, element, uri)
