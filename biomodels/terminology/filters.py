"""Which names of a source go into a dataset."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from biomodels.errors import UsageError
from biomodels.terminology.languages import to_iso
from biomodels.terminology.records import OBSOLETE, SUPPRESSED


@dataclass(frozen=True)
class NameFilter:
    """What is kept. An empty set of languages, sources or term types keeps all.

    Lengths are code points of the name as its source has it; a `max_length` of 0 sets no limit.
    """

    languages: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    term_types: frozenset[str] = frozenset()
    keep_suppressed: bool = False
    keep_obsolete: bool = False
    min_length: int = 0
    max_length: int = 0

    @classmethod
    def of(
        cls,
        languages: Iterable[str] = (),
        sources: Iterable[str] = (),
        term_types: Iterable[str] = (),
        *,
        keep_suppressed: bool = False,
        keep_obsolete: bool = False,
        min_length: int = 0,
        max_length: int = 0,
    ) -> NameFilter:
        """Build a filter; languages may be UMLS or ISO codes.

        Raises:
            UsageError: a language is no language code, or no name can have the lengths asked for.
        """
        if max_length and max_length < min_length:
            raise UsageError(f"--max-length {max_length}: is below --min-length {min_length}; no name would be left")
        try:
            known = frozenset(to_iso(code) for code in languages)
        except ValueError as error:
            raise UsageError(f"--languages: {error}") from error
        return cls(
            known,
            frozenset(sources),
            frozenset(term_types),
            keep_suppressed,
            keep_obsolete,
            min_length,
            max_length,
        )

    def apply(self, records: pa.Table) -> tuple[pa.Table, dict[str, int]]:
        """Filter records.

        Returns:
            The rows kept, and how many rows each filter removed; a row counts for the first filter that meets it, in
            the order of the dictionary.
        """
        removed: dict[str, int] = {}
        state = records["state"].to_numpy()
        keep = np.ones(records.num_rows, dtype=bool)
        tests: list[tuple[str, np.ndarray[tuple[int], np.dtype[np.bool_]]]] = []
        if not self.keep_suppressed:
            tests.append(("suppressed", state != SUPPRESSED))
        if not self.keep_obsolete:
            tests.append(("obsolete", state != OBSOLETE))
        for column in ("language", "source", "term_type"):
            allowed = getattr(self, column + "s")
            if allowed:
                tests.append((column, pc.is_in(records[column], pa.array(sorted(allowed))).to_numpy()))
        if self.min_length or self.max_length:
            lengths = pc.utf8_length(records["name"]).to_numpy()
            if self.min_length:
                tests.append(("too_short", lengths >= self.min_length))
            if self.max_length:
                tests.append(("too_long", lengths <= self.max_length))
        for name, passes in tests:
            removed[name] = int((keep & ~passes).sum())
            keep &= passes
        return (records if keep.all() else records.filter(pa.array(keep))), removed
