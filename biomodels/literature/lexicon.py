"""The strings by which the gate knows the genes of a panel, and where they stand in a text.

Symbols are compared letter by letter, between characters that are neither letters nor digits. Names are compared as
runs of lower-case words; of overlapping names the longest counts, also where it is the name of a gene outside the
panel. Both searches are Aho-Corasick automata, which read a text once for all strings.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from biomodels.literature.genes import Gene

SYMBOL, NAME, ALIAS, PREVIOUS, PUBTATOR = "symbol", "name", "alias", "previous", "pubtator"
TIERS = (SYMBOL, NAME, ALIAS, PREVIOUS, PUBTATOR)
"""Where a string comes from: approved symbol, names, alias symbol, previous symbol; or PubTator's annotation."""

LEAST_CHARACTERS = 3
"""A shorter string counts only as an approved symbol, and only with support from the text."""

LEAST_NAME_CHARACTERS = 6
MOST_NAME_WORDS = 8

_WORD = re.compile(r"[a-z0-9]+")
_GREEK = str.maketrans(
    {
        code: f" {unicodedata.name(chr(code)).split()[-1].lower().replace('lamda', 'lambda')} "
        for code in range(ord("α"), ord("ω") + 1)
    }
)


class Hit(NamedTuple):
    """An occurrence of a string, and the text around it: the text itself for a symbol, its words for a name."""

    string: int
    start: int
    context: str


@dataclass(frozen=True)
class Known:
    """A string and the genes that it may mean."""

    text: str
    is_name: bool
    genes: Mapping[str, tuple[str, ...]]
    """HGNC id → tiers, sorted."""

    @property
    def words(self) -> int:
        """How many words it has."""
        return len(self.text.split())


def words_of(text: str) -> str:
    """Return the lower-case words of a text, which are what names are compared by, joined by spaces."""
    lowered = text.lower()
    return " ".join(_WORD.findall(lowered if lowered.isascii() else lowered.translate(_GREEK)))


class Lexicon:
    """All strings of a panel, numbered in their sorted order."""

    def __init__(self, strings: Iterable[Known], shadows: Iterable[str] = ()) -> None:
        """Build a lexicon.

        Args:
            strings: what is searched for.
            shadows: names of other genes, as words: what lies under them is not searched.
        """
        self.strings = sorted(strings, key=lambda known: (known.is_name, known.text))
        self.shadows = sorted(set(shadows) - {known.text for known in self.strings if known.is_name})

    @classmethod
    def of(
        cls,
        genes: Mapping[str, Gene],
        panel: Mapping[str, Iterable[str]],
        diseases: Iterable[str] = (),
        tiers: Iterable[str] = TIERS,
    ) -> Lexicon:
        """Collect the strings of a panel's genes.

        A symbol that is another gene's approved symbol is that gene's alone; a name that is a disease's is no gene's.

        Args:
            genes: HGNC id → gene, of all genes, in the panel or not.
            panel: HGNC id → further previous symbols of the panel's genes.
            diseases: names of diseases.
            tiers: the tiers to use.
        """
        chosen = set(tiers)
        approved = {gene.symbol: gene.hgnc_id for gene in genes.values()}
        names = {text for hgnc_id in panel for text in _names(genes[hgnc_id])} if NAME in chosen else set()
        names_of_diseases = {text for name in diseases if (text := words_of(name)) in names}
        found: dict[tuple[str, bool], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for hgnc_id in sorted(panel):
            gene = genes[hgnc_id]
            symbols = [(gene.symbol, SYMBOL), *((text, ALIAS) for text in gene.aliases)]
            symbols += [(text, PREVIOUS) for text in (*gene.previous, *panel[hgnc_id])]
            for text, tier in symbols:
                long_enough = len(text) >= (LEAST_CHARACTERS if tier != SYMBOL else 2)
                if tier in chosen and long_enough and approved.get(text, hgnc_id) == hgnc_id:
                    found[text, False][hgnc_id].add(tier)
            if NAME in chosen:
                for text in _names(gene):
                    if text not in names_of_diseases:
                        found[text, True][hgnc_id].add(NAME)
        strings = [
            Known(text, is_name, {gene: tuple(sorted(found[text, is_name][gene])) for gene in sorted(of_genes)})
            for (text, is_name), of_genes in found.items()
        ]
        shadows = (name for gene in genes.values() for name in _names(gene)) if NAME in chosen else ()
        return cls(strings, shadows)

    def find(self, text: str) -> Iterator[Hit]:
        """Yield the occurrences of all strings."""
        strings = self.strings
        for end, number in self._symbols.iter(text):
            start = end + 1 - len(strings[number].text)
            if not (start and text[start - 1].isalnum()) and not text[end + 1 : end + 2].isalnum():
                yield Hit(number, start, text)
        if len(self._names):
            words = f" {words_of(text)} "
            for start, number in _longest(self._names.iter(words)):
                if number >= 0:
                    yield Hit(number, start, words)

    @cached_property
    def _symbols(self) -> Any:
        """Values are numbers of strings."""
        return _automaton((known.text, number) for number, known in enumerate(self.strings) if not known.is_name)

    @cached_property
    def _names(self) -> Any:
        """Values are (length, number of the string); shadows have number -1. Spaces stand for the words' limits."""
        known = ((f" {known.text} ", number) for number, known in enumerate(self.strings) if known.is_name)
        texts = [*known, *((f" {text} ", -1) for text in self.shadows)]
        return _automaton((text, (len(text), number)) for text, number in texts)

    def __getstate__(self) -> dict[str, Any]:
        return {"strings": self.strings, "shadows": self.shadows}


def _names(gene: Gene) -> list[str]:
    """Return a gene's names, as words, that are long enough to mean it and short enough to be written."""
    texts = (words_of(name) for name in (gene.name, *gene.alias_names, *gene.previous_names))
    return [text for text in texts if len(text) >= LEAST_NAME_CHARACTERS and text.count(" ") < MOST_NAME_WORDS]


def _automaton(patterns: Iterable[tuple[str, Any]]) -> Any:
    import ahocorasick

    automaton = ahocorasick.Automaton()
    for text, value in patterns:
        automaton.add_word(text, value)
    if len(automaton):
        automaton.make_automaton()
    return automaton


def _longest(matches: Iterable[tuple[int, tuple[int, int]]]) -> list[tuple[int, int]]:
    """Return (start, number) of the matches that no longer one covers, from left to right.

    Of matches that overlap the one that begins first counts, and of those the longest; neighbours share a space.
    """
    spans = sorted((end + 1 - length, -length, number) for end, (length, number) in matches)
    kept, free = [], 0
    for start, negative_length, number in spans:
        if start >= free:
            kept.append((start + 1, number))
            free = start - negative_length - 1
    return kept
