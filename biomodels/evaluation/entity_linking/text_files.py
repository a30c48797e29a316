"""Files of the benchmarks: delimited lines, plain or gzipped, with every malformed line accounted for."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from biomodels import storage
from biomodels.errors import InputError, RejectRateError
from biomodels.evaluation.linking import Reject

T = TypeVar("T")


class MalformedLineError(ValueError):
    """What is wrong with a line."""


@dataclass
class Lines:
    """Reads files line by line and keeps what could not be read.

    Attributes:
        encoding: of the files.
        fallback: for lines that are not in `encoding`, or None to reject them.
        max_reject_rate: share of malformed lines of a file that is let pass.
        rejects: the malformed lines of all files read so far.
        fallbacks: number of lines that were read in the fallback encoding.
    """

    encoding: str = "utf-8"
    fallback: str | None = None
    max_reject_rate: float = 0.0
    rejects: list[Reject] = field(default_factory=list)
    fallbacks: int = 0

    def parse(self, uri: str, parse: Callable[[str], T | None]) -> list[T]:
        """Parse each line that is not blank.

        Args:
            uri: the file.
            parse: gets a line without its end, returns a record, or None for a line that holds none; raises
                `MalformedLineError`.

        Raises:
            InputError: the file is missing or cannot be read.
            RejectRateError: too many lines are malformed; the message names the first.
        """
        return self.parse_all([uri], parse)

    def parse_all(self, uris: Sequence[str], parse: Callable[[str], T | None]) -> list[T]:
        """Do the same with several files, and judge the rate of malformed lines over all."""
        found: list[T] = []
        rejects: list[Reject] = []
        seen = 0
        for uri in uris:
            for number, raw in enumerate(raw_lines(uri), 1):
                if not raw.strip():
                    continue
                seen += 1
                try:
                    record = parse(self._decode(raw, first=number == 1))
                except MalformedLineError as error:
                    shown = raw[:200].decode("utf-8", "backslashreplace").rstrip("\r\n")
                    rejects.append(Reject(uri, number, str(error), shown))
                    continue
                if record is not None:
                    found.append(record)
        if len(rejects) > self.max_reject_rate * seen:
            first = rejects[0]
            raise RejectRateError(
                f"{first.file}:{first.line}: {first.reason}; {len(rejects)} of {seen} lines are malformed: mend them, "
                "or allow them with a larger --max-reject-rate"
            )
        self.rejects += rejects
        return found

    def _decode(self, raw: bytes, *, first: bool) -> str:
        try:
            text = raw.decode(self.encoding)
        except UnicodeDecodeError as error:
            if self.fallback is None:
                raise MalformedLineError(
                    f"is not {self.encoding} ({error.reason} at byte {error.start}); if the file has another encoding, "
                    "give it by --encoding"
                ) from error
            text = raw.decode(self.fallback, "replace")
            self.fallbacks += 1
        return (text.removeprefix("\ufeff") if first else text).rstrip("\r\n")


def raw_lines(uri: str) -> Iterator[bytes]:
    """Yield the lines of a file; a name that ends in `.gz` is decompressed.

    Raises:
        InputError: it is missing, cannot be read, or is no gzip file.
    """
    try:
        if not uri.endswith(".gz"):
            yield from storage.lines(uri)
            return
        with storage.open_input(uri) as stream, gzip.open(stream) as content:
            yield from content
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{uri}: cannot be read ({error}); check the path, and the file") from error


def fields(line: str, separator: str, counts: Iterable[int], form: str) -> list[str]:
    """Split a line, or raise `MalformedLineError` if it has not one of the numbers of fields.

    Args:
        line: without its end.
        separator: between fields.
        counts: the numbers of fields that are right.
        form: what a line should look like, for the message.
    """
    found = line.split(separator)
    if len(found) not in set(counts):
        shown = {"\t": "tabs"}.get(separator, separator)
        hint = ""
        for other in ("||", "\t", ","):
            if other != separator and len(found) == 1 and other in line:
                hint = f" (it has {'tabs' if other == chr(9) else other} instead)"
                break
        raise MalformedLineError(f"has {len(found)} fields between {shown}, not the form {form}{hint}")
    return found


def first_line(uri: str) -> str:
    """Return the first line that is not blank, for telling formats apart; undecodable bytes are replaced."""
    for raw in raw_lines(uri):
        if raw.strip():
            return raw.decode("utf-8", "replace").removeprefix("\ufeff").rstrip("\r\n")
    return ""


def require_folder(uri: str, benchmark: str) -> list[str]:
    """Return the files below a benchmark's folder, relative to it.

    Raises:
        InputError: it is not there, is a file, or is empty.
    """
    if storage.is_file(uri):
        raise InputError(f"--data {uri}: is a file; {benchmark} is read from a folder")
    found = storage.list_files(uri, recursive=True)
    if not found:
        raise InputError(f"--data {uri}: is not there or has no file; {benchmark} is read from a folder")
    return found
