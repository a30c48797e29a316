"""PubTator's bulk file of genes, cut to the panel and spilled by article, for the gate's `pubtator` tier."""

from __future__ import annotations

import os
from functools import partial

import pyarrow as pa

from biomodels import storage
from biomodels.artifacts import ArtifactBuilder, canonical_json, write_parquet
from biomodels.literature.articles import parse_pmid
from biomodels.literature.merge import MOST_BITS, pmid_hash
from biomodels.shuffle import bucket_of, spill
from biomodels.terminology.blocks import read_blocks
from biomodels.terminology.rejects import EXAMPLES, Reject, check_reject_rate, rejects_table
from ray_jobs.fan_out import Item, fan_out
from ray_jobs.gate_parts import ANNOTATIONS, Plan
from ray_jobs.progress import bar

COLUMNS = 5
"""pmid, type, gene ids joined by ; (or ,), mentions joined by |, resources joined by |."""

MOST_REJECTS = 10_000
"""So many malformed lines are kept to show; the rest are counted."""


def spill_annotations(builder: ArtifactBuilder, plan: Plan, uri: str, max_reject_rate: float) -> list[str]:
    """Spill the annotations of the panel's genes, in one task, since gzip is read from its start.

    Returns:
        The spill files.

    Raises:
        RejectRateError: too many lines have not the form of gene2pubtator3.
    """
    done = builder.work("annotations", "done.json")
    if not storage.exists(done):
        with bar("annotations", None, "files") as progress:
            for result in fan_out(partial(_spill, builder.work("annotations"), plan.entrez), [{"uri": uri}]):
                rejects = [Reject(**reject) for reject in result["examples"]]
                check_reject_rate(result["rejected"], result["lines"], max_reject_rate, rejects)
                storage.publish_bytes(canonical_json(result), done)
                progress.update()
    found = storage.read_json(done)
    if found["rejected"] and builder.kept("rejects/rejects.parquet") is None:
        content = storage.read_bytes(builder.work("annotations", "rejects.parquet"))

        def copy(local: str) -> int:
            with open(local, "wb") as sink:
                sink.write(content)
            return min(int(found["rejected"]), MOST_REJECTS)

        builder.publish("rejects/rejects.parquet", copy)
    return [builder.work("annotations", f"{number:04d}.arrow") for number in range(found["spills"])]


def _spill(folder: str, entrez: dict[str, str], item: Item) -> Item:
    lines = rejected = spills = 0
    rejects: list[Reject] = []
    for block in read_blocks(item["uri"]):
        rows: list[tuple[int, str, str]] = []
        for number, raw in enumerate(block.data.split(b"\n"), start=block.first_line):
            if not raw:
                continue
            lines += 1
            columns = raw.decode("utf-8", errors="replace").rstrip("\r").split("\t")
            pmid = parse_pmid(columns[0])
            if len(columns) != COLUMNS or pmid is None:
                rejected += 1
                if len(rejects) < MOST_REJECTS:
                    reason = f"has {len(columns)} columns where {COLUMNS} are needed" if pmid else "has no PMID"
                    rejects.append(Reject.of(item["uri"], number, reason, raw))
            elif columns[1] == "Gene":
                genes = {entrez.get(gene.strip()) for gene in columns[2].replace(",", ";").split(";")}
                rows += [(pmid, gene, columns[3]) for gene in sorted(filter(None, genes))]
        if rows:
            table = pa.table(list(zip(*rows, strict=True)), schema=ANNOTATIONS)
            buckets = bucket_of(pmid_hash(table["pmid"]), MOST_BITS)
            spill(table, buckets, MOST_BITS, storage.join(folder, f"{spills:04d}.arrow"))
            spills += 1
    if rejects:
        with storage.writing(storage.join(folder, "rejects.parquet")) as local:
            write_parquet(rejects_table(rejects), local)
    examples = [vars(reject) for reject in rejects[:EXAMPLES]]
    return {
        "file": os.path.basename(item["uri"]),
        "lines": lines,
        "rejected": rejected,
        "spills": spills,
        "examples": examples,
    }
