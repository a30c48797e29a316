"""The job `evaluate similarity`: does the cosine of two terms follow human ratings of them?"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from biomodels import storage
from biomodels.errors import UsageError
from biomodels.terminology.normalise import Normaliser
from ray_jobs.config import CommaList, JobConfig
from ray_jobs.evaluate.linking import Poolings

EXAMPLE = "python -m ray_jobs evaluate similarity --data data/similarity --model models/m1 --out similarity.json"


class Config(JobConfig):
    """Options of the job."""

    placement: ClassVar[frozenset[str]] = JobConfig.placement | {"model", "data"}

    model: CommaList = Field(
        description="model directories or Hugging Face Hub names; NAME=MODEL names one in the tables", min_length=1
    )
    data: str = Field(
        description="folder of the sets: UMNSRS and MayoSRS as published, or tab-separated files of term, term, rating"
    )
    out: str = Field(description="where the JSON report goes; malformed lines go to OUT.rejects.jsonl beside it")
    lowercase: bool = Field(default=True, description="lower the case of the terms")
    pooling: Poolings = Field(
        default=(), description="cls, mean or mean_all_tok, in place of what the models record; several are compared"
    )
    max_length: int | None = Field(default=None, ge=3, description="override the model's tokens per text")
    precision: Literal["float32", "bf16", "fp16"] = Field(default="float32", description="of the forward pass")
    num_cpus: int | None = Field(default=None, ge=1, description="threads of the encoder; by default one per core")
    max_reject_rate: float = Field(default=0.0, ge=0, le=1, description="share of malformed lines that is let pass")
    resamples: int = Field(default=1000, ge=1, description="draws of the bootstrap")
    seed: int = Field(default=13, ge=0, description="of the bootstrap")


def main(config: Config) -> dict[str, Any]:
    """Measure how well models follow human ratings of pairs of terms: Spearman's correlation, by set.

    TF-IDF of character 3-grams is the baseline in the same table.
    """
    from biomodels.evaluation import term_similarity as similarity
    from biomodels.evaluation.entity_linking.text_files import Lines
    from biomodels.inference.text_encoder import TextEncoder
    from ray_jobs.evaluate.benchmark import labelled
    from ray_jobs.evaluate.query_file import write_rejects
    from ray_jobs.progress import bar, say

    if Path(config.out).is_dir():
        raise UsageError(f"--out {config.out}: is a directory; give the name of the report file")
    storage.make_parent(config.out)
    lines = Lines(max_reject_rate=config.max_reject_rate)
    sets = similarity.read_sets(config.data, lines)
    normalise = Normaliser(config.lowercase)
    pairs = {s.name: [(normalise(a), normalise(b)) for a, b in s.terms] for s in sets}
    texts = list(dict.fromkeys(term for terms in pairs.values() for pair in terms for term in pair))
    row_of = {text: row for row, text in enumerate(texts)}
    scores: dict[str, dict[str, Any]] = {"TF-IDF": {name: similarity.tfidf_similarity(p) for name, p in pairs.items()}}
    models: dict[str, Any] = {}
    for model in labelled(config.model, config.pooling):
        encoder = TextEncoder(
            model.name,
            precision=config.precision,
            pooling=model.pooling,
            max_length=config.max_length,
            threads=config.num_cpus,
        )
        with bar(f"encode by {model.label}", len(texts), "texts") as progress:
            E_ND = encoder.encode(texts)
            progress.update(len(texts))
        models[model.label] = {"digest": encoder.digest, **encoder.spec.model_dump()}
        scores[model.label] = {
            name: similarity.cosine(*(E_ND[[row_of[term] for term in side]] for side in zip(*terms, strict=True)))
            for name, terms in pairs.items()
        }
    entries = []
    for rated in sets:
        for system, found in scores.items():
            interval = similarity.spearman(
                found[rated.name], rated.ratings, seed=config.seed, resamples=config.resamples
            )
            entries.append(
                {
                    "benchmark": "similarity",
                    "part": rated.name,
                    "system": system,
                    "spearman": _finite(interval.estimate),
                    "ci95": [_finite(interval.low), _finite(interval.high)],
                    "n": len(rated.terms),
                    "model": models[system]["digest"] if system in models else None,
                    "data": rated.sha256,
                }
            )
    report = {"kind": "similarity", "config": config.byte_config(), "models": models, "entries": entries}
    write_rejects(lines.rejects, config.out)
    storage.publish_bytes((json.dumps(report, indent=1, sort_keys=True) + "\n").encode(), config.out)
    _show(entries)
    say(f"{config.out}: {len(entries)} entries")
    return report


def _finite(value: float) -> float | None:
    """JSON has no NaN: what a constant system gives is null."""
    return value if math.isfinite(value) else None


def _show(entries: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Spearman's correlation with human ratings (times 100)")
    for heading in ("set", "system"):
        table.add_column(heading)
    for heading in ("pairs", "Spearman", "95 % interval"):
        table.add_column(heading, justify="right")
    for e in entries:
        shown = ["undefined" if value is None else f"{100 * value:.1f}" for value in (e["spearman"], *e["ci95"])]
        table.add_row(e["part"], e["system"], str(e["n"]), shown[0], f"{shown[1]} to {shown[2]}")
    Console().print(table)
