"""JSON lines of BNL's PPI-Relation-Extraction, in which BLURB's relation sets and published folds are given too.

A line is one pair::

    {"id": "AIMed.d193.s1641_AIMed.d193.s1641.p0", "text": "…", "relation": [{"relation_type": "positive",
     "entity_1": "Id3", "entity_1_idx": [[76, 79]], "entity_1_type": "protein", "entity_2": …}]}

Offsets are exclusive. The id is the sentence's and the pair's, joined by `_`; a document's id is the sentence's without
its last part. Where an entity holds the other, the marked mention is given (`IFN-gamma[/E1] receptor`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

from biomodels import storage
from biomodels.errors import InputError
from biomodels.relations.irregularities import inspect
from biomodels.relations.offsets import squeezed
from biomodels.relations.records import Entity, Irregularity, Pair, Sentence, Spans, mention_at
from biomodels.terminology.rejects import Reject

NEGATIVE = frozenset({"negative", "false", "none", "no_relation", "0"})
UNTYPED = frozenset({"positive", "true"})
OFFSETS = "exclusive end, lists of numbers"

_MARKER = re.compile(r"\[/?E[12]\]")
_SENTENCE = re.compile(r"(?P<document>.+)\.s\d+")


def read(uri: str) -> tuple[str, Iterator[Sentence]]:
    """Read a file.

    Returns:
        How it writes offsets, and its sentences. A sentence holds the pairs of neighbouring lines of one sentence.

    Raises:
        InputError: the file cannot be read or is no JSON lines.
    """
    try:
        with storage.open_input(uri) as stream:
            start = stream.read(1)
    except OSError as error:
        raise InputError.at(uri, None, f"cannot be read ({error})", "check the path") from error
    if start not in (b"{", b""):
        raise InputError.at(uri, 1, "is no JSON lines: the first line is no object", "give the files test_N.json")
    return OFFSETS, _sentences(uri)


def _sentences(uri: str) -> Iterator[Sentence]:
    current: Sentence | None = None
    first_line = 0
    for number, raw in enumerate(storage.lines(uri), 1):
        if not raw.strip():
            continue
        found = _sentence(raw, number, uri)
        if current is None:
            current, first_line = found, number
        elif found.id == current.id and found.text == current.text:
            _merge(current, found)
        else:
            yield _finish(current, uri, first_line)
            current, first_line = found, number
    if current is not None:
        yield _finish(current, uri, first_line)


def _sentence(raw: bytes, number: int, uri: str) -> Sentence:
    """Return the sentence of one line with its pairs; an unusable line is the reject of a sentence of its own."""
    try:
        row = json.loads(raw)
        text, relations = row["text"], row["relation"]
        sentence_id, pair_id = split_id(str(row["id"]))
        document = _SENTENCE.fullmatch(sentence_id)
        sentence = Sentence(document["document"] if document else sentence_id, sentence_id, text)
        for index, relation in enumerate(relations):
            ends = [_entity(relation, side, sentence, number, uri) for side in ("1", "2")]
            label, kind = _label(str(relation["relation_type"]))
            sentence.entities += ends
            identity = pair_id if len(relations) == 1 else f"{pair_id}.{index}"
            sentence.pairs.append(Pair(identity, ends[0], ends[1], label, kind))
        return sentence
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        reason = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        lost = Sentence("", f"line {number}", "")
        lost.rejects.append(Reject.of(uri, number, reason, raw))
        return lost


def _merge(into: Sentence, more: Sentence) -> None:
    known = {entity.id for entity in into.entities}
    into.entities += [entity for entity in more.entities if entity.id not in known]
    into.pairs += more.pairs
    into.irregularities += more.irregularities
    into.rejects += more.rejects


def _finish(sentence: Sentence, uri: str, line: int) -> Sentence:
    if sentence.document_id:
        sentence.entities = list({entity.id: entity for entity in sentence.entities}.values())
        sentence.irregularities += inspect(sentence, os.path.basename(uri), line)
    return sentence


def split_id(identity: str) -> tuple[str, str]:
    """Split an id into the sentence's and the pair's; an id of another form serves as both."""
    for match in re.finditer("_", identity):
        sentence, pair = identity[: match.start()], identity[match.end() :]
        if pair.startswith(sentence):
            return sentence, pair
    return identity, identity


def _entity(relation: dict[str, Any], side: str, sentence: Sentence, line: int, uri: str) -> Entity:
    spans: Spans = tuple(sorted((int(start), int(end)) for start, end in relation[f"entity_{side}_idx"]))
    if not spans or any(start < 0 or end <= start for start, end in spans) or spans[-1][1] > len(sentence.text):
        raise ValueError(f"entity_{side}_idx {relation[f'entity_{side}_idx']} does not fit the text")
    kind = relation.get(f"entity_{side}_type")
    mention = str(relation[f"entity_{side}"])
    identity = f"{spans}/{kind}"
    found = mention_at(sentence.text, spans)
    if mention != found:
        plain = _MARKER.sub("", mention)
        name = "mention_differs"
        if plain == found:
            name, mention = "marker_in_mention", plain
        elif squeezed(plain) == squeezed(found):
            name = "mention_differs_in_blanks"
        detail = f"{relation[f'entity_{side}']!r}, but the text has {found!r}"
        sentence.irregularities.append(
            Irregularity(name, os.path.basename(uri), line, sentence.id, f"entity_{side}", detail)
        )
    return Entity(identity, spans, mention, kind)


def _label(written: str) -> tuple[bool, str | None]:
    """Read a relation type: `negative`, `positive`, `DDI-false`, `DDI-effect`, or a type of a typed corpus."""
    name = written.removeprefix("DDI-").lower()
    if name in NEGATIVE:
        return False, None
    return True, None if name in UNTYPED else name
