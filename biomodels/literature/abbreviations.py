"""What a text says that an abbreviation stands for.

The algorithm of Schwartz and Hearst (2003), "A simple algorithm for identifying abbreviation definitions in biomedical
text", for a given short form: `long form (SF)` and `SF (long form)`.
"""

from __future__ import annotations

import re

_REVERSED = re.compile(r"\s*[(\[]([^()\[\]]{4,120})[)\]]")
_UNLIKE_WORDS = re.compile(r"[()\[\]:;=<>]")
_WINDOW = 200
"""How far before a parenthesis a long form may begin, in characters."""


def long_form(text: str, start: int, short: str) -> str | None:
    """Return what the text defines an occurrence of `short` as, or None where it does not.

    Args:
        text: the text.
        start: where the occurrence begins.
        short: the short form.
    """
    before = text[max(0, start - _WINDOW) : start].rstrip()
    if before.endswith(("(", "[")):
        words = before[:-1].split()[-min(len(short) + 5, 2 * len(short)) :]
        return best_long_form(short, " ".join(words))
    after = _REVERSED.match(text, start + len(short))
    return best_long_form(short, after[1]) if after else None


def best_long_form(short: str, words: str) -> str | None:
    """Return the shortest end of `words` that holds the letters and digits of `short` in order, the first one at the
    beginning of a word; None if there is none that reads as words and is longer than the short form."""
    position = len(words)
    for index in range(len(short) - 1, -1, -1):
        letter = short[index].lower()
        if not letter.isalnum():
            continue
        position -= 1
        while position >= 0 and (
            words[position].lower() != letter or (index == 0 and position > 0 and words[position - 1].isalnum())
        ):
            position -= 1
        if position < 0:
            return None
    found = words[words.rfind(" ", 0, position + 1) + 1 :]
    return found if len(found) > len(short) + 1 and not _UNLIKE_WORDS.search(found) and short not in found else None
