"""The audit of the gate, strings.csv: one row for each string and gene that some article holds."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

from biomodels import storage
from biomodels.artifacts import Artifact, ArtifactBuilder
from biomodels.errors import ArtifactError
from biomodels.literature.gate import Judge, Statistics
from biomodels.literature.lexicon import Lexicon
from ray_jobs.gate_parts import Learned, Plan

FILE = "strings.csv"
COLUMNS = (
    *("string", "kind", "tiers", "hgnc_id", "gene_symbol", "hits", "passed", "pass_rate", "doubt"),
    *("learned_documents", "learned_defined", "learned_compatible", "learned_cued"),
)
"""`hits` and `passed` count articles of this dataset; `learned_…` those of the corpus that tells which are in doubt."""


def publish_audit(
    builder: ArtifactBuilder, plan: Plan, judge: Judge, own: Learned, passed: Mapping[tuple[int, str], int]
) -> None:
    """Write the audit, most hits first."""
    keys = own.statistics.keys() | judge.learned.keys()
    hits = {key: own.statistics.get(key, Statistics()).documents for key in keys}

    def write(local: str) -> int:
        with open(local, "w", encoding="utf-8", newline="") as sink:
            writer = csv.writer(sink, lineterminator="\n")
            writer.writerow(COLUMNS)
            for string, gene in sorted(keys, key=lambda key: (-hits[key], key)):
                known, learned = plan.lexicon.strings[string], judge.learned.get((string, gene), Statistics())
                found, counted = hits[string, gene], passed.get((string, gene), 0)
                writer.writerow(
                    [
                        *(known.text, "name" if known.is_name else "symbol", "|".join(known.genes[gene]), gene),
                        *(plan.symbols[gene], found, counted, f"{counted / found:.4f}" if found else ""),
                        judge.doubt(string, gene) or "",
                        *(learned.documents, learned.defined, learned.compatible, learned.cued),
                    ]
                )
        return len(keys)

    builder.publish(FILE, write)


def learned_from(candidates: Artifact, lexicon: Lexicon) -> Learned:
    """Read what another dataset's corpus said of the strings that this lexicon has too.

    Raises:
        ArtifactError: the audit cannot be read.
    """
    numbers = {(known.text, known.is_name): number for number, known in enumerate(lexicon.strings)}
    text = storage.read_bytes(candidates.file_uri(candidates.entry(FILE))).decode("utf-8")
    statistics = {}
    try:
        for row in csv.DictReader(io.StringIO(text, newline="")):
            number = numbers.get((row["string"], row["kind"] == "name"))
            if number is not None and row["hgnc_id"] in lexicon.strings[number].genes:
                statistics[number, row["hgnc_id"]] = Statistics(*(int(row[name]) for name in COLUMNS[-4:]))
        return Learned(statistics, candidates.facts["learned_from_articles"])
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"{candidates.uri}/{FILE}: cannot be read ({error}); make the candidates again") from error
