"""One's own benchmark: a folder with `dictionary.txt` and files of `id||mention` or `id||mention||context` lines.

Each other `*.txt` is a part, but for `train*.txt` and `dev*.txt` (if there is a part besides them), whose mentions
count as seen. A context may mark the mention by <tgt>…</tgt>, or be plain.
"""

from __future__ import annotations

from biomodels import storage
from biomodels.errors import InputError
from biomodels.evaluation.entity_linking.benchmark import (
    CUSTOM_LOADER,
    Benchmark,
    Mention,
    Part,
    seen_form,
    seen_mentions,
)
from biomodels.evaluation.entity_linking.dictionary import one_of, read_dictionary
from biomodels.evaluation.entity_linking.options import ReadOptions
from biomodels.evaluation.entity_linking.text_files import Lines, MalformedLineError, fields, require_folder
from biomodels.evaluation.entity_linking.xlbel import OPEN, _context
from biomodels.evaluation.linking import SEPARATOR, UNLINKABLE
from biomodels.evaluation.metrics import id_set


def read(name: str, options: ReadOptions) -> Benchmark:
    """Read every part of the folder."""
    files = [file for file in require_folder(options.data, name) if "/" not in file]
    lines = options.lines()
    uri = options.dictionary or one_of(options.data, files, r"dictionary\.txt(\.gz)?", "dictionary.txt")
    dictionary = read_dictionary(lines, uri)
    queries = [file for file in files if file.endswith((".txt", ".txt.gz")) and "dictionary" not in file]
    training = [file for file in queries if file.startswith(("train", "dev"))]
    tests = [file for file in queries if file not in training] or training
    if not tests:
        raise InputError(f"--data {options.data}: has no file of id||mention lines, such as test.txt")
    seen = [m for file in training if file not in tests for m in _queries(lines, storage.join(options.data, file))]
    known = seen_mentions(seen)
    parts = [
        Part(
            file.removesuffix(".gz").removesuffix(".txt"),
            _queries(lines, storage.join(options.data, file)),
            dictionary,
            dictionary,
            CUSTOM_LOADER,
            known,
        )
        for file in tests
    ]
    return Benchmark(name, parts, rejects=lines.rejects)


def _queries(lines: Lines, uri: str) -> list[Mention]:
    count = 0

    def parse(line: str) -> Mention | None:
        nonlocal count
        ids, mention, *rest = fields(line, SEPARATOR, [2, 3], "id||mention or id||mention||context")
        gold = id_set(ids.strip())
        if not gold or not mention.strip():
            raise MalformedLineError("has an empty id" if mention.strip() else "has an empty mention")
        if any(part.lower() == UNLINKABLE for part in gold):
            return None
        count += 1
        found = Mention(f"{count}", seen_form(mention), mention.strip(), (gold,))
        if not rest:
            return found
        context, start, end = _context(rest[0]) if OPEN in rest[0] else (rest[0], None, None)
        return found._replace(context=context, start=start, end=end)

    return lines.parse(uri, parse)
