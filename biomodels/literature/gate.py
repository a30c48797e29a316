"""The gene gate: which genes of a panel an abstract may be about, and why.

A string such as `PCA` is an alias of a gene and far more often something else. So a hit counts by what the text and the
corpus say of the string:

- *definition*: where the text itself says what the string stands for, the hit counts if that means the gene, its
  protein or its disease, and not otherwise;
- *acronym*: where the corpus mostly defines the string as something else, the hit needs support;
- *frequency*: an alias, previous symbol or one-word name that more abstracts hold than a gene's would needs support.

Support is a word such as "mutation" or "gene" beside the string, or a second string of the same gene in the text.
Two-letter symbols always need it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from biomodels.literature.abbreviations import long_form
from biomodels.literature.genes import Gene
from biomodels.literature.lexicon import LEAST_CHARACTERS, SYMBOL, Hit, Known, Lexicon, words_of

DEFINITION, ACRONYM, FREQUENCY = "definition", "acronym", "frequency"
FILTERS = (DEFINITION, ACRONYM, FREQUENCY)

UNDEFINED, COMPATIBLE, INCOMPATIBLE = 0, 1, 2
"""What the text says that a string stands for: nothing, the gene, something else."""

ANNOTATED = -1
"""In place of a string's number: the gene was found by other means, such as PubTator, and counts."""

_CUE_BEFORE, _CUE_AFTER = 30, 25
"""How near a cue must be, in characters."""

_CUE = re.compile(
    r"\b(?:genes?|mutations?|mutated|mutants?|variants?|alleles?|loci|locus|exons?|deletions?|deleted|knockout|null|"
    r"haploinsufficien\w+|encod\w+|cdna|missense|truncat\w+|polymorphisms?|promoter|homozygous|heterozygous|"
    r"deficien\w+|carriers?)\b|\b[cp]\.",
    re.IGNORECASE,
)
_EMPTY_WORDS = frozenset(("a", "an", "and", "by", "for", "in", "of", "on", "or", "the", "to", "with"))
_GENE_WORDS = frozenset({"gene", "genes"})
_STEM = 6
"""Words that share so many first letters count as one: phosphatase, phosphatases."""


@dataclass(frozen=True)
class Settings:
    """How strict the gate is."""

    filters: tuple[str, ...] = FILTERS
    most_frequent: float = 1e-3
    """Share of abstracts above which a string counts as frequent."""
    least_documents: int = 5
    """So many abstracts must hold a string before it can count as frequent."""


class Evidence(NamedTuple):
    """A string in an abstract, taken for a gene. The abstract may hold it several times."""

    string: int
    gene: str
    definition: int
    cued: bool


@dataclass
class Statistics:
    """What a corpus says of a string taken for a gene: numbers of abstracts."""

    documents: int = 0
    defined: int = 0
    compatible: int = 0
    cued: int = 0

    def add(self, evidence: Evidence) -> None:
        """Count an abstract."""
        self.documents += 1
        self.defined += evidence.definition != UNDEFINED
        self.compatible += evidence.definition == COMPATIBLE
        self.cued += evidence.cued

    def merge(self, other: Statistics) -> None:
        """Count another corpus too."""
        self.documents += other.documents
        self.defined += other.defined
        self.compatible += other.compatible
        self.cued += other.cued


Learned = Mapping[tuple[int, str], Statistics]
"""(string, gene) → what the corpus says."""


