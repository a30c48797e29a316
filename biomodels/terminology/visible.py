"""What makes a string usable as a name: it shows something, and holds no NUL."""

from __future__ import annotations

import unicodedata

NUL = "\0"

VISIBLE = r"[^\p{Z}\p{Cc}\p{Cf}]"
"""RE2 pattern: a character that is no white space, control or format character (Unicode Z, Cc, Cf)."""

_INVISIBLE = ("Zs", "Zl", "Zp", "Cc", "Cf")


def name_fault(name: str) -> str | None:
    """Return the reason for which a name is rejected, or None for a sound one."""
    if all(unicodedata.category(character) in _INVISIBLE for character in name):
        return "has an empty name"
    return "has a NUL in its name" if NUL in name else None
