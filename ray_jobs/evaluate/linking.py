"""The job `evaluate linking`: accuracy of a model on a dictionary and a query file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from biomodels import storage
from biomodels.errors import UsageError
from biomodels.models.spec import Pooling
from biomodels.terminology.normalise import Normaliser
from ray_jobs.config import JobConfig

EXAMPLE = (
    "python -m ray_jobs evaluate linking --model models/m1 --dictionary dictionary.txt --queries queries.txt "
    "--out report.json"
)


def _depths(value: Any) -> Any:
    items = value.split(",") if isinstance(value, str) else value
    return sorted({int(str(item)) for item in items}) if isinstance(items, (list, tuple)) else items


Depths = Annotated[tuple[Annotated[int, Field(ge=1)], ...], BeforeValidator(_depths), Field(min_length=1)]


class Config(JobConfig):
    """Options of the job."""

    placement: ClassVar[frozenset[str]] = JobConfig.placement | {"model", "dictionary", "queries"}

    model: str = Field(description="model directory or Hugging Face Hub name")
    dictionary: str = Field(description="file of id||name lines, UTF-8; id may hold alternatives, a|b")
    queries: str = Field(description="file of id||mention lines, UTF-8; the id is the right answer")
    out: str = Field(description="where the JSON report goes; malformed lines go to OUT.rejects.jsonl beside it")
    ks: Depths = Field(default=(1, 5, 10), description="depths k of acc@k and recall@k")
    lowercase: bool = Field(default=True, description="lower the case of names and mentions")
    pooling: Pooling | None = Field(default=None, description="override the pooling that the model records")
    max_length: int | None = Field(default=None, ge=3, description="override the model's tokens per text")
    normalise: bool | None = Field(
        default=None, description="override whether vectors are scaled to length 1, which makes both metrics the same"
    )
    precision: Literal["float32", "bf16", "fp16"] = Field(default="float32", description="of the forward pass")
    num_cpus: int | None = Field(default=None, ge=1, description="threads of the encoder; by default one per core")
    max_reject_rate: float = Field(default=0.0, ge=0, le=1, description="share of malformed lines that is let pass")


def main(config: Config) -> dict[str, Any]:
    """Measure how well a model links mentions to a dictionary: acc@k and recall@k by name and by concept.

    Every distinct text is encoded once; the ranking is exact, by cosine and by inner product.
    """
    from biomodels.evaluation import linking
    from biomodels.inference.text_encoder import TextEncoder
    from ray_jobs.progress import bar

    if Path(config.out).is_dir():
        raise UsageError(f"--out {config.out}: is a directory; give the name of the report file")
    storage.make_parent(config.out)  # a report that cannot be written is better known before the work than after
    normaliser = Normaliser(config.lowercase)
    rate = config.max_reject_rate
    dictionary = linking.read_named_ids(config.dictionary, normaliser, max_reject_rate=rate)
    queries = linking.read_named_ids(config.queries, normaliser, max_reject_rate=rate)
    encoder = TextEncoder(
        config.model,
        precision=config.precision,
        pooling=config.pooling,
        max_length=config.max_length,
        normalise=config.normalise,
        threads=config.num_cpus,
    )
    strings, mentions = len(set(dictionary.texts)), len(set(queries.texts))
    with bar("encode", strings + mentions, "texts") as progress:
        results = linking.evaluate_linking(dictionary, queries, encoder.encode, config.ks, on_progress=progress.update)
    report = {
        "kind": "linking_evaluation",
        "model": {"digest": encoder.digest, **encoder.spec.model_dump()},
        "config": config.byte_config(),
        "normaliser": normaliser.name,
        "dictionary": _summary(dictionary) | {"strings": strings, "concepts": len(set(dictionary.ids))},
        "queries": _summary(queries) | {"strings": mentions},
        "queries_in_dictionary": linking.texts_in_dictionary(dictionary, queries),
        "queries_without_gold_in_dictionary": linking.queries_without_gold(dictionary, queries),
        "results": results,
    }
    rejects = [*dictionary.rejects, *queries.rejects]
    if rejects:
        lines = "".join(json.dumps(reject._asdict(), ensure_ascii=False) + "\n" for reject in rejects)
        storage.publish_bytes(lines.encode(), config.out + ".rejects.jsonl")
    storage.publish_bytes((json.dumps(report, indent=1, sort_keys=True) + "\n").encode(), config.out)
    _show(report)
    return report


def _summary(file: Any) -> dict[str, Any]:
    return {
        "sha256": file.sha256,
        "lines": len(file.texts),
        "rejected": len(file.rejects),
        "unlinkable": file.unlinkable,
    }


def _show(report: dict[str, Any]) -> None:
    """Print the report as a table."""
    from rich.console import Console
    from rich.table import Table

    ks = list(report["results"][0]["acc"])
    dictionary, queries = report["dictionary"], report["queries"]
    sizes = f"{queries['lines']:,} queries, {dictionary['lines']:,} names, {dictionary['concepts']:,} concepts"
    table = Table(title=f"{sizes} (percent)")
    for heading in ("metric", "unit"):
        table.add_column(heading)
    for heading in [f"acc@{k}" for k in ks] + [f"recall@{k}" for k in ks]:
        table.add_column(heading, justify="right")
    for row in report["results"]:
        shares = [row[measure][k] for measure in ("acc", "recall") for k in ks]
        table.add_row(row["metric"], row["unit"], *[f"{100 * share:.2f}" for share in shares])
    console = Console()
    console.print(table)
    console.print(
        f"{report['queries_in_dictionary']:,} queries are names of the dictionary; "
        f"{report['queries_without_gold_in_dictionary']:,} have no right answer in it"
    )
