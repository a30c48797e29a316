"""AskAPatient: phrases from patients' reviews of drugs and their concepts in SNOMED CT and AMT, in ten folds.

`AskAPatient.fold-N.{train,validation,test}.txt` holds `id<TAB>label<TAB>mention` as published, or `id||mention` as in
SapBERT's bundle, which also has `AskAPatient.dict.txt`. Without that, the labels of all folds at hand are the
dictionary: every concept of the corpus under one name.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from biomodels import storage
from biomodels.errors import InputError
from biomodels.evaluation.entity_linking.benchmark import CUSTOM_LOADER, Benchmark, Mention, Part, seen_form
from biomodels.evaluation.entity_linking.dictionary import named_ids, read_dictionary
from biomodels.evaluation.entity_linking.options import ReadOptions
from biomodels.evaluation.entity_linking.text_files import Lines, MalformedLineError, fields, first_line, require_folder
from biomodels.evaluation.linking import SEPARATOR, NamedIds
from biomodels.evaluation.metrics import id_set

DICTIONARY = "AskAPatient.dict.txt"
_FILE = re.compile(r"AskAPatient\.fold-(\d+)\.(train|validation|test)\.txt")


class _Row(NamedTuple):
    concept: str
    label: str
    mention: str


def read(name: str, options: ReadOptions) -> Benchmark:
    """Read all folds of the folder; the published figure is their mean."""
    files = require_folder(options.data, name)
    by_fold: dict[int, dict[str, str]] = {}
    for file in files:
        if found := _FILE.fullmatch(file):
            by_fold.setdefault(int(found[1]), {})[found[2]] = storage.join(options.data, file)
    for fold, splits in sorted(by_fold.items()):
        if "test" not in splits:
            raise InputError(f"--data {options.data}: fold {fold} has no AskAPatient.fold-{fold}.test.txt")
    if not by_fold:
        raise InputError(f"--data {options.data}: has no AskAPatient.fold-0.test.txt, …")
    lines = options.lines(fallback="cp1252")
    rows = {fold: {split: _read_rows(lines, uri) for split, uri in splits.items()} for fold, splits in by_fold.items()}
    dictionary, notes = _dictionary(
        lines, options, files, [row for f in rows.values() for s in f.values() for row in s]
    )
    if lines.fallbacks:
        notes.append(f"{lines.fallbacks} lines are not UTF-8 and were read as Windows-1252, as the corpus has them.")
    parts = []
    for fold, splits_of in sorted(rows.items()):
        seen = [row.mention for split in ("train", "validation") for row in splits_of.get(split, [])]
        mentions = [
            Mention(f"{number}", seen_form(row.mention), row.mention, (id_set(row.concept),))
            for number, row in enumerate(splits_of["test"])
        ]
        known = frozenset(map(seen_form, seen)) or None
        parts.append(Part(f"fold-{fold}", mentions, dictionary, dictionary, CUSTOM_LOADER, known))
    return Benchmark(name, parts, notes, lines.rejects, averaged=True)


def _read_rows(lines: Lines, uri: str) -> list[_Row]:
    def parse(line: str) -> _Row:
        if SEPARATOR in head:
            concept, mention = fields(line, SEPARATOR, [2], "id||mention")
            row = _Row(concept, "", mention)
        else:
            row = _Row(*fields(line, "\t", [3], "id<TAB>label<TAB>mention"))
        if not row.concept.strip() or not row.mention.strip():
            raise MalformedLineError("has an empty id or mention")
        return row

    head = first_line(uri)
    return lines.parse(uri, parse)


def _dictionary(lines: Lines, options: ReadOptions, files: list[str], rows: list[_Row]) -> tuple[NamedIds, list[str]]:
    if options.dictionary or DICTIONARY in files:
        return read_dictionary(lines, options.dictionary or storage.join(options.data, DICTIONARY)), []
    labels = sorted({(row.concept, row.label) for row in rows if row.label.strip()})
    if not labels:
        raise InputError(f"--data {options.data}: has no {DICTIONARY}, and its files have no labels; give --dictionary")
    note = (
        f"The dictionary is the {len(labels):,} labels of the corpus itself, since the folder has no {DICTIONARY}: "
        "an easier task than the published one."
    )
    found = named_ids(storage.join(options.data, "(labels)"), labels)
    from biomodels.artifacts import digest_json

    found.sha256 = digest_json(labels)
    return found, [note]
