"""Readers of training sentences: lines of text, CSV, TSV, JSON lines, and the NLI corpora.

A reader yields `(line, outcome)`; an outcome is an example, an `Nli` row, or a `Bad` row with the reason. Line numbers
count from the start of what is read. Blank lines are passed over.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Literal, NamedTuple, cast

from biomodels import storage
from biomodels.errors import InputError

Format = Literal["text", "csv", "tsv", "jsonl", "nli", "nli-tsv"]
LINE_FORMATS = frozenset({"text", "tsv", "jsonl", "nli", "nli-tsv"})
"""Formats in which a line feed ends a row, so that a file can be read in pieces."""

LABELS = ("entailment", "neutral", "contradiction")
GZIP = b"\x1f\x8b"
HEAD_BYTES = 1 << 20
CONTENT = 200
"""Characters of a bad row that are kept to show."""

_FIRST = ("sentence_1", "sentence1", "sent0", "anchor", "query", "premise", "text", "sentence")
_SECOND = ("sentence_2", "sentence2", "sent1", "positive", "pos", "entailment")
_NEGATIVES = ("hard_negatives", "hard_negative", "hard_neg", "negatives", "negative", "neg", "contradiction")
_NLI_COLUMNS = ("gold_label", "sentence1", "sentence2")
csv.field_size_limit(1 << 26)  # a field may be a whole book


class Example(NamedTuple):
    """What a model is trained on: one sentence, a pair, or a pair with hard negatives."""

    sentence_1: str
    sentence_2: str | None = None
    hard_negatives: tuple[str, ...] = ()

    @property
    def columns(self) -> int:
        """1, 2, or 2 and the number of hard negatives."""
        return 1 if self.sentence_2 is None else 2 + len(self.hard_negatives)


class Nli(NamedTuple):
    """A premise with a hypothesis; the label is None where the annotators did not agree."""

    premise: str
    hypothesis: str
    label: str | None


class Bad(NamedTuple):
    """A row that cannot be used."""

    reason: str
    content: str


Parsed = Example | Nli | str
"""What a parser makes of a row; a text is the reason why it can make nothing."""


@dataclass(frozen=True)
class Source:
    """A file and how it is read.

    Attributes:
        uri: where it is.
        form: its format.
        packed: it is gzip.
        header: the names in its first row, if it has such a row.
        columns: of CSV and TSV: how many a row must have.
        bytes: its size.
    """

    uri: str
    form: Format
    packed: bool
    header: tuple[str, ...] | None
    columns: int
    bytes: int

    @property
    def divisible(self) -> bool:
        """Whether pieces of it can be read apart."""
        return self.form in LINE_FORMATS and not self.packed


def open_source(uri: str, form: Format | None = None, header: bool | None = None) -> Source:
    """Look at the start of a file and decide how it is read.

    Args:
        uri: plain or gzip.
        form: its format; by default by its suffix (`.csv`, `.tsv`, `.jsonl`, `.json`, else text), and NLI where JSON
            lines or the heading of a table have `gold_label`, `sentence1` and `sentence2`.
        header: whether CSV and TSV start with a row of names; by default if all fields of the first row are different
            single words, which sentences hardly are.

    Raises:
        InputError: the file cannot be read, or has no row.
    """
    try:
        files, path = storage.filesystem(uri)
        size = int(files.get_file_info(path).size or 0)
        with storage.open_input(uri) as stream:
            packed = stream.read(2) == GZIP
        with _open(uri, packed) as opened:
            head = opened.read(HEAD_BYTES).decode("utf-8-sig", errors="surrogateescape")
    except (OSError, EOFError) as error:
        raise InputError.at(uri, None, f"cannot be read ({error})", "check the path") from error
    if not head.strip():
        raise InputError.at(uri, None, "is empty", "give a file of sentences")
    form = _form(uri, form, head)
    if form in ("text", "jsonl", "nli"):
        return Source(uri, form, packed, None, 0, size)
    first = next(_rows(iter(head.splitlines(keepends=True)), form, uri))[1]
    if isinstance(first, Bad):
        raise InputError.at(uri, 1, first.reason, "quote fields as CSV demands")
    words = [field.strip() for field in first]
    if header is None:
        header = len(set(words)) == len(words) and all(re.fullmatch(r"[\w.#-]+", word) for word in words)
    if form == "nli-tsv":
        missing = [name for name in _NLI_COLUMNS if name not in words]
        if missing:
            raise InputError.at(uri, 1, f"has no column {missing[0]}", "an NLI table starts with the columns' names")
        header = True
    return Source(uri, form, packed, tuple(words) if header else None, len(first), size)


def read(source: Source, start: int = 0, end: int | None = None) -> Iterator[tuple[int, Example | Nli | Bad]]:
    """Yield the rows of a file, or of the piece of it whose lines start from byte `start` on and before `end`.

    Raises:
        InputError: the file ends inside a quoted field.
    """
    parse = _PARSERS[source.form]
    with _open(source.uri, source.packed) as stream:
        for number, row in _raw(stream, source, start, end):
            parsed = row if isinstance(row, Bad) else parse(row, source)
            if isinstance(parsed, str):
                shown = row if isinstance(row, str) else "\t".join(row)
                parsed = Bad(parsed, shown.encode("utf-8", "replace").decode()[:CONTENT])
            yield number, parsed


def _raw(stream: IO[bytes], source: Source, start: int, end: int | None) -> Iterator[tuple[int, str | list[str] | Bad]]:
    """Yield the rows that are not blank, as the format's parser takes them; the header is left out."""
    lines = _lines(stream, start, end)
    if source.form in ("text", "jsonl", "nli"):
        yield from ((number, text) for number, line in lines if (text := _decoded(line)).strip())
        return
    for number, fields in _rows((_decoded(line) for _, line in lines), source.form, source.uri):
        header = source.header is not None and start == 0 and number == 1
        if isinstance(fields, Bad) or (any(field.strip() for field in fields) and not header):
            yield number, fields