@dataclass
class Gate:
    """A lexicon, and what words speak for each gene."""

    lexicon: Lexicon
    vocabulary: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """HGNC id → words of its names and diseases."""

    @classmethod
    def of(cls, lexicon: Lexicon, genes: Mapping[str, Gene], diseases: Mapping[str, Iterable[str]]) -> Gate:
        """Build the gate of a panel.

        Args:
            lexicon: the panel's strings.
            genes: HGNC id → gene.
            diseases: HGNC id → names of the gene's diseases.
        """
        vocabulary = {}
        for hgnc_id, names in diseases.items():
            gene = genes[hgnc_id]
            texts = (gene.name, *gene.alias_names, *gene.previous_names, *names)
            words = (word for text in texts for word in _content(text))
            vocabulary[hgnc_id] = frozenset(stem for word in words for stem in (word, word[:_STEM]))
        return cls(lexicon, vocabulary)

    def evidence(self, text: str) -> list[Evidence]:
        """Return what an abstract holds, one item per string and gene, sorted."""
        hits: dict[int, list[Hit]] = {}
        for hit in self.lexicon.find(text):
            hits.setdefault(hit.string, []).append(hit)
        found = []
        for number in sorted(hits):
            known = self.lexicon.strings[number]
            defined = None if known.is_name else _definition(known.text, hits[number])
            cued = any(_is_cued(hit, known.text) for hit in hits[number])
            found += [Evidence(number, gene, self._judge(defined, gene), cued) for gene in known.genes]
        return found

    def _judge(self, defined: str | None, gene: str) -> int:
        if defined is None:
            return UNDEFINED
        words = _content(defined)
        known = self.vocabulary.get(gene, frozenset())
        alike = sum(word in known or (len(word) >= _STEM and word[:_STEM] in known) for word in words)
        speaks = bool(_GENE_WORDS & set(words)) or (bool(words) and 2 * alike >= len(words))
        return COMPATIBLE if speaks else INCOMPATIBLE


@dataclass(frozen=True)
class Judge:
    """Decides what evidence counts, given what was learnt from a corpus."""

    lexicon: Lexicon
    settings: Settings
    learned: Learned
    documents: int
    """Number of abstracts of the corpus."""

    def doubt(self, string: int, gene: str) -> str | None:
        """Return why a string taken for a gene needs support: "short", "acronym" or "frequent"; None if it does not."""
        known = self.lexicon.strings[string]
        if len(known.text) < LEAST_CHARACTERS:
            return "short"
        found = self.learned.get((string, gene), Statistics())
        if ACRONYM in self.settings.filters and _is_acronym(found, approved=SYMBOL in known.genes[gene]):
            return "acronym"
        frequent = found.documents >= self.settings.least_documents and (
            found.documents > self.settings.most_frequent * self.documents
        )
        if FREQUENCY in self.settings.filters and frequent and _may_be_common(known, gene):
            return "frequent"
        return None

    def accepted(self, evidence: list[Evidence], doubt: Callable[[int, str], str | None]) -> list[Evidence]:
        """Return the evidence of one abstract that counts.

        Args:
            evidence: all of the abstract.
            doubt: `self.doubt`, or a cache of it.
        """
        defining = DEFINITION in self.settings.filters
        sound = [item for item in evidence if not (defining and item.definition == INCOMPATIBLE)]
        strings: dict[str, int] = {}
        for item in sound:
            strings[item.gene] = strings.get(item.gene, 0) + 1
        return [
            item
            for item in sound
            if item.string == ANNOTATED
            or doubt(item.string, item.gene) is None
            or (defining and item.definition == COMPATIBLE)
            or (item.cued and self.settings.filters)
            or (strings[item.gene] > 1 and self.settings.filters)
        ]


def _is_acronym(found: Statistics, *, approved: bool) -> bool:
    """Say whether a corpus mostly defines a string as something else.

    An approved symbol is mostly written without a definition where it is the gene, so that the few definitions would
    speak for what is defined; of it a third of all abstracts must.
    """
    other = found.defined - found.compatible
    return other > found.compatible and (not approved or 3 * other >= found.documents)


def _may_be_common(known: Known, gene: str) -> bool:
    """Say whether a string is of a kind that other things are called by too."""
    return known.words == 1 if known.is_name else SYMBOL not in known.genes[gene]


def _definition(short: str, hits: Iterable[Hit]) -> str | None:
    """Return what a text defines a string as, at the first occurrence that defines it."""
    return next((found for hit in hits if (found := long_form(hit.context, hit.start, short))), None)


def _is_cued(hit: Hit, text: str) -> bool:
    end = hit.start + len(text)
    return bool(
        _CUE.search(hit.context[max(0, hit.start - _CUE_BEFORE) : hit.start])
        or _CUE.search(hit.context[end : end + _CUE_AFTER])
    )


def _content(text: str) -> list[str]:
    return [word for word in words_of(text).split() if len(word) > 1 and word not in _EMPTY_WORDS]
