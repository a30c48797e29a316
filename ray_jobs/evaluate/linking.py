"""The job `evaluate linking`: accuracy of models on a benchmark, or on a dictionary and a query file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from biomodels import storage
from biomodels.errors import UsageError
from biomodels.evaluation.entity_linking.registry import BenchmarkName
from biomodels.models.spec import Pooling
from ray_jobs.config import CommaList, JobConfig

EXAMPLE = (
    "python -m ray_jobs evaluate linking --benchmark ncbi-disease --data data/ncbi-disease --model models/m1 "
    "--out report.json"
)


def _depths(value: Any) -> Any:
    items = value.split(",") if isinstance(value, str) else value
    return sorted({int(str(item)) for item in items}) if isinstance(items, (list, tuple)) else items


def _poolings(value: Any) -> Any:
    return [item.strip() for item in value.split(",")] if isinstance(value, str) else value


Depths = Annotated[tuple[Annotated[int, Field(ge=1)], ...], BeforeValidator(_depths), Field(min_length=1)]
Poolings = Annotated[tuple[Pooling, ...], BeforeValidator(_poolings)]


class Config(JobConfig):
    """Options of the job."""

    placement: ClassVar[frozenset[str]] = JobConfig.placement | {
        "model", "dictionary", "queries", "data", "work", "save_mentions", "spelling",
    }  # fmt: skip

    model: CommaList = Field(
        default=(),
        description="model directories or Hugging Face Hub names; NAME=MODEL names one in the tables. A benchmark may "
        "do without, and measures its baselines",
    )
    benchmark: BenchmarkName | None = Field(default=None, description="what --data holds")
    data: str | None = Field(default=None, description="folder of the benchmark")
    dictionary: str | None = Field(
        default=None,
        description="file of id||name lines, UTF-8; id may hold alternatives, a|b. Of a benchmark, it replaces all "
        "dictionaries of the folder",
    )
    queries: str | None = Field(default=None, description="without --benchmark: file of id||mention lines, UTF-8")
    out: str = Field(
        description="where the JSON report goes; of a benchmark a page goes beside it, OUT with .html, and malformed "
        "lines go to OUT.rejects.jsonl"
    )
    mode: Literal["reference", "fair", "both"] = Field(
        default="both",
        description="protocol of a benchmark: reference counts as the published evaluations do; fair ranks concepts of "
        "the terminology alone, by cosine, for distinct queries",
    )
    ks: Depths = Field(default=(1, 5, 10), description="depths k of acc@k and recall@k")
    lowercase: bool = Field(default=True, description="lower the case of names and mentions; of a benchmark, if fair")
    pooling: Poolings = Field(
        default=(), description="cls, mean or mean_all_tok, in place of what the models record; several are compared"
    )
    max_length: int | None = Field(
        default=None, ge=3, description="tokens per text; by default the model's, and 25 for a benchmark, as published"
    )
    normalise: bool | None = Field(
        default=None,
        description="without --benchmark: override whether vectors are scaled to length 1, which makes both metrics "
        "the same",
    )
    precision: Literal["float32", "bf16", "fp16"] = Field(default="float32", description="of the forward pass")
    num_cpus: int | None = Field(default=None, ge=1, description="threads of the encoder; by default one per core")
    max_reject_rate: float = Field(default=0.0, ge=0, le=1, description="share of malformed lines that is let pass")
    encoding: str | None = Field(default=None, description="of a benchmark's files; by default UTF-8")
    preprocess: Literal["biosyn", "none"] = Field(
        default="biosyn",
        description="of a benchmark in PubTator format: biosyn expands abbreviations, splits composite mentions and "
        "drops punctuation",
    )
    spelling: str | None = Field(default=None, description="file of wrong||right words that biosyn's preprocess mends")
    mixture: float = Field(
        default=0.5, ge=0, le=1, description="weight of TF-IDF where it is mixed with a model; 0 leaves the mixture out"
    )
    exact_limit: int = Field(
        default=1_000_000,
        ge=1,
        description="distinct names up to which search is exact; above, a sharded index is built",
    )
    work: str | None = Field(
        default=None,
        description="local directory where vectors and indexes are kept for the next run; else they are not",
    )
    save_mentions: str | None = Field(default=None, description="directory for the benchmark's mentions, as Parquet")
    resamples: int = Field(default=2000, ge=1, description="draws of the bootstrap")
    seed: int = Field(default=13, ge=0, description="of the bootstrap")
    errors: int = Field(default=20, ge=0, description="hardest errors to list for each model, part and mode")

    @model_validator(mode="after")
    def _one_form(self) -> Config:
        if self.benchmark:
            if not self.data:
                raise ValueError("--benchmark needs --data, the folder of the benchmark")
            if self.queries:
                raise ValueError("--queries is for a query file without --benchmark")
        elif not (self.dictionary and self.queries and len(self.model) == 1 and len(self.pooling) <= 1):
            raise ValueError("give --benchmark and --data, or --dictionary and --queries with one --model")
        return self


def main(config: Config) -> dict[str, Any]:
    """Measure how well models link mentions to a dictionary.

    On a benchmark: acc@k, recall@k and MRR with confidence intervals, beside the baselines exact match and TF-IDF and
    their mixture with each model, under two protocols, and McNemar's test between systems. Or, given a dictionary and a
    query file, acc@k and recall@k by name and by concept. Every distinct text is encoded once.
    """
    from ray_jobs.evaluate import benchmark, query_file

    if Path(config.out).is_dir():
        raise UsageError(f"--out {config.out}: is a directory; give the name of the report file")
    storage.make_parent(config.out)  # a report that cannot be written is better known before the work than after
    return benchmark.evaluate(config) if config.benchmark else query_file.evaluate(config)
