"""The linker: mention → normalised text → vector → nearest names of every shard → ranked concepts.

Two equal scores: scores are rounded to 1e-5 before they are ordered, and equal ones go by concept id. So an answer
depends on the mention, k, the model and the index alone, never on what else was asked at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from biomodels.errors import CompatibilityError, InputError, UsageError
from biomodels.terminology.normalise import Normaliser

if TYPE_CHECKING:
    from biomodels.index.filters import NameFilter
    from biomodels.index.names import NameRow

DIGITS = 5  # decimals of a score
FIRST_DEPTH = 4  # names fetched per wanted concept at first; most concepts have few names near a mention
MAX_CHARACTERS = 1000


class Encoder(Protocol):
    """What makes vectors: `biomodels.inference.text_encoder.TextEncoder`, or a service."""

    @property
    def digest(self) -> str:
        """Identity of the model."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return E_ND for texts that are already normalised."""


class Index(Protocol):
    """What is searched: `biomodels.index.sharded.ShardedIndex`, or the same shards behind a service."""

    @property
    def model_digest(self) -> str:
        """Identity of the model that made the vectors."""

    @property
    def normaliser(self) -> Normaliser:
        """What the names went through before they were encoded."""

    @property
    def nprobe(self) -> int:
        """Lists visited by default."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """At least the counts `strings`, `concepts` and `lists`, and the values that a filter may have."""

    def search(
        self, E_ND: NDArray[np.float32], k: int, *, nprobe: int | None = None, where: NameFilter | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return S_NK and name ids I_NK, score descending, ties by id; -inf and -1 where there is no more."""

    def matching(self, where: NameFilter | None) -> int:
        """Return how many strings may answer."""

    def rows_of(self, name_ids: Iterable[int], where: NameFilter | None = None) -> dict[int, list[NameRow]]:
        """Return the (concept, name) rows that bear each string and may answer."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One answer: a concept and the name by which it was found.

    Attributes:
        rank: from 1.
        concept_id: the concept.
        preferred_name: of the concept.
        matched_name: the concept's name nearest to the mention, as its source writes it.
        score: similarity of mention and matched name, rounded to 1e-5.
        source, language: of the matched name.
        semantic_types: of the concept, as TUIs.
    """

    rank: int
    concept_id: str
    preferred_name: str
    matched_name: str
    score: float
    source: str
    language: str
    semantic_types: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the form that the command line and the service both write as JSON."""
        return asdict(self) | {"semantic_types": list(self.semantic_types)}


class Linker:
    """Links mentions to the concepts of one index.

    Args:
        encoder: must be the model that made the index.
        index: the names and their vectors.
        max_characters: longer mentions are refused; a mention is a phrase, not a document.

    Raises:
        CompatibilityError: another model made the index.
    """

    def __init__(self, encoder: Encoder, index: Index, *, max_characters: int = MAX_CHARACTERS) -> None:
        require_same_model(index.model_digest, encoder.digest)
        self.encoder = encoder
        self.index = index
        self.max_characters = max_characters

    def link(self, mentions: Sequence[str], k: int = 5, *, where: NameFilter | None = None) -> list[list[Candidate]]:
        """Return the k best concepts of every mention, best first.

        Args:
            mentions: texts as they were found; they are normalised here.
            k: number of distinct concepts, at least 1 and at most as many as the index has.
            where: which names may answer. There are k concepts whenever k have such a name, else all that have one.

        Raises:
            UsageError: k is out of range, no name has a value of the filter, or there are no mentions.
            InputError: a mention is blank, too long or no valid text; the message says which.
        """
        check_k(k, self.index)
        if where is not None:
            where.check(self.index.facts)
        texts = prepare(mentions, self.index.normaliser, self.max_characters)
        rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        found = rank_concepts(self.index, self.encoder.encode(list(rows)), k, where)
        return [found[rows[text]] for text in texts]


def require_same_model(index_model: str, model: str) -> None:
    """Refuse a model that did not make the index.

    Raises:
        CompatibilityError: naming both digests.
    """
    if model != index_model:
        raise CompatibilityError(
            f"the index was made by model {index_model}, but this model is {model}: give the model that made the index "
            "(same pooling, maximal length and prefix), or make the index again"
        )


def encoder_options(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `TextEncoder` and `read_spec` must be told to encode as the makers of the index did.

    An index may have been made with another pooling or length than its model's directory records.
    """
    spec = facts["spec"]
    return {name: spec[name] for name in ("pooling", "max_length", "normalise")}


def check_k(k: int, index: Index) -> None:
    """Refuse a number of concepts that the index cannot answer.

    Raises:
        UsageError: k is below 1, or above the number of concepts.
    """
    concepts = int(index.facts["concepts"])
    if not 1 <= k <= concepts:
        raise UsageError(f"k: must be between 1 and {concepts}, the number of concepts in the index (given: {k})")


