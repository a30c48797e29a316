"""NCBI disease, BC5CDR diseases and chemicals, in the layouts that are passed around.

- BioSyn's: `processed_{train,dev,test}/*.concept` with lines `pmid||start|end||type||mention||ids`,
  `train_dictionary.txt` (the terminology alone) and `{dev,test}_dictionary.txt`, to which the mentions of the other
  splits were added with their gold.
- ResCNN's: `data.json` with [mention, ids] lists by split, and one dictionary.
- PubTator as published: see `pubtator`.

Without a test split, as in folders that hold only what is public, the development set is measured.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from biomodels import storage
from biomodels.errors import InputError
from biomodels.evaluation.entity_linking import pubtator
from biomodels.evaluation.entity_linking.benchmark import (
    BIOSYN_LOADER,
    Benchmark,
    Mention,
    Part,
    gold_per_part,
    seen_form,
    seen_mentions,
)
from biomodels.evaluation.entity_linking.dictionary import SPLIT_IDS, one_of, read_dictionary
from biomodels.evaluation.entity_linking.options import ReadOptions
from biomodels.evaluation.entity_linking.text_files import Lines, MalformedLineError, fields, require_folder
from biomodels.evaluation.linking import SEPARATOR, UNLINKABLE, NamedIds

FORM = "pmid||start|end||type||mention||ids"
SPLITS = ("test", "dev")


def read(name: str, options: ReadOptions) -> Benchmark:
    """Read one of the three benchmarks from `options.data`."""
    lines = options.lines()
    files = require_folder(options.data, name)
    if "data.json" in files:
        splits = _read_json(storage.join(options.data, "data.json"))
    elif any(file.startswith("processed_") for file in files):
        splits = _read_folders(lines, options.data, files)
    elif pubtator.splits(files):
        return pubtator.read(name, options, lines, files)
    else:
        raise InputError(
            f"--data {options.data}: has neither processed_test/*.concept (BioSyn), nor data.json, nor PubTator files"
        )
    split = next((split for split in SPLITS if splits.get(split)), None)
    if split is None:
        raise InputError(f"--data {options.data}: has neither mentions of a test nor of a dev split")
    dictionary, terminology = _dictionaries(lines, options, files, split)
    seen = [m for other, mentions in splits.items() if other not in (split, "test") for m in mentions]
    part = Part(
        split,
        splits[split],
        dictionary,
        terminology,
        BIOSYN_LOADER,
        seen_mentions(seen),
    )
    return Benchmark(name, [part], rejects=lines.rejects)


def _dictionaries(
    lines: Lines, options: ReadOptions, files: Sequence[str], split: str
) -> tuple[NamedIds, NamedIds | None]:
    if options.dictionary:
        given = read_dictionary(lines, options.dictionary)
        return given, given
    if f"{split}_dictionary.txt" in files:
        dictionary = read_dictionary(lines, storage.join(options.data, f"{split}_dictionary.txt"))
        base = "train_dictionary.txt" in files
        return dictionary, read_dictionary(lines, storage.join(options.data, "train_dictionary.txt")) if base else None
    uri = one_of(options.data, files, r".*dictionary.*\.txt(\.gz)?", f"dictionary ({split}_dictionary.txt)")
    dictionary = read_dictionary(lines, uri)
    return dictionary, dictionary


def _read_folders(lines: Lines, folder: str, files: Sequence[str]) -> dict[str, list[Mention]]:
    by_split: dict[str, list[str]] = {}
    for file in files:
        directory, _, base = file.rpartition("/")
        if directory.startswith("processed_") and base.endswith((".concept", ".txt")):
            by_split.setdefault(directory.removeprefix("processed_"), []).append(storage.join(folder, file))
    return {split: read_concepts(lines, uris) for split, uris in sorted(by_split.items())}


def read_concepts(lines: Lines, uris: Sequence[str]) -> list[Mention]:
    """Read `*.concept` files, in the order of their names; mentions without a concept are left out."""
    count = 0

    def parse(line: str) -> Mention | None:
        nonlocal count
        document, span, _, mention, ids = fields(line, SEPARATOR, [5], FORM)
        start, _, end = span.partition("|")
        gold = [part for part in SPLIT_IDS.split(ids.strip()) if part]
        if not gold or not mention.strip():
            raise MalformedLineError("has an empty id" if mention.strip() else "has an empty mention")
        if any(part.lower() == UNLINKABLE for part in gold):
            return None
        if not (start.isdigit() and end.isdigit()):
            raise MalformedLineError(f"has the span {span!r}, not start|end")
        count += 1
        text = mention.strip()
        return Mention(f"{document}:{span}:{count}", document, text, gold_per_part(text, gold))

    return lines.parse_all(uris, parse)


def _read_json(uri: str) -> dict[str, list[Mention]]:
    try:
        content = storage.read_json(uri)
        return {
            split: [
                Mention(
                    f"{split}:{i}",
                    seen_form(mention),
                    mention,
                    gold_per_part(mention, [p for p in SPLIT_IDS.split(ids) if p]),
                )
                for i, (mention, ids) in enumerate(rows)
                if ids.lower() != UNLINKABLE
            ]
            for split, rows in content.items()
        }
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, AttributeError, TypeError, ValueError) as error:
        raise InputError(f"{uri}: is not JSON of the form {{split: [[mention, ids], …]}} ({error})") from error