def _form(uri: str, form: Format | None, head: str) -> Format:
    name = uri.lower().removesuffix(".gz")
    first = head.splitlines()[0]
    if form in (None, "nli"):
        if first.lstrip().startswith("{") and all(f'"{key}"' in first for key in _NLI_COLUMNS):
            return "nli"
        if form == "nli" or set(_NLI_COLUMNS) <= set(first.strip().split("\t")):
            return "nli-tsv"
    if form is not None:
        return form
    suffix = name.rsplit(".", 1)[-1]
    suffixes: dict[str, Format] = {"csv": "csv", "tsv": "tsv", "jsonl": "jsonl", "json": "jsonl", "ndjson": "jsonl"}
    return suffixes.get(suffix, "text")


def _open(uri: str, packed: bool) -> IO[bytes]:
    if packed:
        return cast(IO[bytes], gzip.GzipFile(fileobj=storage.open_input(uri)))
    files, path = storage.filesystem(uri)
    return cast(IO[bytes], files.open_input_file(path))


def _lines(stream: IO[bytes], start: int, end: int | None) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that begin from `start` on and before `end`, reading pieces of bounded size."""
    position = max(0, start - 1)
    if position:
        stream.seek(position)
    rest, number, skipping = b"", 0, position > 0 or start > 0
    while True:
        piece = stream.read(storage.CHUNK_BYTES)
        *whole, rest = (rest + piece).split(b"\n") if piece else (rest, b"")
        for line in whole if piece or whole[0] else ():
            if end is not None and position >= end:
                return
            position += len(line) + 1
            if skipping:
                skipping = False
                continue
            number += 1
            yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 and start == 0 else line
        if not piece:
            return


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", errors="surrogateescape").removesuffix("\r") + "\n"


def _rows(lines: Iterator[str], form: Format, uri: str = "") -> Iterator[tuple[int, list[str] | Bad]]:
    """Yield number of the first line and fields of each row."""
    if form != "csv":
        for number, line in enumerate(lines, start=1):
            yield number, line.rstrip("\r\n").split("\t")
        return
    reader = csv.reader(lines, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            yield number, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "unexpected end" in str(error) or "field limit" in str(error):
                raise InputError.at(uri, number, "a quoted field does not end", "close the quotation mark") from error
            yield number, Bad(f"is no CSV ({error})", "")


def _text_row(line: str, source: Source) -> Parsed:
    return _example(line, None, ())


def _table_row(fields: list[str], source: Source) -> Parsed:
    if len(fields) != source.columns:
        return f"has {len(fields)} column{'' if len(fields) == 1 else 's'} where {source.columns} are needed"
    return _example(fields[0], fields[1] if len(fields) > 1 else None, fields[2:])


def _nli_row(fields: list[str], source: Source) -> Parsed:
    assert source.header is not None
    if len(fields) < len(source.header):
        return f"has {len(fields)} columns where {len(source.header)} are needed"
    label, premise, hypothesis = (fields[source.header.index(name)] for name in _NLI_COLUMNS)
    return _nli(label, premise, hypothesis)


def _json_row(line: str, source: Source) -> Parsed:
    value = _json(line)
    if isinstance(value, dict):
        first, second, negatives = (_of(value, names) for names in (_FIRST, _SECOND, _NEGATIVES))
        if first is None:
            return f"has none of the keys {', '.join(_FIRST)}"
    elif isinstance(value, list):
        first, second = [*value[:2], None, None][:2]
        negatives = value[2:]
    else:
        return value if isinstance(value, _Problem) else "is neither an object nor a list"
    negatives = [negatives] if isinstance(negatives, str) else negatives or []
    if not isinstance(negatives, list) or not all(isinstance(text, str) for text in (first, second or "", *negatives)):
        return "has a sentence that is no text"
    return _example(first, second, negatives)


def _json_nli(line: str, source: Source) -> Parsed:
    value = _json(line)
    if isinstance(value, _Problem):
        return value
    texts = [value.get(name) for name in _NLI_COLUMNS] if isinstance(value, dict) else [None]
    if not all(isinstance(text, str) for text in texts):
        return f"has no texts under {', '.join(_NLI_COLUMNS)}"
    return _nli(*texts)


class _Problem(str):
    """Why a line is no JSON."""


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        return _Problem(f"is no JSON ({error})")


def _of(value: dict[str, Any], names: Iterable[str]) -> Any:
    return next((value[name] for name in names if value.get(name) is not None), None)


def _nli(label: str, premise: str, hypothesis: str) -> Parsed:
    problem = _invalid(premise, hypothesis)
    if problem:
        return problem
    if not premise.strip() or not hypothesis.strip():
        return "has an empty sentence"
    label = label.strip().lower()
    if label not in LABELS and label not in {"-", ""}:
        return f"has the label {label!r}, which is none of {', '.join(LABELS)}"
    return Nli(premise.strip(), hypothesis.strip(), label if label in LABELS else None)


def _example(first: str, second: str | None, negatives: Iterable[str]) -> Parsed:
    negatives = tuple(text.strip() for text in negatives)
    if second is None and negatives:
        return "has a hard negative but no second sentence"
    problem = _invalid(first, second or "", *negatives)
    if problem:
        return problem
    if not first.strip() or (second is not None and not second.strip()) or not all(negatives):
        return "has an empty sentence"
    return Example(first.strip(), second.strip() if second is not None else None, negatives)


def _invalid(*texts: str) -> str | None:
    """Say what is wrong with texts that cannot be stored as UTF-8."""
    for text in texts:
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            return "is not UTF-8"
        if "\0" in text:
            return "holds a NUL"
    return None


_PARSERS: dict[str, Callable[..., Parsed]] = {
    "text": _text_row,
    "csv": _table_row,
    "tsv": _table_row,
    "jsonl": _json_row,
    "nli": _json_nli,
    "nli-tsv": _nli_row,
}
