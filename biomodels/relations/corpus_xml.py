"""XML corpora, sentence by sentence: what DDIExtraction-2013 and the unified PPI format have in common.

A file is parsed twice, as a stream: once to learn how it writes offsets and pairs, once to read it. Entities of the
DTD are not expanded and nothing is fetched, so a file cannot make the parser read others or grow without bound.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from biomodels import storage
from biomodels.errors import InputError
from biomodels.relations.irregularities import inspect
from biomodels.relations.offsets import DIALECTS, Dialect, agrees, detect, moved, squeezed, unescape
from biomodels.relations.records import Entity, Irregularity, Sentence, mention_at
from biomodels.terminology.rejects import Reject


@dataclass(frozen=True)
class FileStyle:
    """How a file writes offsets, and whether it lists all pairs (`<pair>`) or positives only (`<interaction>`)."""

    dialect: Dialect
    lists_pairs: bool


def sentence_elements(uri: str) -> Iterator[tuple[str, Any]]:
    """Yield each `<sentence>` element with the id of its document; the element is emptied after use.

    Raises:
        InputError: the file cannot be read, is no well-formed XML, or lacks an id.
    """
    from lxml import etree

    document: str | None = None
    try:
        with storage.open_input(uri) as stream:
            events = etree.iterparse(
                stream,
                events=("start", "end"),
                tag=("document", "sentence"),
                resolve_entities=False,
                no_network=True,
                load_dtd=False,
                huge_tree=False,
            )
            for event, element in events:
                if event == "start":
                    if element.tag == "document":
                        document = _required(element, "id", uri)
                    continue
                if element.tag == "sentence":
                    if document is None:
                        raise InputError.at(uri, element.sourceline, "a <sentence> outside of a <document>")
                    yield document, element
                element.clear()
                while element.getprevious() is not None and element.getparent() is not None:
                    del element.getparent()[0]
    except OSError as error:
        raise InputError.at(uri, None, f"cannot be read ({error})", "check the path") from error
    except etree.XMLSyntaxError as error:
        raise InputError.at(uri, error.lineno, f"is no well-formed XML ({error.msg})") from error


def read_style(uri: str, expected: Dialect = DIALECTS[0]) -> FileStyle:
    """Read a file once to learn its style.

    Args:
        uri: the file.
        expected: the dialect if the mentions do not tell.

    Raises:
        InputError: it holds no sentence, or no dialect fits its mentions.
    """
    found = {"sentences": 0, "mentions": 0, "pairs": 0}

    def mentions() -> Iterator[tuple[str, str, str]]:
        for _, sentence in sentence_elements(uri):
            found["sentences"] += 1
            found["pairs"] += sentence.find("pair") is not None
            text = sentence.get("text") or ""
            if unescape(text)[0] != text:
                continue  # offsets may count the escapes or not: such a sentence is no witness
            for element in sentence.iterfind("entity"):
                found["mentions"] += 1
                yield text, element.get("charOffset") or "", element.get("text") or ""

    dialect = detect(mentions(), uri, expected)
    if not found["sentences"]:
        raise InputError.at(uri, None, "holds no <sentence>", "check that it is a corpus of the format you named")
    return FileStyle(dialect, found["pairs"] > 0)


def read_entities(element: Any, sentence: Sentence, dialect: Dialect, uri: str) -> dict[str, Entity]:
    """Add a sentence's entities to it; one with unusable offsets becomes a reject.

    The text is unescaped if a level of escapes was left in it. Offsets count either its characters or those of the
    escaped text; the mention's text tells which, and offsets of the second kind are moved.
    """
    raw = sentence.text
    plain, places = unescape(raw)
    file = os.path.basename(uri)
    if plain != raw:
        sentence.text = plain
        sentence.irregularities.append(
            Irregularity("double_escape", file, element.sourceline, sentence.id, sentence.id, raw[:80])
        )
    entities: dict[str, Entity] = {}
    for item in element.iterfind("entity"):
        entity_id = item.get("id") or ""
        mention = item.get("text") or ""
        try:
            if not entity_id:
                raise ValueError("has no id")
            if entity_id in entities:
                raise ValueError(f"the id {entity_id} occurs twice in its sentence")
            spans = dialect.parse(item.get("charOffset") or "")
            if plain != raw:
                mention = unescape(mention)[0]
                if not agrees(plain, spans, mention) and spans[-1][1] <= len(raw):
                    spans = moved(spans, places)
            if spans[-1][1] > len(plain):
                raise ValueError(f"ends at {spans[-1][1]}, but the sentence has {len(plain)} characters")
        except ValueError as error:
            shown = f"entity {entity_id}: {error}"
            sentence.rejects.append(Reject.of(uri, item.sourceline, shown, item.get("charOffset") or ""))
            continue
        entities[entity_id] = Entity(entity_id, spans, mention, item.get("type"))
        _compare(sentence, entities[entity_id], file, item.sourceline)
    sentence.entities = list(entities.values())
    return entities


def finish(sentence: Sentence, element: Any, uri: str) -> Sentence:
    """Look for irregularities of a sentence that is complete."""
    sentence.irregularities += inspect(sentence, os.path.basename(uri), element.sourceline)
    return sentence


def all_pairs(sentence: Sentence) -> Iterator[tuple[int, Entity, Entity]]:
    """Yield each two entities of a sentence with a running number, in the order in which corpora number pairs."""
    for number, (first, second) in enumerate(itertools.combinations(sentence.entities, 2)):
        yield number, first, second


def referred(element: Any, sentence: Sentence, entities: dict[str, Entity], uri: str) -> tuple[Entity, Entity] | None:
    """Return the two entities that a pair names; else None, and the pair is a reject."""
    names = [element.get("e1") or "", element.get("e2") or ""]
    lost = [name for name in names if name not in entities]
    if lost:
        reason = f"pair {element.get('id')}: its entity {lost[0]!r} is not (or not usable) in sentence {sentence.id}"
        sentence.rejects.append(Reject.of(uri, element.sourceline, reason, " ".join(names)))
        return None
    return entities[names[0]], entities[names[1]]


def reject_pair(element: Any, sentence: Sentence, reason: str, uri: str) -> None:
    """Note a pair that cannot be used."""
    sentence.rejects.append(Reject.of(uri, element.sourceline, f"pair {element.get('id')}: {reason}", ""))


def new_sentence(document: str, element: Any, uri: str) -> Sentence:
    """Return the sentence of an element, without its entities and pairs."""
    text = element.get("text")
    if text is None:
        raise InputError.at(uri, element.sourceline, "a <sentence> without the attribute text")
    return Sentence(document, _required(element, "id", uri), text)


def _compare(sentence: Sentence, entity: Entity, file: str, line: int) -> None:
    """Note a mention that differs from the text at its spans."""
    found = mention_at(sentence.text, entity.spans)
    if found == entity.text:
        return
    same = squeezed(found) == squeezed(entity.text)
    sentence.irregularities.append(
        Irregularity(
            "mention_differs_in_blanks" if same else "mention_differs",
            file,
            line,
            sentence.id,
            entity.id,
            f"{entity.text!r}, but the text has {found!r}",
        )
    )


def _required(element: Any, name: str, uri: str) -> str:
    value = element.get(name)
    if not value:
        raise InputError.at(uri, element.sourceline, f"a <{element.tag}> without the attribute {name}")
    return str(value)
