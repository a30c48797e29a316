"""BioSyn's pre-processing of mentions (github.com/dmis-lab/BioSyn, `preprocess/`), for raw PubTator files.

In this order: the long form of an abbreviation replaces it, word by word; a composite mention is cut into its parts if
there are as many parts as gold ids; known misspellings are mended; the case is lowered, and each run of white space and
punctuation becomes one blank. Abbreviations are found by the algorithm of Schwartz and Hearst (2003); BioSyn used
Ab3P, a refinement of it.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field

from biomodels.evaluation.entity_linking.text_files import Lines, fields

_PUNCTUATION = re.compile(rf"[\s{re.escape(string.punctuation.replace('|', ''))}]+")
_AND = r"(?:\s+and/or\s+|\s+and\s+|\s+or\s+)"
_LIST = re.compile(rf",?{_AND}|\s*,\s+|/")
_OF = re.compile(r"(?P<head>.+?\s+of(?:\s+the)?)\s+(?P<list>.+)")
_ARTICLES = {"a", "an", "the"}
_MOST_ROUNDS = 5


def normalise_mention(text: str) -> str:
    """Lower the case and turn white space and punctuation, but for bars, into single blanks."""
    return _PUNCTUATION.sub(" ", text.lower()).strip()


def read_spelling(lines: Lines, uri: str) -> dict[str, str]:
    """Read misspelt words and their corrections, `wrong||right` a line."""
    return {wrong.strip(): right.strip() for wrong, right in lines.parse(uri, _pair)}


def _pair(line: str) -> tuple[str, str]:
    wrong, right = fields(line, "||", [2], "wrong||right")
    return wrong, right


def split_composite_mention(mention: str, count: int) -> list[str]:
    """Cut "breast, ovarian and colon cancer" into as many parts as there are ids, or return it whole.

    Understood are lists before a common stem ("A, B and C stem", "A/B stem"), lists after a common head ("head of A and
    B"), and lists of things that have nothing in common ("A B and C D").
    """
    if count < 2:
        return [mention]
    if found := _OF.fullmatch(mention):
        parts = _cut(found["list"])
        if len(parts) == count:
            return [f"{found['head']} {part}" for part in parts]
    parts = _cut(mention)
    if len(parts) != count:
        return [mention]
    *firsts, last = parts
    words = last.split()
    words = words[1:] if words[0] in _ARTICLES else words
    if len(words) < 2:
        return [mention]
    stem = " ".join(words[1:])
    return [*(part if part.endswith(words[-1]) else f"{part} {stem}" for part in firsts), last]


def _cut(text: str) -> list[str]:
    return [part for part in (piece.strip() for piece in _LIST.split(text)) if part]


@dataclass(frozen=True)
class BioSynForm:
    """The pre-processing with its list of misspellings."""

    spelling: Mapping[str, str] = field(default_factory=dict)

    def abbreviations(self, text: str) -> dict[str, str]:
        """Return short form → long form, as a document defines them."""
        from abbreviation_extractor import extract_abbreviation_definition_pairs

        pairs = extract_abbreviation_definition_pairs(text, first_definition=True)
        return {pair.abbreviation: pair.definition for pair in pairs}

    def mention(self, mention: str, parts: str, ids: int, abbreviations: Mapping[str, str]) -> str:
        """Return the processed mention; the parts of a composite are separated by bars.

        Args:
            mention: as in the text.
            parts: those of a composite with bars between, if the corpus writes them out, else "".
            ids: number of gold ids.
            abbreviations: of the document.
        """
        if parts and parts.count("|") + 1 == ids:
            pieces = parts.split("|")
        else:
            pieces = split_composite_mention(self._expand(mention, abbreviations), ids)
        return "|".join(self._clean(self._expand(piece, abbreviations)) for piece in pieces)

    def _expand(self, text: str, abbreviations: Mapping[str, str]) -> str:
        """Replace words by their long forms until nothing changes."""
        for _ in range(_MOST_ROUNDS):
            words = " ".join(abbreviations.get(word, word) for word in text.split())
            if words == text:
                break
            text = words
        return text

    def _clean(self, text: str) -> str:
        words = " ".join(self.spelling.get(word, word) for word in text.lower().split())
        return normalise_mention(words)
