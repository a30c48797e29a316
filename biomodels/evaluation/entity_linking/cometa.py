"""COMETA: layman's terms from Reddit and their SNOMED CT concepts.

`splits/<split>/{train,dev,test}.csv`, tab-separated with a header; splits are `stratified_general`, `zeroshot_general`
(and, with the more specific ids, `stratified_specific`, `zeroshot_specific`). The dictionary is the names of SNOMED CT,
`id||name`, which COMETA's scripts make from a licensed release.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from biomodels import storage
from biomodels.errors import InputError
from biomodels.evaluation.entity_linking.benchmark import (
    COMETA_LOADER,
    Benchmark,
    Mention,
    Part,
    seen_form,
    seen_mentions,
)
from biomodels.evaluation.entity_linking.dictionary import one_of, read_dictionary
from biomodels.evaluation.entity_linking.options import ReadOptions
from biomodels.evaluation.entity_linking.text_files import raw_lines, require_folder

_TEST = re.compile(r"(?:.*/)?((?:stratified|zeroshot|random)\w*)/test\.csv")
COLUMNS = {"general": "General SNOMED ID", "specific": "Specific SNOMED ID"}


def read(name: str, options: ReadOptions) -> Benchmark:
    """Read every split that the folder has."""
    files = require_folder(options.data, name)
    tests = [(found[1], file) for file in files if (found := _TEST.fullmatch(file))]
    if not tests:
        raise InputError(f"--data {options.data}: has no stratified_general/test.csv or zeroshot_general/test.csv")
    lines = options.lines()
    uri = options.dictionary or one_of(options.data, files, r".*dictionary.*\.txt(\.gz)?", "dictionary of SNOMED names")
    dictionary = read_dictionary(lines, uri)
    parts = []
    for split, file in tests:
        column = COLUMNS["specific" if split.endswith("specific") else "general"]
        seen = [
            mention
            for other in ("train.csv", "dev.csv")
            if (sibling := file.removesuffix("test.csv") + other) in files
            for mention in _mentions(storage.join(options.data, sibling), column, options.encoding)
        ]
        mentions = list(_mentions(storage.join(options.data, file), column, options.encoding))
        parts.append(Part(split, mentions, dictionary, dictionary, COMETA_LOADER, seen_mentions(seen)))
    return Benchmark(name, parts, rejects=lines.rejects)


def _mentions(uri: str, column: str, encoding: str | None) -> Iterator[Mention]:
    """Yield the mentions of one file; a quoted example may span lines.

    Raises:
        InputError: a column is missing, a row has too few, or the file is not in the encoding.
    """
    rows = csv.DictReader(_decoded(uri, encoding or "utf-8"), delimiter="\t")
    missing = {"Term", column} - set(rows.fieldnames or ())
    if missing:
        raise InputError(
            f"{uri}:1: has no column {sorted(missing)[0]!r} among {rows.fieldnames}; it must be separated by tabs"
        )
    for number, row in enumerate(rows):
        term, concept = row["Term"], row[column]
        if not term or not concept:
            raise InputError.at(uri, rows.line_num, f"has an empty Term or {column}", "mend the row")
        example = row.get("Example")
        start = example.find(term) if example else -1
        yield Mention(
            f"{number}",
            seen_form(term),
            term,
            (frozenset({concept}),),
            context=example or None,
            start=start if start >= 0 else None,
            end=start + len(term) if start >= 0 else None,
        )


def _decoded(uri: str, encoding: str) -> Iterator[str]:
    for number, raw in enumerate(raw_lines(uri), 1):
        try:
            line = raw.decode(encoding)
        except UnicodeDecodeError as error:
            raise InputError.at(uri, number, f"is not {encoding} (byte {error.start})", "give --encoding") from error
        yield line.removeprefix("\ufeff") if number == 1 else line
