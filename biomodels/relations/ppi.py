"""The unified XML of the five PPI corpora (AIMed, BioInfer, HPRD50, IEPA, LLL), after Pyysalo et al. 2008.

Some converters list every pair, `<pair e1 e2 interaction="True"/>`; others only the positives, `<interaction e1 e2/>`.
In the second kind every two entities of a sentence are a pair, numbered as the first kind does. The direction of an
interaction is not kept: a pair is one, whichever of the two comes first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from biomodels.relations.corpus_xml import (
    FileStyle,
    all_pairs,
    finish,
    new_sentence,
    read_entities,
    read_style,
    referred,
    reject_pair,
    sentence_elements,
)
from biomodels.relations.records import Entity, Irregularity, Pair, Sentence


def read(uri: str) -> tuple[str, Iterator[Sentence]]:
    """Read a file.

    Returns:
        How it writes offsets, and its sentences.

    Raises:
        InputError: it is no such corpus, or its offsets do not fit.
    """
    style = read_style(uri)
    return style.dialect.name, _sentences(uri, style)


def _sentences(uri: str, style: FileStyle) -> Iterator[Sentence]:
    for document, element in sentence_elements(uri):
        sentence = new_sentence(document, element, uri)
        entities = read_entities(element, sentence, style.dialect, uri)
        if style.lists_pairs:
            sentence.pairs = list(_listed(element, sentence, entities, uri))
        else:
            sentence.pairs = list(_from_interactions(element, sentence, entities, uri))
        yield finish(sentence, element, uri)


def _listed(element: Any, sentence: Sentence, entities: dict[str, Entity], uri: str) -> Iterator[Pair]:
    for item in element.iterfind("pair"):
        ends = referred(item, sentence, entities, uri)
        answer = (item.get("interaction") or "").lower()
        if ends is None:
            continue
        if answer not in ("true", "false"):
            reject_pair(item, sentence, f"interaction is {item.get('interaction')!r}, not True or False", uri)
            continue
        yield Pair(item.get("id") or "", *ends, answer == "true")


def _from_interactions(element: Any, sentence: Sentence, entities: dict[str, Entity], uri: str) -> Iterator[Pair]:
    """Yield every two entities; then those that interact with themselves."""
    positive: dict[frozenset[str], Any] = {}
    for item in element.iterfind("interaction"):
        ends = referred(item, sentence, entities, uri)
        if ends is None:
            continue
        key = frozenset(end.id for end in ends)
        if key in positive:
            sentence.irregularities.append(
                Irregularity(
                    "repeated_pair",
                    os.path.basename(uri),
                    item.sourceline,
                    sentence.id,
                    item.get("id") or "",
                    "again in the other direction" if item.get("e1") != positive[key].get("e1") else "",
                )
            )
            continue
        positive[key] = item
    number = -1
    for number, first, second in all_pairs(sentence):
        yield Pair(f"{sentence.id}.p{number}", first, second, frozenset((first.id, second.id)) in positive)
    for key in positive:
        if len(key) == 1:
            number += 1
            entity = entities[next(iter(key))]
            yield Pair(f"{sentence.id}.p{number}", entity, entity, True)
