"""XL-BEL: mentions from Wikipedia in ten languages and their UMLS concepts.

One file per language whose name begins with its code, such as `de_1k_test_query.txt`: v0.0 has `CUI||mention`, v1.0
`CUI||mention||sentence with <tgt>mention</tgt>`; several CUIs, `C1|C2`, are alternatives. The dictionary is UMLS names
in all languages, `CUI||name`.
"""

from __future__ import annotations

import re

from biomodels import storage
from biomodels.errors import InputError
from biomodels.evaluation.entity_linking.benchmark import CUSTOM_LOADER, Benchmark, Mention, Part, seen_form
from biomodels.evaluation.entity_linking.dictionary import one_of, read_dictionary
from biomodels.evaluation.entity_linking.options import ReadOptions
from biomodels.evaluation.entity_linking.text_files import Lines, MalformedLineError, fields, require_folder
from biomodels.evaluation.linking import SEPARATOR
from biomodels.evaluation.metrics import id_set

OPEN, CLOSE = "<tgt>", "</tgt>"
FORM = "CUI||mention or CUI||mention||sentence with <tgt>mention</tgt>"
_FILE = re.compile(r"([a-z]{2,3})(?:[_.-].*)?\.txt")


def read(name: str, options: ReadOptions) -> Benchmark:
    """Read every language of the folder; the mean is over the languages."""
    files = require_folder(options.data, name)
    languages = {found[1]: file for file in files if "/" not in file and (found := _FILE.fullmatch(file))}
    if not languages:
        raise InputError(f"--data {options.data}: has no file of a language, such as de_1k_test_query.txt")
    lines = options.lines()
    uri = options.dictionary or one_of(
        options.data, files, r"(umls.*|.*dictionary.*)\.txt(\.gz)?", "dictionary, such as umls_onto_….txt"
    )
    dictionary = read_dictionary(lines, uri)
    parts = [
        Part(
            language,
            read_queries(lines, storage.join(options.data, file), language),
            dictionary,
            dictionary,
            CUSTOM_LOADER,
        )
        for language, file in sorted(languages.items())
    ]
    return Benchmark(name, parts, rejects=lines.rejects, averaged=True)


def read_queries(lines: Lines, uri: str, language: str) -> list[Mention]:
    """Read one file of queries, with or without contexts; mentions are taken as they are, to the blank."""
    count = 0

    def parse(line: str) -> Mention:
        nonlocal count
        ids, mention, *rest = fields(line, SEPARATOR, [2, 3], FORM)
        gold = id_set(ids.strip())
        if not gold or not mention.strip():
            raise MalformedLineError("has an empty CUI" if mention.strip() else "has an empty mention")
        context, start, end = _context(rest[0]) if rest else (None, None, None)
        count += 1
        return Mention(f"{count}", seen_form(mention), mention, (gold,), language, context, start, end)

    return lines.parse(uri, parse)


def _context(tagged: str) -> tuple[str, int, int]:
    """Take the tags out of a sentence; the span counts code points, whatever the direction of the script."""
    before, opened, rest = tagged.partition(OPEN)
    target, closed, after = rest.partition(CLOSE)
    if not opened or not closed or OPEN in target + after or CLOSE in after:
        raise MalformedLineError(f"has a context without exactly one {OPEN}…{CLOSE}")
    return before + target + after, len(before), len(before) + len(target)
