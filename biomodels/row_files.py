"""Small tables that users bring: JSON lines or CSV, plain or gzip, read row by row into a model of theirs."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import AliasChoices, BaseModel, ValidationError

from biomodels.errors import InputError
from biomodels.terminology.blocks import head_lines, read_blocks
from biomodels.terminology.rejects import Reject

M = TypeVar("M", bound=BaseModel)

BYTES_PER_FIELD = 1 << 24
"""Longest field of a CSV file: an abstract may be long, and a forgotten quotation mark must not swallow the file."""


def read_rows(uri: str, model: type[M]) -> Iterator[tuple[int, M] | Reject]:
    """Stream the rows of a file.

    A file whose first character is `{` holds one JSON object a line; any other is CSV (or TSV, if its header has a
    tab) with a header. Fields that the model does not know are passed over; an empty cell is a field that is missing.

    Args:
        uri: the file.
        model: of a row; fields may have aliases.

    Yields:
        A row with the number of its line, or a `Reject`.

    Raises:
        InputError: the file cannot be read, is empty, or its header lacks a column that the model needs.
    """
    first = next((line for line in head_lines(uri) if line.strip()), None)
    if first is None:
        raise InputError.at(uri, 1, "is empty", "give JSON lines, or CSV with a header")
    rows = _json_rows(uri) if first.lstrip().startswith(b"{") else _csv_rows(uri, first, model)
    for line, row in rows:
        if isinstance(row, Reject):
            yield row
            continue
        try:
            yield line, model.model_validate(row)
        except ValidationError as error:
            yield Reject.of(uri, line, reason(error), json.dumps(row, ensure_ascii=False, default=str))


def reason(error: ValidationError) -> str:
    """Return the first problem of a row, led by its field."""
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"]))
    message = first["msg"].removeprefix("Value error, ")
    return f"{field}: {message}" if field else message


def _json_rows(uri: str) -> Iterator[tuple[int, dict[str, Any] | Reject]]:
    for block in read_blocks(uri):
        for line, raw in enumerate(block.data.split(b"\n"), start=block.first_line):
            if not raw.strip():
                continue
            try:
                row = json.loads(raw)
            except ValueError as error:
                yield line, Reject.of(uri, line, f"is no JSON ({error})", raw)
                continue
            yield line, row if isinstance(row, dict) else Reject.of(uri, line, "is no JSON object", raw)


def _csv_rows(uri: str, header: bytes, model: type[BaseModel]) -> Iterator[tuple[int, dict[str, Any] | Reject]]:
    csv.field_size_limit(BYTES_PER_FIELD)
    reader = csv.reader(_text_lines(uri), delimiter="\t" if b"\t" in header else ",", strict=True)
    try:
        names = [name.strip() for name in next(reader)]
        _check_header(uri, names, model)
        line = reader.line_num + 1
        for cells in reader:
            if cells:
                if len(cells) != len(names):
                    problem = f"has {len(cells)} fields where the header has {len(names)}"
                    yield line, Reject.of(uri, line, problem, ",".join(cells))
                else:
                    yield line, {name: cell for name, cell in zip(names, cells, strict=True) if cell.strip()}
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError.at(uri, reader.line_num, f"is no CSV ({error})", "check its quotation marks") from error


def _text_lines(uri: str) -> Iterator[str]:
    for block in read_blocks(uri):
        for line, raw in enumerate(block.data.splitlines(keepends=True), start=block.first_line):
            try:
                yield raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise InputError.at(uri, line, f"is not UTF-8 ({error})", "save the file as UTF-8") from error


def _check_header(uri: str, names: list[str], model: type[BaseModel]) -> None:
    if len(set(names)) != len(names):
        raise InputError.at(uri, 1, "the header names a column twice", "give each column its own name")
    for field, info in model.model_fields.items():
        alias = info.validation_alias
        accepted = [str(choice) for choice in alias.choices] if isinstance(alias, AliasChoices) else [field]
        if info.is_required() and not set(accepted) & set(names):
            raise InputError.at(uri, 1, f"has no column {' or '.join(accepted)}", f"it has: {', '.join(names)}")
