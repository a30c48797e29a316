"""The two ways to count: `reference`, as SapBERT's and BioSyn's evaluations do, and `fair`.

|                 | reference                                  | fair                                              |
|-----------------|--------------------------------------------|---------------------------------------------------|
| dictionary      | the published one, training mentions in it | the terminology alone                             |
| case            | dictionary lowered, mentions per loader    | both lowered, or both kept                        |
| queries         | every row                                  | distinct (mention, gold)                          |
| a place is      | a name                                     | a concept                                         |
| composites      | each part may hit any gold id              | each part needs an id of its own                  |
| dense score     | inner product of the vectors as they are   | cosine                                            |

Outcomes are kept as places, so that every acc@k and every test can be computed from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from biomodels.evaluation.entity_linking.benchmark import Mention, Part, seen_form
from biomodels.evaluation.entity_linking.dictionary import with_texts
from biomodels.evaluation.entity_linking.rankers import Ranker
from biomodels.evaluation.linking import NamedIds
from biomodels.evaluation.metrics import IdSet
from biomodels.terminology.normalise import Normaliser

Mode = Literal["reference", "fair"]
NOWHERE = 1 << 30
"""The place of what was not found."""


@dataclass(frozen=True)
class Query:
    """What is looked up and counted once.

    Attributes:
        parts: strings to look up.
        gold: per part the ids that count.
        mention: one mention it stands for.
        rows: positions in the part of all mentions it stands for.
    """

    parts: tuple[str, ...]
    gold: tuple[IdSet, ...]
    mention: Mention
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Task:
    """A part under a protocol: queries, and the dictionary as distinct names with their lines.

    Attributes:
        mode: the protocol.
        queries: in the corpus's order.
        dictionary: with the names as they are ranked.
        names: its distinct names, in the order of their first lines.
        lines: for each of them its lines.
        unseen: per query whether training did not show its mention; None without a training set.
        documents: per query the document of each of its mentions.
    """

    mode: Mode
    queries: list[Query]
    dictionary: NamedIds
    names: list[str]
    lines: list[list[int]]
    unseen: NDArray[np.bool_] | None
    documents: list[list[str]]

    @property
    def texts(self) -> list[str]:
        """The distinct strings that are looked up."""
        return list(dict.fromkeys(part for query in self.queries for part in query.parts))


@dataclass(frozen=True)
class Found:
    """The answers to one query.

    Attributes:
        place: from 1, of the worst-placed part; `NOWHERE` if a part was not found.
        id_places: place of each gold id, over all parts.
        top: per part the first few names, as (name, ids, score).
    """

    place: int
    id_places: tuple[int, ...]
    top: tuple[tuple[tuple[str, IdSet, float], ...], ...]


def reference_task(part: Part) -> Task:
    """Set up a part as the published evaluations do; see the table above."""
    dictionary = with_texts(part.dictionary, lambda text: text.strip().lower())
    queries = []
    for row, mention in enumerate(part.mentions):
        text = mention.mention.strip().lower() if part.rules.lowercase else mention.mention
        parts = tuple(text.replace("+", "|").split("|")) if part.rules.split else (text,)
        queries.append(Query(parts, (mention.ids,) * len(parts), mention, (row,)))
    return _task("reference", part, queries, dictionary)


def fair_task(part: Part, normalise: Normaliser) -> Task:
    """Set up a part for a fair comparison; see the table above.

    Raises:
        ValueError: the part has no terminology.
    """
    if part.terminology is None:
        raise ValueError(f"part {part.name} has no dictionary without training mentions")
    groups: dict[tuple[tuple[str, ...], tuple[IdSet, ...]], list[int]] = {}
    for row, mention in enumerate(part.mentions):
        key = tuple(normalise(text) for text in mention.parts), mention.gold
        groups.setdefault(key, []).append(row)
    queries = [
        Query(parts, gold, part.mentions[rows[0]], tuple(rows)) for (parts, gold), rows in groups.items() if any(parts)
    ]
    return _task("fair", part, queries, with_texts(part.terminology, normalise))


def _task(mode: Mode, part: Part, queries: list[Query], dictionary: NamedIds) -> Task:
    lines: dict[str, list[int]] = {}
    for line, text in enumerate(dictionary.texts):
        lines.setdefault(text, []).append(line)
    unseen = None
    if part.seen is not None:
        unseen = np.array([seen_form(query.mention.mention) not in part.seen for query in queries], dtype=bool)
    documents = [[part.mentions[row].document_id for row in query.rows] for query in queries]
    return Task(mode, queries, dictionary, list(lines), list(lines.values()), unseen, documents)


def answer(task: Task, ranker: Ranker, depth: int, *, shown: int = 3) -> list[Found]:
    """Rank the dictionary for every query and note where its gold is.

    Args:
        task: queries and dictionary.
        ranker: over `task.names`.
        depth: places that count; beyond it, gold is nowhere.
        shown: names to keep of each answer.
    """
    texts = task.texts
    by_concept = task.mode == "fair"
    ranked = dict(zip(texts, _rankings(task, ranker, texts, depth, by_concept), strict=True))
    judge = _fair if by_concept else _reference
    return [_found(task, query, [ranked[part] for part in query.parts], judge, shown) for query in task.queries]


Places = list[tuple[int, float, IdSet]]
"""A ranking: best first, the dictionary line that stands at a place, its score, and its ids."""


def _rankings(task: Task, ranker: Ranker, texts: list[str], depth: int, by_concept: bool) -> list[Places]:
    """Return each text's first `depth` places. By concept, a text is searched deeper until there are so many."""
    rankings: list[Places] = [[] for _ in texts]
    open_rows = np.arange(len(texts))
    k = min(4 * depth if by_concept else depth, len(task.names))
    while len(open_rows):
        S_QK, I_QK = ranker.search([texts[row] for row in open_rows], k)
        short = []
        for row, scores, names in zip(open_rows, S_QK, I_QK, strict=True):
            places = _expand(task, ranker, scores, names)
            if by_concept:
                best: dict[IdSet, tuple[int, float, IdSet]] = {}
                for place in places:
                    best.setdefault(place[2], place)
                places = list(best.values())
            rankings[row] = places[:depth]
            if len(places) < depth and names[-1] >= 0:
                short.append(row)
        if k == len(task.names):
            break
        open_rows = np.array(short, dtype=np.int64)
        k = min(4 * k, len(task.names))
    return rankings


