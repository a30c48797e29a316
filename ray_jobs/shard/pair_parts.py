"""Third phase of `shard terminology`: the names dataset becomes the pairs dataset, through a shuffle."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from biomodels import storage
from biomodels.artifacts import WORK, Artifact, ArtifactBuilder, canonical_json
from biomodels.schemas import SCHEMA_VERSION
from biomodels.shuffle import part_bits
from biomodels.terminology.normalise import Normaliser
from biomodels.terminology.pairs import MOST_BITS, ROWS_PER_PART, gather_part, pairs_of_names, part_name, spill_pairs
from ray_jobs.fan_out import Item, fan_out
from ray_jobs.progress import bar

COLUMNS = ["concept_id", "name_id", "name", "language", "source"]
"""What pairs are made of."""


MARK = "finished.json"


class Spilled(NamedTuple):
    """How much was spilled from a part of the names."""

    pairs: int
    files: int


@dataclass(frozen=True)
class PairSpills:
    """Pairs by parts of the names dataset, spilled in the work area of the pairs artifact at `out`.

    A spill says which content of which part it was made from, so that only what fits is used. The task that makes a
    part of the names spills its pairs too, while it has the table; only what is missing is made later.
    """

    out: str
    normaliser: Normaliser
    max_pairs: int
    seed: int

    def uris(self, part: int, files: int) -> list[str]:
        """Return where the pairs of a part lie, in so many spill files."""
        return [storage.join(self._folder(part), f"{number:04d}.arrow") for number in range(files)]

    def kept(self, part: int, sha256: str) -> Spilled | None:
        """Return what was spilled from the part of this SHA-256, or None if that is still to be done."""
        mark = storage.join(self._folder(part), MARK)
        if not storage.exists(mark):
            return None
        found = storage.read_json(mark)
        return Spilled(found["pairs"], found["files"]) if found["made_from"] == self._made_from(sha256) else None

    def spill(self, part: int, sha256: str, names: pa.Table) -> Spilled:
        """Spill the pairs of a part, whose file has this SHA-256."""
        pairs = files = 0
        for table in pairs_of_names(names.select(COLUMNS), self.normaliser, self.max_pairs, self.seed):
            pairs, files = pairs + table.num_rows, files + 1
            spill_pairs(table, self.uris(part, files)[-1])
        mark = {"pairs": pairs, "files": files, "made_from": self._made_from(sha256)}
        storage.publish_bytes(canonical_json(mark), storage.join(self._folder(part), MARK))
        return Spilled(pairs, files)

    def _folder(self, part: int) -> str:
        return storage.join(self.out, WORK, "spill", f"{part:05d}")

    def _made_from(self, sha256: str) -> list[str | int]:
        return [sha256, self.max_pairs, self.seed]


def make_pairs(names: Artifact, spills: PairSpills) -> Artifact:
    """Make the pairs artifact of a names artifact; finished work is kept."""
    config = {"max_pairs": spills.max_pairs, "seed": spills.seed}
    builder = ArtifactBuilder.begin(
        spills.out, "pairs", config=config, inputs={"names": names.digest}, schema_version=SCHEMA_VERSION
    )
    if builder.finished is not None:
        return Artifact.open(spills.out, "pairs")
    parts = names.files("part-")
    spilled = {part: spills.kept(part, entry.sha256) for part, entry in enumerate(parts)}
    missing = [{"part": part} for part, found in spilled.items() if found is None]
    if missing:
        with bar("choosing pairs", sum(parts[item["part"]].rows or 0 for item in missing), "names") as progress:
            for result in fan_out(partial(_spill_part, names, spills), missing):
                spilled[result["part"]] = Spilled(result["pairs"], result["files"])
                progress.update(result["names"])
    found = {part: known for part, known in spilled.items() if known is not None}
    pairs = sum(known.pairs for known in found.values())
    _shuffle(builder, [uri for part, known in found.items() for uri in spills.uris(part, known.files)], pairs)
    builder.commit({"pairs": pairs, "normaliser": spills.normaliser.name})
    return Artifact.open(spills.out, "pairs")


def _shuffle(builder: ArtifactBuilder, uris: list[str], pairs: int) -> None:
    """Publish the parts of the dataset that an earlier run has not finished."""
    bits = part_bits(pairs, ROWS_PER_PART, MOST_BITS)
    kept = {part: builder.kept(part_name(part)) for part in range(1 << bits)}
    todo = [{"part": part} for part, entry in kept.items() if entry is None]
    done = sum(entry.rows or 0 for entry in kept.values() if entry is not None)
    with bar("shuffling pairs", pairs, "pairs", done=done) as progress:
        for counts in fan_out(partial(_shuffle_part, builder, uris, bits), todo, short=True):
            progress.update(counts["pairs"])


def _spill_part(names: Artifact, spills: PairSpills, item: Item) -> Item:
    entry = names.files("part-")[item["part"]]
    table = names.read_table(entry, COLUMNS)
    found = spills.spill(item["part"], entry.sha256, table)
    return {"part": item["part"], "pairs": found.pairs, "files": found.files, "names": table.num_rows}


def _shuffle_part(builder: ArtifactBuilder, uris: list[str], bits: int, item: Item) -> Item:
    table, _ = gather_part(uris, item["part"], bits)
    builder.publish_table(part_name(item["part"]), table)
    return {"pairs": table.num_rows}
