"""The one form of a name that identifies it and that models read."""

from __future__ import annotations

import hashlib
import unicodedata
from dataclasses import dataclass


@dataclass(frozen=True)
class Normaliser:
    """NFC, runs of white space folded to one blank, ends stripped, and case lowered or kept.

    Cross-lingual encoders such as XLM-R are case-sensitive and are usually trained with the case kept.
    """

    lowercase: bool = True

    @property
    def name(self) -> str:
        """The name that manifests carry."""
        return "nfc-ws-lower" if self.lowercase else "nfc-ws"

    @classmethod
    def from_name(cls, name: str) -> Normaliser:
        """Return the normaliser of a manifest's name.

        Raises:
            ValueError: no normaliser has that name.
        """
        for normaliser in (cls(True), cls(False)):
            if normaliser.name == name:
                return normaliser
        raise ValueError(f"unknown normaliser {name!r}")

    def __call__(self, text: str) -> str:
        """Return the normalised form of a name."""
        if not text.isascii():
            text = unicodedata.normalize("NFC", text)
        text = " ".join(text.split())
        if self.lowercase:
            text = text.lower()
            if not text.isascii():  # lowering can decompose (U+0130)
                text = unicodedata.normalize("NFC", text)
        return text


def name_id(text: str) -> int:
    """Return the identity of a normalised string: the first 63 bits of BLAKE2b over its UTF-8, as an int."""
    return int.from_bytes(hashlib.blake2b(text.encode()).digest()[:8], "big") >> 1


def keyed_hash(seed: int, *key: str | int) -> int:
    """Return a 63-bit hash of `key` under `seed`: the source of every random choice that must not depend on order."""
    content = "\x1f".join(map(str, key)).encode()
    salt = seed.to_bytes(16, "big", signed=True)
    return int.from_bytes(hashlib.blake2b(content, digest_size=8, key=salt).digest(), "big") >> 1