def _expand(task: Task, ranker: Ranker, scores: NDArray[np.float64], names: NDArray[np.int64]) -> Places:
    """Replace each name by its dictionary lines; equal scores go by line, as the ranker says."""
    sign = 1 if ranker.ties == "first" else -1
    entries = [
        (-score, sign * line)
        for score, name in zip(scores.tolist(), names.tolist(), strict=True)
        if name >= 0
        for line in task.lines[name]
    ]
    entries.sort()
    return [(sign * line, -score, task.dictionary.ids[sign * line]) for score, line in entries]


def _found(
    task: Task,
    query: Query,
    rankings: list[Places],
    judge: Callable[[Query, list[Places]], int],
    shown: int,
) -> Found:
    ids = sorted(frozenset().union(*query.gold))
    places = [min(_place(ranking, frozenset({gold})) for ranking in rankings) for gold in ids]
    top = tuple(
        tuple((task.dictionary.texts[line], keys, score) for line, score, keys in ranking[:shown])
        for ranking in rankings
    )
    return Found(judge(query, rankings), tuple(places), top)


def _reference(query: Query, rankings: list[Places]) -> int:
    """Every part must be found, and any gold id will do."""
    return max(_place(ranking, gold) for ranking, gold in zip(rankings, query.gold, strict=True))


def _fair(query: Query, rankings: list[Places]) -> int:
    """Every part must be found by an id that no other part is found by, if there are as many ids as parts."""
    ids = sorted(frozenset().union(*query.gold))
    if len(rankings) == 1 or len(ids) < len(rankings):
        return _reference(query, rankings)
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    P_PI = np.array(
        [
            [_place(ranking, frozenset({gold}) & allowed) for gold in ids]
            for ranking, allowed in zip(rankings, query.gold, strict=True)
        ]
    )
    for place in np.unique(P_PI[P_PI < NOWHERE]):
        matched = maximum_bipartite_matching(csr_array((place >= P_PI).astype(np.int8)), perm_type="column")
        if (matched >= 0).all():
            return int(place)
    return NOWHERE


def _place(ranking: Places, gold: IdSet) -> int:
    return next((place for place, (_, _, ids) in enumerate(ranking, 1) if not gold.isdisjoint(ids)), NOWHERE)


def distinct_names(tasks: Sequence[Task]) -> Iterator[str]:
    """Yield every string that a dense system must encode for these tasks; repeated ones too."""
    for task in tasks:
        yield from task.names
        yield from task.texts
