"""The one form of a name that identifies it and that models read."""

from __future__ import annotations

import hashlib
import unicodedata
from dataclasses import dataclass
from itertools import product

import pyarrow as pa
import pyarrow.compute as pc

_UNEVEN = r"^ | $|  |[\x00-\x1f]"
"""White space that is to be folded, in ASCII."""


@dataclass(frozen=True)
class Normaliser:
    """NFC, runs of white space folded to one blank, ends stripped, and case lowered or kept.

    Cross-lingual encoders such as XLM-R are case-sensitive and are usually trained with the case kept.

    Attributes:
        lowercase: lower the case, as `str.lower` does.
        tidy: NFC and white space; without, names stay apart that differ in these alone, as in SapBERT's recipe.
    """

    lowercase: bool = True
    tidy: bool = True

    @property
    def name(self) -> str:
        """The name that manifests carry."""
        if self.tidy:
            return "nfc-ws-lower" if self.lowercase else "nfc-ws"
        return "lower" if self.lowercase else "verbatim"

    @classmethod
    def from_name(cls, name: str) -> Normaliser:
        """Return the normaliser of a manifest's name.

        Raises:
            ValueError: no normaliser has that name.
        """
        for lowercase, tidy in product((True, False), repeat=2):
            if cls(lowercase, tidy).name == name:
                return cls(lowercase, tidy)
        raise ValueError(f"unknown normaliser {name!r}")

    def __call__(self, text: str) -> str:
        """Return the normalised form of a name."""
        if not self.tidy:
            return text.lower() if self.lowercase else text
        if not text.isascii():
            text = unicodedata.normalize("NFC", text)
        text = " ".join(text.split())
        if self.lowercase:
            text = text.lower()
            if not text.isascii():  # lowering can decompose (U+0130)
                text = unicodedata.normalize("NFC", text)
        return text

    def column(self, texts: pa.ChunkedArray | pa.Array) -> pa.Array:
        """Return the normalised form of each value of a string column: the same as one by one, but faster.

        ASCII names with plain blanks, which most are, need no Python object each.
        """
        values = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
        if not (self.lowercase or self.tidy):
            return values
        plain = pc.string_is_ascii(values)
        if self.tidy:
            plain = pc.and_(plain, pc.invert(pc.match_substring_regex(values, _UNEVEN)))
        odd = pc.indices_nonzero(pc.invert(plain))
        result = pc.ascii_lower(values) if self.lowercase else values
        if len(odd):
            fixed = pa.array([self(text) for text in values.take(odd).to_pylist()], pa.string())
            result = pc.replace_with_mask(result, pc.invert(plain), fixed)
        return result


def name_id(text: str) -> int:
    """Return the identity of a normalised string: the first 63 bits of BLAKE2b over its UTF-8, as an int."""
    return int.from_bytes(hashlib.blake2b(text.encode()).digest()[:8], "big") >> 1


def keyed_hash(seed: int, *key: str | int) -> int:
    """Return a 63-bit hash of `key` under `seed`: the source of every random choice that must not depend on order."""
    content = "\x1f".join(map(str, key)).encode()
    salt = seed.to_bytes(16, "big", signed=True)
    return int.from_bytes(hashlib.blake2b(content, digest_size=8, key=salt).digest(), "big") >> 1
