"""The job `link`: link mentions against an index, without a server."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from biomodels import storage
from biomodels.errors import BiomodelsError, InputError, UsageError
from ray_jobs.config import CommaList, JobConfig

if TYPE_CHECKING:
    from biomodels.index.filters import NameFilter
    from biomodels.linking.linker import Candidate, Linker

EXAMPLE = 'python -m ray_jobs link --index data/hpo/index --model models/m1 "heart attack" "short stature" --k 5'
CHUNK = 256  # mentions linked at a time


class Config(JobConfig):
    """Options of the job."""

    mentions: tuple[str, ...] = Field(
        default=(), description="mentions to link", json_schema_extra={"positional": True}
    )
    index: str = Field(description="directory of an index")
    model: str = Field(description="directory or Hub name of the model that made the index")
    file: str | None = Field(default=None, description="file with one mention per line, UTF-8; blank lines are skipped")
    k: int = Field(default=5, description="concepts per mention")
    languages: CommaList | None = Field(default=None, description="only names in these, as ISO 639 codes: en,de")
    sources: CommaList | None = Field(default=None, description="only names from these vocabularies: SNOMEDCT_US,MSH")
    semantic_types: CommaList | None = Field(default=None, description="only concepts of these types, as TUIs: T047")
    as_json: bool = Field(
        default=False,
        description="write one JSON object per mention instead of a table",
        json_schema_extra={"flags": "--json/--no-json"},
    )
    verify: bool = Field(
        default=True,
        description="read the index once and compare it with its checksums, about a second per GB, before it is used",
    )
    num_cpus: int | None = Field(default=None, ge=1, description="threads of the encoder; by default one per core")


class _Mention(NamedTuple):
    place: str
    text: str


def main(config: Config) -> int:
    """Link mentions to the concepts of an index, best first.

    Mentions come from the command line, a file, or both. A file is read and answered a few hundred lines at a time.
    """
    from biomodels.index.sharded import NameFilter, ShardedIndex
    from biomodels.inference.text_encoder import TextEncoder
    from biomodels.linking.linker import Linker, check_k, encoder_options

    if not config.mentions and config.file is None:
        raise UsageError("mentions: give at least one, on the command line or by --file")
    index = ShardedIndex.open(config.index, verify=config.verify)
    check_k(config.k, index)
    where = NameFilter.of(config.languages, config.sources, config.semantic_types)
    if where is not None:
        where.check(index.facts)
    linker = Linker(TextEncoder(config.model, threads=config.num_cpus, **encoder_options(index.facts)), index)
    count = 0
    for mentions in _chunks(_mentions(config)):
        answers = _link(linker, mentions, config.k, where)
        for mention, candidates in zip(mentions, answers, strict=True):
            (_write_json if config.as_json else _write_table)(mention.text, candidates)
        count += len(mentions)
    if not count:
        raise InputError(f"{config.file}: has no mention, only blank lines")
    return count


def _mentions(config: Config) -> Iterator[_Mention]:
    for number, text in enumerate(config.mentions, 1):
        yield _Mention(f"mention {number}", text)
    if config.file is None:
        return
    try:
        for number, raw in enumerate(storage.lines(config.file), 1):
            place = f"{config.file}:{number}"
            text = _decoded(raw, place)
            if text:
                yield _Mention(place, text)
    except OSError as error:
        raise InputError(f"--file {config.file}: cannot be read ({error})") from error


def _decoded(raw: bytes, place: str) -> str:
    try:
        return raw.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: not UTF-8 ({error.reason} at byte {error.start})") from error


def _chunks(mentions: Iterator[_Mention]) -> Iterator[list[_Mention]]:
    while chunk := list(itertools.islice(mentions, CHUNK)):
        yield chunk


def _link(linker: Linker, mentions: list[_Mention], k: int, where: NameFilter | None) -> list[list[Candidate]]:
    """Link a chunk; an error names the line of the file, not the place in the chunk."""
    try:
        return linker.link([mention.text for mention in mentions], k, where=where)
    except InputError:
        for mention in mentions:
            try:
                linker.link([mention.text], k, where=where)
            except BiomodelsError as error:
                raise InputError(str(error).replace("mention 1:", f"{mention.place}:")) from error
        raise


def _write_json(mention: str, candidates: list[Candidate]) -> None:
    answer = {"mention": mention, "candidates": [candidate.as_dict() for candidate in candidates]}
    sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n")


def _write_table(mention: str, candidates: list[Candidate]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(mention), title_justify="left")
    columns: dict[str, list[str]] = {
        "concept": [item.concept_id for item in candidates],
        "preferred name": [item.preferred_name for item in candidates],
        "matched name": [item.matched_name for item in candidates],
        "score": [f"{item.score:.5f}" for item in candidates],
        "source": [item.source for item in candidates],
        "language": [item.language for item in candidates],
        "types": [" ".join(item.semantic_types) for item in candidates],
    }
    if columns["concept"] == columns["preferred name"]:  # strings of a text file are concepts of their own
        del columns["preferred name"]
    columns = {heading: cells for heading, cells in columns.items() if any(cells) or heading == "concept"}
    table.add_column("", justify="right", no_wrap=True)
    for heading in columns:
        table.add_column(heading, no_wrap=heading == "score", overflow="fold")
    for item, *cells in zip(candidates, *columns.values(), strict=True):
        table.add_row(str(item.rank), *map(Text, cells))
    Console().print(table)
