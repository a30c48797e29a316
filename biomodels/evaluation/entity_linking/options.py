"""What a reader is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from biomodels.evaluation.entity_linking.text_files import Lines


@dataclass(frozen=True)
class ReadOptions:
    """Where a benchmark is, and how to read it.

    Attributes:
        data: its folder.
        dictionary: a file that replaces all dictionaries of the folder.
        encoding: of the files; None for the corpus's own.
        max_reject_rate: share of malformed lines of a file that is let pass.
        preprocess: of raw PubTator: "biosyn" expands abbreviations and splits composites, "none" does not.
        spelling: file of `wrong||right` words, for the pre-processing.
    """

    data: str
    dictionary: str | None = None
    encoding: str | None = None
    max_reject_rate: float = 0.0
    preprocess: Literal["biosyn", "none"] = "biosyn"
    spelling: str | None = None

    def lines(self, fallback: str | None = None) -> Lines:
        """Return a reader of lines; `fallback` holds unless an encoding was asked for."""
        return Lines(self.encoding or "utf-8", None if self.encoding else fallback, self.max_reject_rate)
