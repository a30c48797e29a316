"""Pairs as text: `id||name_1||name_2` lines, which SapBERT's training code reads, and bilingual title pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, Literal

from biomodels.artifacts import Artifact, batches
from biomodels.terminology.blocks import Block
from biomodels.terminology.double_bar import SEPARATOR, write_lines
from biomodels.terminology.languages import UNKNOWN_LANGUAGE
from biomodels.terminology.normalise import Normaliser
from biomodels.terminology.rejects import Reject


@dataclass
class PairRows:
    """The content of a block: `(concept_id, name_1, name_2)` of each sound line, and rejects."""

    rows: list[tuple[str, str, str]] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)


@dataclass(frozen=True)
class PairsTextFormat:
    """A file of `id||name_1||name_2` lines. It names no language."""

    normaliser: Normaliser
    languages: tuple[str, str] = (UNKNOWN_LANGUAGE, UNKNOWN_LANGUAGE)

    def parse(self, block: Block, file: str) -> PairRows:
        """Parse whole lines, and normalise the names.

        Blank lines are skipped and white space around a field is dropped. A name that holds `||` cannot be told from
        two fields, so its line is rejected, as are empty fields and undecodable bytes.
        """
        return _parse_lines(block, file, self._row)

    def _row(self, line: str, number: int) -> tuple[str, str, str] | str:
        fields = [part.strip() for part in line.split(SEPARATOR)]
        if len(fields) != 3:
            return f"has {len(fields)} fields around '||' where 3 are needed"
        if not all(fields):
            return f"has an empty {('concept id', 'first name', 'second name')[fields.index('')]}"
        return fields[0], self.normaliser(fields[1]), self.normaliser(fields[2])


@dataclass(frozen=True)
class TitlesFormat:
    """A file of bilingual pairs: the two titles of a Wikipedia article, or a word and its translation as in MUSE.

    A line holds two texts around a tab, or two words around white space.

    Attributes:
        normaliser: of the texts.
        languages: of the first and the second text, in ISO codes.
        concepts: "text" makes one concept of all lines with the same first text, so that a word's translations are
            not pushed apart; "line" makes one of each line, as in SapBERT's own files.
    """

    normaliser: Normaliser
    languages: tuple[str, str]
    concepts: Literal["text", "line"] = "text"

    def parse(self, block: Block, file: str) -> PairRows:
        """Parse whole lines, and normalise the texts; blank lines are skipped.

        Rejected are undecodable lines, lines without a tab that are not two words, and those with more than one tab or
        an empty side.
        """
        return _parse_lines(block, file, self._row)

    def _row(self, line: str, number: int) -> tuple[str, str, str] | str:
        texts = [part.strip() for part in line.split("\t")] if "\t" in line else line.split()
        if "\t" not in line and len(texts) != 2:
            words = "one word" if len(texts) == 1 else f"{len(texts)} words"
            return f"has {words} and no tab where two words or two texts around a tab are needed"
        if len(texts) != 2 or not all(texts):
            return f"has {len(texts)} columns, {texts.count('')} of them empty, where 2 texts are needed"
        first, second = map(self.normaliser, texts)
        return f"{'-'.join(self.languages)}:{first if self.concepts == 'text' else number}", first, second


def write_pairs_text(pairs: Artifact, sink: IO[bytes]) -> tuple[int, int]:
    """Write a pairs artifact as text; see `write_lines`.

    Returns:
        How many lines were written, and how many pairs have no such form.
    """
    columns = ["concept_id", "name_1", "name_2"]
    return write_lines((batch.columns for batch in batches(pairs, columns, prefix="part-")), sink)


def _parse_lines(block: Block, file: str, row: Callable[[str, int], tuple[str, str, str] | str]) -> PairRows:
    """Parse lines by `row`, which returns the row or what is wrong with the line."""
    found = PairRows()
    for number, raw in enumerate(block.data.split(b"\n"), start=block.first_line):
        if not raw.strip():
            continue
        try:
            parsed = row(raw.decode("utf-8").removesuffix("\r"), number)
        except UnicodeDecodeError as error:
            parsed = f"is not UTF-8 at byte {error.start + 1}"
        if isinstance(parsed, str):
            found.rejects.append(Reject.of(file, number, parsed, raw))
        else:
            found.rows.append(parsed)
    return found