def prepare(mentions: Sequence[str], normaliser: Normaliser, max_characters: int = MAX_CHARACTERS) -> list[str]:
    """Check mentions and normalise them.

    Raises:
        UsageError: there are none.
        InputError: one is blank, too long, or has a lone surrogate, which no encoding can carry.
    """
    if isinstance(mentions, str) or not mentions:
        raise UsageError("mentions: give a list with at least one mention")
    texts = []
    for number, mention in enumerate(mentions, 1):
        if len(mention) > max_characters:
            raise InputError(
                f"mention {number}: has {len(mention):,} characters, at most {max_characters:,} are allowed; "
                "give the phrase that names the concept, not the text around it"
            )
        text = normaliser(mention)
        if not text:
            raise InputError(f"mention {number}: is empty or blank")
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise InputError(f"mention {number}: has half of a surrogate pair, which is no character")
        texts.append(text)
    return texts


def rank_concepts(
    index: Index, E_ND: NDArray[np.float32], k: int, where: NameFilter | None = None
) -> list[list[Candidate]]:
    """Find the k best concepts for every query vector.

    A search returns names, and several may belong to one concept. A query is searched deeper, and when its lists hold
    no more names wider, until k concepts are found and no name beyond could tie with the last of them. Where a filter
    leaves a share of the names, as many times more lists are visited, so that as many names are compared.
    """
    strings = int(index.facts["strings"])
    lists = int(index.facts["lists"])
    eligible = strings if where is None else index.matching(where)
    if not eligible:
        return [[] for _ in E_ND]
    found: list[list[Candidate]] = [[] for _ in E_ND]
    first = min(lists, -(-index.nprobe * strings // eligible))
    waiting = {(min(FIRST_DEPTH * k, eligible), first): list(range(len(E_ND)))}
    while waiting:
        (depth, nprobe), queries = waiting.popitem()
        S_NK, I_NK = index.search(E_ND[queries], depth, nprobe=nprobe, where=where)
        rows = index.rows_of(set(I_NK.ravel().tolist()), where)
        for query, scores, ids in zip(queries, S_NK.tolist(), I_NK.tolist(), strict=True):
            best = _best_names(scores, ids, rows)
            deeper = _next_search(best, scores, ids, k, depth=depth, nprobe=nprobe, strings=eligible, lists=lists)
            if deeper is None:
                found[query] = _ranked(best, k)
            else:
                waiting.setdefault(deeper, []).append(query)
    return found


_Best = dict[str, tuple[float, "NameRow"]]


def _best_names(scores: Sequence[float], ids: Sequence[int], rows: Mapping[int, Sequence[NameRow]]) -> _Best:
    """Return concept → (rounded score, best row); of equal names the preferred one, then the first in a fixed order."""
    best: dict[str, tuple[tuple[Any, ...], float, NameRow]] = {}
    for score, name_id in zip(scores, ids, strict=True):
        rounded = round(score, DIGITS) if name_id >= 0 else score
        for row in rows.get(name_id, ()):
            key = (-rounded, not row.preferred, name_id, row.language, row.source, row.term_type, row.name)
            if row.concept_id not in best or key < best[row.concept_id][0]:
                best[row.concept_id] = (key, rounded, row)
    return {concept_id: (score, row) for concept_id, (_, score, row) in best.items()}


def _next_search(
    best: _Best,
    scores: Sequence[float],
    ids: Sequence[int],
    k: int,
    *,
    depth: int,
    nprobe: int,
    strings: int,
    lists: int,
) -> tuple[int, int] | None:
    """Return the depth and nprobe to try next, or None if the answer stands."""
    exhausted = ids[-1] < 0 or depth >= strings
    if len(best) >= k:
        last = sorted((score for score, _ in best.values()), reverse=True)[k - 1]
        return None if exhausted or round(scores[-1], DIGITS) < last else (min(2 * depth, strings), nprobe)
    if not exhausted:
        return min(2 * depth, strings), nprobe
    if ids[-1] >= 0:
        return None  # every string that may answer is here
    return (depth, min(2 * nprobe, lists)) if nprobe < lists else None


def _ranked(best: _Best, k: int) -> list[Candidate]:
    order = sorted(best.items(), key=lambda item: (-item[1][0], item[0]))[:k]
    return [
        Candidate(
            rank=rank,
            concept_id=concept_id,
            preferred_name=row.preferred_name,
            matched_name=row.name,
            score=score,
            source=row.source,
            language=row.language,
            semantic_types=row.semantic_types,
        )
        for rank, (concept_id, (score, row)) in enumerate(order, 1)
    ]
