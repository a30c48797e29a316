"""Folds for cross-validation that do not leak, and a report of what leaks where they do.

The same classifier on the same pairs scores 10 to 15 points of F1 more if the pairs of one abstract lie on both sides
of the split. So documents stay whole unless one asks for less, and every evaluation says how its folds were made.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from biomodels import storage
from biomodels.errors import InputError, UsageError
from biomodels.relations.bnl_json import split_id
from biomodels.terminology.hashing import hash_strings, mix

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

Unit = Literal["document", "sentence", "instance"]
"""What a fold does not cut."""

UNITS: tuple[Unit, ...] = get_args(Unit)

NO_FOLD = -1

_Add = Callable[[str, int, str, int], None]
"""Takes an id, its fold, and the file and line that say so."""

_FOLD_FILE = re.compile(r"test_(\d+)\.jsonl?")


@dataclass(frozen=True)
class FoldLeakage:
    """What the test part of one fold shares with its training part. Sentences are compared by text."""

    fold: int
    sentences: int
    pairs: int
    positives: int
    documents: int


def stratified_folds(groups: Sequence[str], labels: Bools, count: int, seed: int) -> Ints:
    """Deal whole groups to folds so that positives, and then pairs, are spread evenly.

    Groups with many positives are dealt first, each to the fold that has fewest; equal ones in an order that the seed
    decides. The order of the rows does not matter.

    Args:
        groups: (N,) the document, sentence or pair that a row belongs to.
        labels: (N,) True for positives.
        count: number of folds.
        seed: decides between equal groups.

    Returns:
        (N,) each row's fold, 0 to count - 1.

    Raises:
        InputError: there are fewer groups than folds, or the pairs are of one class.
    """
    names, row_group = np.unique(np.asarray(groups, dtype=object).astype(str), return_inverse=True)
    if len(names) < count:
        raise InputError(f"{len(names)} groups cannot be dealt to {count} folds; use fewer folds or a smaller unit")
    refuse_one_class(labels, "folds")
    positives = np.bincount(row_group[labels], minlength=len(names))
    sizes = np.bincount(row_group, minlength=len(names))
    order = np.lexsort((mix(seed, hash_strings(names.tolist())), -sizes, -positives))
    true, every = [0] * count, [0] * count
    fold_of = np.empty(len(names), dtype=np.int64)
    for group in order.tolist():
        if positives[group]:
            fold = min(range(count), key=lambda number: (true[number], every[number], number))
        else:
            fold = min(range(count), key=lambda number: (every[number], number))
        fold_of[group] = fold
        true[fold] += int(positives[group])
        every[fold] += int(sizes[group])
    found: Ints = fold_of[row_group]
    return found


def refuse_one_class(labels: Bools, purpose: str) -> None:
    """Refuse a corpus whose pairs are all positive or all negative.

    Raises:
        InputError: it is one.
    """
    positives = int(labels.sum())
    if positives in (0, len(labels)):
        kind = "positive" if positives else "negative"
        found = f"{len(labels):,} pairs, all {kind}" if len(labels) else "no pairs"
        raise InputError(f"the corpus has {found}: {purpose} need both classes; check the labels")


def read_folds(uri: str) -> dict[str, int]:
    """Read published folds: id → fold.

    Args:
        uri: a directory of BNL's `test_0.json`, `test_1.json`, …, whose lines name the pairs of each fold; or a
            tab-separated file of ids and fold numbers, with or without a header. An id is a document's, a sentence's
            or a pair's.

    Raises:
        InputError: a file cannot be read as that, or an id is in two folds.
    """
    folds: dict[str, int] = {}

    def add(identity: str, fold: int, file: str, line: int) -> None:
        if folds.setdefault(identity, fold) != fold:
            raise InputError.at(file, line, f"{identity} is in the folds {folds[identity]} and {fold}")

    if storage.is_file(uri):
        _read_table(uri, add)
    else:
        files = {name: int(match[1]) for name in storage.list_files(uri) if (match := _FOLD_FILE.fullmatch(name))}
        for name, fold in files.items():
            _read_json(storage.join(uri, name), fold, add)
    if not folds:
        raise InputError.at(uri, None, "holds no folds", "give a directory of test_N.json, or a table of id and fold")
    return folds


def apply_folds(
    folds: Mapping[str, int], pairs: Sequence[str], sentences: Sequence[str], documents: Sequence[str]
) -> Ints:
    """Return each row's fold, by the id of its pair, else its sentence, else its document.

    Raises:
        InputError: a row has none.
    """
    found = np.empty(len(pairs), dtype=np.int64)
    for row, names in enumerate(zip(pairs, sentences, documents, strict=True)):
        fold = next((folds[name] for name in names if name in folds), None)
        if fold is None:
            raise InputError(f"the pair {names[0]} is in no fold, nor are its sentence and document; mend the folds")
        found[row] = fold
    return found


def leakage(texts: Ints, documents: Sequence[str], labels: Bools, folds: Ints) -> tuple[Bools, list[FoldLeakage]]:
    """Find the pairs whose sentence also occurs in another fold, which is training data for their own.

    Args:
        texts: (N,) a hash of each row's sentence, white space folded.
        documents: (N,) each row's document.
        labels: (N,) True for positives.
        folds: (N,) each row's fold; rows of `NO_FOLD` are left out.

    Returns:
        (N,) which rows leak, and the counts of each fold.
    """
    shared = _in_several(texts, folds)
    _, document_N = np.unique(np.asarray(documents, dtype=object).astype(str), return_inverse=True)
    split = _in_several(document_N, folds)
    report = []
    for fold in sorted(set(folds.tolist()) - {NO_FOLD}):
        mine = folds == fold
        report.append(_counts(fold, mine & shared, mine & split, texts=texts, documents=document_N, labels=labels))
    return shared, report


def leakage_from(
    texts: Ints, documents: Sequence[str], labels: Bools, train_texts: Ints, train_documents: Sequence[str]
) -> tuple[Bools, list[FoldLeakage]]:
    """Do the same for a test set and its training set."""
    shared = np.isin(texts, train_texts)
    _, document_N = np.unique(np.asarray(documents, dtype=object).astype(str), return_inverse=True)
    split = np.isin(np.asarray(documents, dtype=object).astype(str), list(set(train_documents)))
    return shared, [_counts(0, shared, split, texts=texts, documents=document_N, labels=labels)]


def _counts(fold: int, shared: Bools, split: Bools, *, texts: Ints, documents: Ints, labels: Bools) -> FoldLeakage:
    return FoldLeakage(
        fold,
        sentences=len(np.unique(texts[shared])),
        pairs=int(shared.sum()),
        positives=int((shared & labels).sum()),
        documents=len(np.unique(documents[split])),
    )


def _in_several(keys: Ints, folds: Ints) -> Bools:
    """Say which rows have a key that occurs in more than one fold."""
    _, key_N = np.unique(keys, return_inverse=True)
    least = np.full(key_N.max(initial=-1) + 1, np.iinfo(np.int64).max)
    most = np.full(len(least), NO_FOLD)
    inside = folds != NO_FOLD
    np.minimum.at(least, key_N[inside], folds[inside])
    np.maximum.at(most, key_N[inside], folds[inside])
    found: Bools = inside & (least[key_N] != most[key_N])
    return found


def _read_json(uri: str, fold: int, add: _Add) -> None:
    for number, raw in enumerate(storage.lines(uri), 1):
        if not raw.strip():
            continue
        try:
            identity = str(json.loads(raw)["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise InputError.at(uri, number, f"is no line of a fold ({error})") from error
        add(split_id(identity)[1], fold, uri, number)


def _read_table(uri: str, add: _Add) -> None:
    try:
        lines = storage.read_bytes(uri).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError.at(uri, None, f"is not UTF-8 ({error.reason})") from error
    for number, row in enumerate(csv.reader(lines, csv.excel_tab), 1):
        if not row or (number == 1 and not row[-1].strip().isdecimal()):
            continue
        if len(row) != 2 or not row[1].strip().isdecimal():
            raise InputError.at(uri, number, "is not an id, a tab and the number of a fold", "mend the line")
        add(row[0].strip(), int(row[1]), uri, number)


def check_unit(written: str) -> str:
    """Return a unit, or the path of published folds.

    Raises:
        UsageError: it is neither.
    """
    if written in UNITS or storage.exists(written):
        return written
    raise UsageError(f"--folds: {written!r} is none of {', '.join(UNITS)}, and no file or directory of folds")
