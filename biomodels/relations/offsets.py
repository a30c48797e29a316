"""Character offsets of mentions, which corpora write in three ways, and which of the three a file uses.

====================  ===================  =========================================
written               separator, end       corpora
====================  ===================  =========================================
``60-75``             ``,`` inclusive      unified PPI XML of the first converters
``60-76``             ``,`` exclusive      unified PPI XML of later converters
``98-107;124-144``    ``;`` inclusive      DDIExtraction-2013
====================  ===================  =========================================

No file says which it is. Each mention repeats its text, so the way that finds most of them is the file's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from biomodels.errors import InputError
from biomodels.relations.records import Span, Spans

_ESCAPE = re.compile(r"&(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});")


@dataclass(frozen=True)
class Dialect:
    """A way to write offsets."""

    separator: str
    inclusive: bool

    @property
    def name(self) -> str:
        """The name that reports carry."""
        return f"{'inclusive' if self.inclusive else 'exclusive'} end, fragments separated by {self.separator!r}"

    def parse(self, written: str) -> Spans:
        """Return the fragments in the order of the text, end exclusive.

        Raises:
            ValueError: `written` is not of this dialect, or a fragment is empty or runs backwards.
        """
        spans = []
        for fragment in written.split(self.separator):
            start, dash, end = fragment.strip().partition("-")
            if not (dash and start.isdecimal() and end.isdecimal()):
                raise ValueError(f"{written!r} are no offsets of the form START-END")
            span = (int(start), int(end) + self.inclusive)
            if span[0] >= span[1]:
                raise ValueError(f"{written!r} has a fragment that ends before it starts")
            spans.append(span)
        return tuple(sorted(spans))


DDI_DIALECT = Dialect(";", True)
DIALECTS = (Dialect(",", True), Dialect(",", False), DDI_DIALECT)

MOST_MISMATCHES = 0.5
"""Share of mentions that may differ from their text before the offsets of a file count as wrong altogether."""

FEWEST_MISMATCHES = 3
"""In a file with fewer wrong mentions they are single mistakes, which are listed."""


def squeezed(text: str) -> str:
    """Return a text without its white space, to compare mentions whose fragments are joined in different ways."""
    return "".join(text.split())


def agrees(text: str, spans: Spans, mention: str) -> bool:
    """Say whether the text at a mention's fragments is the mention, white space aside."""
    return spans[-1][1] <= len(text) and squeezed("".join(text[a:b] for a, b in spans)) == squeezed(mention)


def detect(mentions: Iterable[tuple[str, str, str]], file: str, expected: Dialect = DIALECTS[0]) -> Dialect:
    """Return the dialect of a file.

    Args:
        mentions: the file's mentions: the sentence's text, the offsets as written, the mention's text.
        file: for the message.
        expected: taken where several fit equally, as they do if no mention has two fragments.

    Raises:
        InputError: no dialect finds at least half of the mentions, white space aside.
    """
    candidates = (expected, *(dialect for dialect in DIALECTS if dialect != expected))
    readable, exact, near = (dict.fromkeys(candidates, 0) for _ in range(3))
    total = 0
    for text, written, mention in mentions:
        total += 1
        for dialect in candidates:
            try:
                spans = dialect.parse(written)
            except ValueError:
                continue
            readable[dialect] += 1
            # White space must count here: a reading one character too long would often end in a blank.
            found = [text[start:end] for start, end in spans]
            exact[dialect] += mention in ("".join(found), " ".join(found))
            near[dialect] += agrees(text, spans, mention)
    best = max(candidates, key=lambda dialect: (readable[dialect], exact[dialect]))
    missed = total - near[best]
    if missed >= FEWEST_MISMATCHES and missed > MOST_MISMATCHES * total:
        raise InputError.at(
            file,
            None,
            f"the offsets of {missed} of {total} mentions do not fit the text (best reading: {best.name})",
            "check that charOffset counts characters from the start of the sentence's text",
        )
    return best


def unescape(text: str) -> tuple[str, list[int]]:
    """Undo one level of XML escapes that are left in a parsed text.

    Returns:
        The text, and for each place between characters of the input (0 to its length) the place in the output.
    """
    import html

    pieces: list[str] = []
    places: list[int] = []
    length, last = 0, 0
    for match in _ESCAPE.finditer(text):
        before = text[last : match.start()]
        character = html.unescape(match.group())
        pieces += [before, character]
        places += range(length, length + len(before))
        length += len(before)
        places += [length] * (match.end() - match.start())
        length += len(character)
        last = match.end()
    pieces.append(text[last:])
    places += range(length, length + len(text) - last + 1)
    return "".join(pieces), places


def moved(spans: Spans, places: list[int]) -> Spans:
    """Return spans of an escaped text as spans of the unescaped one."""

    def move(span: Span) -> Span:
        start, end = span
        # An end inside an escape takes the whole character.
        return places[start], max(places[end], places[start] + 1)

    return tuple(move(span) for span in spans)
