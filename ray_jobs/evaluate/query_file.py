"""`evaluate linking --dictionary D.txt --queries Q.txt`: one model, one dictionary, one file of queries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from biomodels import storage
from biomodels.terminology.normalise import Normaliser

if TYPE_CHECKING:
    from biomodels.evaluation.linking import Reject
    from ray_jobs.evaluate.linking import Config


def evaluate(config: Config) -> dict[str, Any]:
    """Rank the dictionary for each query, by cosine and by inner product, and write the report."""
    from biomodels.evaluation import linking
    from biomodels.inference.text_encoder import TextEncoder
    from ray_jobs.progress import bar

    assert config.dictionary and config.queries  # the configuration has seen to it
    normaliser = Normaliser(config.lowercase)
    rate = config.max_reject_rate
    dictionary = linking.read_named_ids(config.dictionary, normaliser, max_reject_rate=rate)
    queries = linking.read_named_ids(config.queries, normaliser, max_reject_rate=rate)
    encoder = TextEncoder(
        config.model[0],
        precision=config.precision,
        pooling=config.pooling[0] if config.pooling else None,
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
    write_rejects([*dictionary.rejects, *queries.rejects], config.out)
    storage.publish_bytes((json.dumps(report, indent=1, sort_keys=True) + "\n").encode(), config.out)
    _show(report)
    return report


def write_rejects(rejects: Sequence[Reject], out: str) -> None:
    """Write malformed lines beside a report, if there are any."""
    if rejects:
        lines = "".join(json.dumps(reject._asdict(), ensure_ascii=False) + "\n" for reject in rejects)
        storage.publish_bytes(lines.encode(), out + ".rejects.jsonl")


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
