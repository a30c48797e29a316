"""The held-out synonyms of `shard terminology --hold-out N`: chosen over all concepts, in bounded memory."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa

from biomodels import storage
from biomodels.artifacts import Artifact, ArtifactBuilder
from biomodels.errors import UsageError
from biomodels.shuffle import bucket_of, gather, spill
from biomodels.terminology.hold_out import CANDIDATES, candidates, choose
from biomodels.terminology.normalise import Normaliser
from ray_jobs.fan_out import Item, fan_out
from ray_jobs.progress import bar
from ray_jobs.shard.name_parts import SpilledNames

QUERIES = "queries.txt"
_BITS = 4
_WHITE_SPACE = Normaliser(lowercase=False)


def hold_out(
    out: str, spilled: SpilledNames, count: int, seed: int, *, config: dict[str, Any], inputs: dict[str, str]
) -> Artifact:
    """Choose strings and publish them as `id||mention` lines, sorted, in an artifact of kind "queries".

    Args:
        out: where the queries go.
        spilled: the filtered records.
        count: how many strings.
        seed: of the choice.
        config: what decides the names, the count and the seed included.
        inputs: digests of the source files.

    Raises:
        UsageError: fewer than `count` strings can be held out.
    """
    builder = ArtifactBuilder.begin(out, "queries", config=config, inputs=inputs)
    if builder.finished is None:
        spills = [builder.work(f"{part:05d}.arrow") for part in spilled.parts]
        items = [{"part": part} for part in spilled.parts]
        with bar("finding synonyms to hold out", len(items), "parts") as progress:
            for _ in fan_out(partial(_find, spilled, spills, seed), items):
                progress.update()
        buckets = [{"bucket": bucket} for bucket in range(1 << _BITS)]
        found = [
            pa.Table.from_pylist(result["chosen"], schema=CANDIDATES)
            for result in fan_out(partial(_choose, spills, count), buckets)
        ]
        chosen = choose(pa.concat_tables(found), count)
        if chosen.num_rows < count:
            raise UsageError(f"--hold-out {count}: only {chosen.num_rows} synonyms can be held out; ask for fewer")
        rows = chosen.select(["concept_id", "mention"]).to_pylist()
        lines = sorted(f"{row['concept_id']}||{_WHITE_SPACE(row['mention'])}\n" for row in rows)

        def write(local: str) -> int:
            with open(local, "w", encoding="utf-8", newline="\n") as sink:
                sink.writelines(lines)
            return len(lines)

        builder.publish(QUERIES, write)
        builder.commit({"queries": count})
    return Artifact.open(out, "queries")


def mentions(queries: Artifact) -> list[str]:
    """Return the held-out strings of a queries artifact."""
    text = storage.read_bytes(queries.file_uri(QUERIES)).decode("utf-8")
    return [line.split("||", 1)[1] for line in text.split("\n") if line]


def _find(spilled: SpilledNames, spills: list[str], seed: int, item: Item) -> Item:
    uri = spills[item["part"]]
    if not storage.exists(uri):
        names, _ = spilled.build(item["part"], _WHITE_SPACE, None)
        table = candidates(names.table, seed)
        spill(table, bucket_of(table["hash"].to_numpy(), _BITS), _BITS, uri)
    return {}


def _choose(spills: list[str], count: int, item: Item) -> Item:
    found = gather(spills, item["bucket"], item["bucket"] + 1, CANDIDATES)
    return {"chosen": choose(found, count).to_pylist()}
