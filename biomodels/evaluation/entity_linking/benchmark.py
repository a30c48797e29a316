"""What every reader produces: parts of a benchmark, each with mentions and dictionaries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from biomodels import schemas
from biomodels.artifacts import digest_json
from biomodels.errors import InputError
from biomodels.evaluation.linking import NamedIds, Reject
from biomodels.evaluation.metrics import IdSet
from biomodels.terminology.normalise import Normaliser

PARTS = "|"
_SEEN = Normaliser(lowercase=True)


class Mention(NamedTuple):
    """One mention to link, a row of the `mentions` schema.

    Attributes:
        mention_id: unique in its part.
        document_id: mentions of one document are not independent of each other; where a corpus has no documents, this
            is the mention's `seen_form`, for rows that repeat a mention are not independent either.
        mention: as the file has it. A composite mention holds its parts between bars, "breast cancer|ovarian cancer".
        gold: for each part of the mention the ids that count; one set for a mention that is no composite.
        language: ISO 639-1.
        context: the text around the mention, if the corpus gives it, with `start` and `end` of the mention in it.
    """

    mention_id: str
    document_id: str
    mention: str
    gold: tuple[IdSet, ...]
    language: str = "en"
    context: str | None = None
    start: int | None = None
    end: int | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """The strings to look up: one, unless the mention is composite."""
        return tuple(self.mention.split(PARTS)) if len(self.gold) > 1 else (self.mention,)

    @property
    def ids(self) -> IdSet:
        """All gold ids."""
        return frozenset().union(*self.gold)


class ReferenceRules(NamedTuple):
    """What SapBERT's evaluation does with the queries of a corpus; it depends on which of its three loaders reads it.

    Attributes:
        lowercase: lower the mentions. Dictionaries are always lowered there.
        split: cut mentions at "+" and "|", and look up each piece alone.
    """

    lowercase: bool
    split: bool


BIOSYN_LOADER = ReferenceRules(lowercase=True, split=True)
CUSTOM_LOADER = ReferenceRules(lowercase=False, split=True)
COMETA_LOADER = ReferenceRules(lowercase=False, split=False)
MEDMENTIONS_LOADER = ReferenceRules(lowercase=True, split=False)


@dataclass(frozen=True)
class Part:
    """A test set that gets figures of its own: a split, a fold, a language.

    Attributes:
        name: "test", "fold-3", "de", …
        mentions: the queries, in the corpus's order.
        dictionary: the names that the published protocol ranks, among them those of training mentions.
        terminology: the names of the terminology alone; None if they cannot be told from those of training mentions.
        rules: of the published protocol.
        seen: mentions of the training and development sets; None if the corpus has none.
    """

    name: str
    mentions: Sequence[Mention]
    dictionary: NamedIds
    terminology: NamedIds | None
    rules: ReferenceRules
    seen: frozenset[str] | None = None

    @property
    def digest(self) -> str:
        """The identity of the mentions with their gold."""
        return digest_json([[m.document_id, m.mention, [sorted(ids) for ids in m.gold]] for m in self.mentions])


@dataclass
class Benchmark:
    """All parts of a benchmark.

    Attributes:
        name: as `--benchmark` has it.
        parts: at least one.
        notes: what a reader of the figures has to know, such as names that stood in for a dictionary.
        rejects: malformed lines.
        averaged: whether the published figure is the mean over the parts.
    """

    name: str
    parts: list[Part]
    notes: list[str] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    averaged: bool = False


def check(benchmark: Benchmark) -> Benchmark:
    """Refuse parts that no system could be measured on.

    Raises:
        InputError: a part has no mention, or no gold id of it is in a dictionary.
    """
    for part in benchmark.parts:
        place = f"{benchmark.name}, part {part.name}"
        if not part.mentions:
            raise InputError(f"{place}: has no mention with a concept; check the folder that --data names")
        for dictionary in {id(d): d for d in (part.dictionary, part.terminology) if d}.values():
            known = set().union(*set(dictionary.ids))
            if not any(known & mention.ids for mention in part.mentions):
                gold, name = sorted(part.mentions[0].ids)[0], sorted(dictionary.ids[0])[0]
                raise InputError(
                    f"{place}: no gold id is in {dictionary.uri} (mentions have ids like {gold!r}, names like "
                    f"{name!r}); give the dictionary of the same terminology by --dictionary"
                )
    return benchmark


def mentions_table(mentions: Iterable[Mention]) -> pa.Table:
    """Return mentions as a table of the `mentions` schema."""
    rows = [m._asdict() | {"gold": [sorted(ids) for ids in m.gold]} for m in mentions]
    return pa.Table.from_pylist(rows, schema=schemas.MENTIONS)


def gold_per_part(mention: str, ids: Sequence[str]) -> tuple[IdSet, ...]:
    """Share the gold ids of BioSyn's format, where a bar may part alternatives or the parts of a composite.

    A mention with bars is a composite. With as many ids as parts, each part has one of them, but not in order: so each
    part gets all, and the protocols see to it that no id serves two parts.
    """
    parts = mention.count(PARTS) + 1
    return (frozenset(ids),) * parts


def seen_form(mention: str) -> str:
    """Return the form by which a mention counts as seen in training: case and white space do not matter."""
    return _SEEN(mention)


def seen_mentions(mentions: Iterable[Mention]) -> frozenset[str] | None:
    """Return what a training set shows, or None if there is none."""
    return frozenset(seen_form(mention.mention) for mention in mentions) or None
