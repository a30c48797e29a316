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
    """What is kept. An empty set of languages, sources or term types keeps all."""

    languages: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    term_types: frozenset[str] = frozenset()
    keep_suppressed: bool = False
    keep_obsolete: bool = False

    @classmethod
    def of(
        cls,
        languages: Iterable[str] = (),
        sources: Iterable[str] = (),
        term_types: Iterable[str] = (),
        *,
        keep_suppressed: bool = False,
        keep_obsolete: bool = False,
    ) -> NameFilter:
        """Build a filter; languages may be UMLS or ISO codes.

        Raises:
            UsageError: a language is no language code.
        """
        try:
            known = frozenset(to_iso(code) for code in languages)
        except ValueError as error:
            raise UsageError(f"--languages: {error}") from error
        return cls(known, frozenset(sources), frozenset(term_types), keep_suppressed, keep_obsolete)

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
        for name, passes in tests:
            removed[name] = int((keep & ~passes).sum())
            keep &= passes
        return (records if keep.all() else records.filter(pa.array(keep))), removed
