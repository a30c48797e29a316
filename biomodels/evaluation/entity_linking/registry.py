"""The benchmarks by name."""

from __future__ import annotations

import importlib
from typing import Literal

from biomodels.evaluation.entity_linking.benchmark import Benchmark, check
from biomodels.evaluation.entity_linking.options import ReadOptions

BenchmarkName = Literal[
    "ncbi-disease", "bc5cdr-disease", "bc5cdr-chemical", "cometa", "askapatient", "medmentions", "xl-bel", "custom"
]
_READERS: dict[str, str] = {
    "ncbi-disease": "biosyn",
    "bc5cdr-disease": "biosyn",
    "bc5cdr-chemical": "biosyn",
    "cometa": "cometa",
    "askapatient": "askapatient",
    "medmentions": "medmentions",
    "xl-bel": "xlbel",
    "custom": "custom",
}


def read_benchmark(name: BenchmarkName, options: ReadOptions) -> Benchmark:
    """Read a benchmark and check that it can be measured.

    Raises:
        InputError: files are missing, malformed, or the ids of mentions and dictionary have nothing in common.
    """
    reader = importlib.import_module(f"biomodels.evaluation.entity_linking.{_READERS[name]}")
    benchmark: Benchmark = reader.read(name, options)
    return check(benchmark)
