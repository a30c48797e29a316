"""Linking against a dictionary file: how often is the nearest name one of the right concept?

Files hold one `id||text` a line, UTF-8; `id` may hold alternatives, `a|b`. Blank lines are skipped, and so are queries
whose id is `cui-less`: they have no right answer.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from biomodels import storage
from biomodels.errors import InputError, RejectRateError
from biomodels.evaluation.metrics import IdSet, distinct, id_set, score_rankings

if TYPE_CHECKING:
    from biomodels.evaluation.exact import Metric

SEPARATOR = "||"
UNLINKABLE = "cui-less"
ENCODE_CHUNK = 8192

Unit = Literal["name", "concept"]
Encode = Callable[[Sequence[str]], NDArray[np.float32]]


class Reject(NamedTuple):
    """A malformed line."""

    file: str
    line: int
    reason: str
    content: str


@dataclass
class NamedIds:
    """A dictionary or query file: texts with the ids they stand for, in the file's order.

    Attributes:
        uri: where it was read.
        sha256: of its bytes.
        texts: normalised, duplicates kept.
        ids: of each text.
        rejects: malformed lines.
        unlinkable: lines skipped because their id says that they have no concept.
    """

    uri: str
    sha256: str = ""
    texts: list[str] = field(default_factory=list)
    ids: list[IdSet] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    unlinkable: int = 0


def read_named_ids(uri: str, normalise: Callable[[str], str], *, max_reject_rate: float = 0.0) -> NamedIds:
    """Read a dictionary (`id||name`) or a query file (`id||mention`).

    Raises:
        InputError: the file is missing, or has no usable line.
        RejectRateError: too many lines are malformed: not two fields, an empty one, or not UTF-8.
    """
    result = NamedIds(uri)
    digest = hashlib.sha256()
    try:
        for number, raw in enumerate(storage.lines(uri), 1):
            digest.update(raw)
            if raw.strip():
                _read_line(result, number, raw, normalise)
    except OSError as error:
        raise InputError(f"{uri}: cannot be read ({error})") from error
    result.sha256 = digest.hexdigest()
    seen = len(result.texts) + len(result.rejects) + result.unlinkable
    if len(result.rejects) > max_reject_rate * seen:
        first = result.rejects[0]
        raise RejectRateError(
            f"{first.file}:{first.line}: {first.reason}; {len(result.rejects)} of {seen} lines are malformed: "
            "mend them, or allow them with a larger --max-reject-rate"
        )
    if not result.texts:
        raise InputError(f"{uri}: has no line of the form id{SEPARATOR}text")
    return result


def _read_line(into: NamedIds, number: int, raw: bytes, normalise: Callable[[str], str]) -> None:
    def reject(reason: str) -> None:
        into.rejects.append(
            Reject(into.uri, number, reason, raw[:200].decode("utf-8", "backslashreplace").rstrip("\r\n"))
        )

    try:
        line = raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        return reject(f"not UTF-8 ({error.reason} at byte {error.start})")
    fields = line.split(SEPARATOR)
    if len(fields) != 2:
        return reject(f"{len(fields)} fields between {SEPARATOR}, not the 2 of id{SEPARATOR}text")
    ids, text = id_set(fields[0].strip()), normalise(fields[1])
    if not ids or not text:
        return reject("empty id" if not ids else "empty text")
    if any(part.lower() == UNLINKABLE for part in ids):
        into.unlinkable += 1
        return None
    into.texts.append(text)
    into.ids.append(ids)
    return None


def evaluate_linking(
    dictionary: NamedIds,
    queries: NamedIds,
    encode: Encode,
    ks: Sequence[int],
    *,
    on_progress: Callable[[int], object] = lambda encoded: None,
) -> list[dict[str, Any]]:
    """Rank the dictionary for every query, by cosine and by inner product, and score names and concepts.

    Every distinct text is encoded once, and both metrics use the same vectors.

    Args:
        dictionary: the names; every line is one place of the ranking by name.
        queries: the mentions with their gold ids; every line counts.
        encode: texts → E_ND float32. Called with a few thousand texts at a time.
        ks: depths to report.
        on_progress: told the number of texts encoded by each call.

    Returns:
        One dict for each (metric, unit): `metric`, `unit`, `n`, `acc` and `recall` (both from k to a share).
    """
    lines_of: dict[str, list[int]] = {}
    for line, text in enumerate(dictionary.texts):
        lines_of.setdefault(text, []).append(line)
    rows = {text: row for row, text in enumerate(dict.fromkeys(queries.texts))}
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryFile() as names_file:
        E_QD = np.concatenate(list(_encoded(list(rows), encode, on_progress)))
        E_ND = _encode_to_file(list(lines_of), encode, on_progress, names_file, E_QD.shape[1])
        ids = [[dictionary.ids[line] for line in lines] for lines in lines_of.values()]
        metrics: tuple[Metric, ...] = ("cosine", "ip")
        units: tuple[Unit, ...] = ("name", "concept")
        for metric in metrics:
            for unit in units:
                ranked = _rankings(E_QD, E_ND, ids, list(lines_of.values()), max(ks), metric=metric, unit=unit)
                scores = score_rankings((ranked[rows[text]] for text in queries.texts), queries.ids, ks)
                results.append(
                    {
                        "metric": metric,
                        "unit": unit,
                        "n": len(queries.texts),
                        "acc": {str(k): scores.acc[k] for k in ks},
                        "recall": {str(k): scores.recall[k] for k in ks},
                    }
                )
    return results


def _rankings(
    E_QD: NDArray[np.float32],
    E_ND: NDArray[np.float32],
    ids: list[list[IdSet]],
    lines: list[list[int]],
    k: int,
    *,
    metric: Metric,
    unit: Unit,
) -> list[list[IdSet]]:
    """Return each query's ranking of at least k keys, or of all there are.

    By name, k texts are enough. By concept, a query is searched deeper until k distinct concepts are found.
    """
    from biomodels.evaluation.exact import exact_topk

    rankings: list[list[IdSet]] = [[] for _ in E_QD]
    open_rows = np.arange(len(E_QD))
    depth = min(k if unit == "name" else 4 * k, len(E_ND))
    while len(open_rows):
        S_QK, I_QK = exact_topk(E_QD[open_rows], E_ND, depth, metric)
        for row, scores, texts in zip(open_rows, S_QK, I_QK, strict=True):
            keys = _expand(scores, texts, ids, lines)
            rankings[row] = keys[:k] if unit == "name" else distinct(keys, k)
        if depth == len(E_ND):
            break
        open_rows = np.array([row for row in open_rows if len(rankings[row]) < k], dtype=np.int64)
        depth = min(2 * depth, len(E_ND))
    return rankings


def _expand(
    scores: NDArray[np.float64], texts: NDArray[np.int64], ids: list[list[IdSet]], lines: list[list[int]]
) -> list[IdSet]:
    """Replace each text by its dictionary lines; equal scores go by line."""
    entries = [
        (-score, line, key)
        for score, text in zip(scores.tolist(), texts.tolist(), strict=True)
        for line, key in zip(lines[text], ids[text], strict=True)
    ]
    entries.sort(key=lambda entry: entry[:2])
    return [key for _, _, key in entries]


def _encoded(texts: list[str], encode: Encode, on_progress: Callable[[int], object]) -> Iterator[NDArray[np.float32]]:
    for start in range(0, len(texts), ENCODE_CHUNK):
        E_ND = encode(texts[start : start + ENCODE_CHUNK])
        on_progress(len(E_ND))
        yield E_ND


def _encode_to_file(
    texts: list[str], encode: Encode, on_progress: Callable[[int], object], file: Any, dimension: int
) -> NDArray[np.float32]:
    """Encode into a memory-mapped file, so that a large dictionary does not have to fit into memory."""
    E_ND: NDArray[np.float32] = np.memmap(file, dtype=np.float32, mode="w+", shape=(len(texts), dimension))
    start = 0
    for chunk in _encoded(texts, encode, on_progress):
        E_ND[start : start + len(chunk)] = chunk
        start += len(chunk)
    return E_ND


def texts_in_dictionary(dictionary: NamedIds, queries: NamedIds) -> int:
    """Count the query lines whose text is, after normalisation, a name of the dictionary."""
    names = set(dictionary.texts)
    return sum(text in names for text in queries.texts)


def queries_without_gold(dictionary: NamedIds, queries: NamedIds) -> int:
    """Count the query lines none of whose gold ids is in the dictionary: no model can answer them."""
    known = frozenset().union(*dictionary.ids)
    return sum(not (gold & known) for gold in queries.ids)
