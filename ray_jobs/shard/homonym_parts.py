"""Homonyms of the names dataset: each part spills who bears its names, then each bucket of names is searched."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

from biomodels import storage
from biomodels.artifacts import ArtifactBuilder, canonical_json
from biomodels.shuffle import bucket_of, gather, spill
from biomodels.terminology.homonyms import BEARERS, Homonyms, bearers, report
from biomodels.terminology.names import MOST_BITS, BuiltNames
from ray_jobs.fan_out import Item, fan_out
from ray_jobs.progress import bar

FILE = "homonyms.jsonl"
_FOLDER = "homonyms"


def spill_bearers(builder: ArtifactBuilder, part: int, names: BuiltNames) -> int:
    """Spill who bears the names of a part; return how many (concept, normalised name) there are."""
    table, hashes = bearers(names)
    spill(table, bucket_of(hashes, MOST_BITS), MOST_BITS, _spilled(builder, part))
    return int(table.num_rows)


def find_homonyms(builder: ArtifactBuilder, bits: int) -> dict[str, Any]:
    """Publish the homonyms of 2^`bits` parts as `FILE`, one JSON object a line, and return their counts."""
    items = [{"bucket": bucket} for bucket in range(1 << bits)]
    by_concepts: Counter[int] = Counter()
    most: list[tuple[int, str]] = []
    with bar("finding homonyms", len(items), "parts") as progress:
        for found in fan_out(partial(_find, builder, bits), items, short=True):
            by_concepts.update({int(size): count for size, count in found["by_concepts"].items()})
            most += [(size, name) for size, name in found["most"]]
            progress.update()
    if builder.kept(FILE) is None:
        builder.publish(FILE, partial(_join, builder, bits))
    return report(by_concepts, most)


def _find(builder: ArtifactBuilder, bits: int, item: Item) -> Item:
    counts, lines = (builder.work(_FOLDER, f"found-{item['bucket']:05d}.{kind}") for kind in ("json", "jsonl"))
    if storage.exists(counts):
        kept: Item = storage.read_json(counts)
        return kept
    width = 1 << (MOST_BITS - bits)
    homonyms = Homonyms()
    spills = [_spilled(builder, part) for part in range(1 << bits)]
    for bucket in range(item["bucket"] * width, (item["bucket"] + 1) * width):
        homonyms.add(gather(spills, bucket, bucket + 1, BEARERS))
    storage.publish_bytes("".join(homonyms.lines).encode(), lines)
    found = {"by_concepts": {str(k): v for k, v in homonyms.by_concepts.items()}, "most": homonyms.most}
    storage.publish_bytes(canonical_json(found), counts)
    return found


def _join(builder: ArtifactBuilder, bits: int, local: str) -> int:
    count = 0
    with open(local, "wb") as sink:
        for bucket in range(1 << bits):
            content = storage.read_bytes(builder.work(_FOLDER, f"found-{bucket:05d}.jsonl"))
            count += content.count(b"\n")
            sink.write(content)
    return count


def _spilled(builder: ArtifactBuilder, part: int) -> str:
    return builder.work(_FOLDER, f"bearers-{part:05d}.arrow")
