"""Third phase of `shard terminology`: the names dataset becomes the pairs dataset, through a shuffle."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from biomodels import storage
from biomodels.artifacts import WORK, Artifact, ArtifactBuilder, canonical_json
from biomodels.schemas import SCHEMA_VERSION
from biomodels.shuffle import part_bits
from biomodels.terminology.normalise import Normaliser
from biomodels.terminology.pairs import (
    MOST_BITS,
    ROWS_PER_PART,
    PairRecipe,
    gather_part,
    pairs_of_names,
    part_name,
    spill_pairs,
)
from biomodels.terminology.tradenames import NAME_COLUMNS
from ray_jobs.fan_out import Item, fan_out
from ray_jobs.progress import bar
from ray_jobs.shard.tradename_parts import BorrowedNames, TradenameSource, borrow_names

MARK = "finished.json"


class Spilled(NamedTuple):
    """What was spilled from a part of the names: so many files, and counts of pairs, concepts and so on."""

    files: int
    counts: dict[str, int]


@dataclass(frozen=True)
class PairSpills:
    """Pairs by parts of the names dataset, spilled in the work area of the pairs artifact at `out`.

    A spill says which content of which part it was made from, so that only what fits is used. The task that makes a
    part of the names spills its pairs too, while it has the table; only what is missing is made later. Where concepts
    borrow trade names, all pairs are made later, since the names of other parts are needed.
    """

    out: str
    normaliser: Normaliser
    recipe: PairRecipe
    tradenames: TradenameSource | None = None

    def uris(self, part: int, files: int) -> list[str]:
        """Return where the pairs of a part lie, in so many spill files."""
        return [storage.join(self._folder(part), f"{number:04d}.arrow") for number in range(files)]

    def kept(self, part: int, sha256: str) -> Spilled | None:
        """Return what was spilled from the part of this SHA-256, or None if that is still to be done."""
        mark = storage.join(self._folder(part), MARK)
        if not storage.exists(mark):
            return None
        found = storage.read_json(mark)
        return Spilled(found["files"], found["counts"]) if found["made_from"] == self._made_from(sha256) else None

    def spill(self, part: int, sha256: str, names: pa.Table, strings: pa.Array) -> Spilled:
        """Spill the pairs of a part, whose file has this SHA-256.

        Args:
            part: its number.
            sha256: of its file.
            names: its rows, and those that its concepts borrow.
            strings: each row's normalised name.
        """
        made = pairs_of_names(names, strings, self.recipe)
        pairs = files = 0
        for table in made.tables:
            pairs, files = pairs + table.num_rows, files + 1
            spill_pairs(table, self.uris(part, files)[-1])
        counts = {"pairs": pairs, **made.counts}
        mark = {"files": files, "counts": counts, "made_from": self._made_from(sha256)}
        storage.publish_bytes(canonical_json(mark), storage.join(self._folder(part), MARK))
        return Spilled(files, counts)

    def config(self) -> dict[str, Any]:
        """Return what decides the pairs of a names artifact, the MRREL file apart."""
        return asdict(self.recipe) | {"tradenames": self.tradenames.mode if self.tradenames else None}

    def _folder(self, part: int) -> str:
        return storage.join(self.out, WORK, "spill", f"{part:05d}")

    def _made_from(self, sha256: str) -> list[Any]:
        return [sha256, self.config(), self.tradenames.digest if self.tradenames else None]


def make_pairs(names: Artifact, spills: PairSpills) -> Artifact:
    """Make the pairs artifact of a names artifact; finished work is kept."""
    inputs = {"names": names.digest} | ({"mrrel": spills.tradenames.digest} if spills.tradenames else {})
    builder = ArtifactBuilder.begin(
        spills.out, "pairs", config=spills.config(), inputs=inputs, schema_version=SCHEMA_VERSION
    )
    if builder.finished is not None:
        return Artifact.open(spills.out, "pairs")
    parts = names.files("part-")
    spilled = {part: spills.kept(part, entry.sha256) for part, entry in enumerate(parts)}
    borrowed = borrow_names(names, builder, spills.tradenames) if spills.tradenames else None
    missing = [{"part": part} for part, found in spilled.items() if found is None]
    if missing:
        with bar("choosing pairs", sum(parts[item["part"]].rows or 0 for item in missing), "names") as progress:
            for result in fan_out(partial(_spill_part, names, spills, borrowed), missing):
                spilled[result["part"]] = Spilled(result["files"], result["counts"])
                progress.update(result["names"])
    found = {part: known for part, known in spilled.items() if known is not None}
    counts: Counter[str] = Counter()
    for known in found.values():
        counts.update(known.counts)
    shuffle_pairs(
        builder, [uri for part, known in found.items() for uri in spills.uris(part, known.files)], counts["pairs"]
    )
    facts: dict[str, Any] = {**counts, "normaliser": spills.normaliser.name}
    if borrowed is not None:
        facts["tradenames"] = borrowed.facts
    builder.commit(facts)
    return Artifact.open(spills.out, "pairs")


def shuffle_pairs(builder: ArtifactBuilder, uris: list[str], pairs: int) -> int:
    """Publish the parts of a dataset of spilled pairs that an earlier run has not finished.

    Args:
        builder: the dataset in the making.
        uris: the spill files.
        pairs: how many pairs they hold; it decides the number of parts.

    Returns:
        How many pairs there are, equal ones once.
    """
    bits = part_bits(pairs, ROWS_PER_PART, MOST_BITS)
    kept = {part: builder.kept(part_name(part)) for part in range(1 << bits)}
    todo = [{"part": part} for part, entry in kept.items() if entry is None]
    done = sum(entry.rows or 0 for entry in kept.values() if entry is not None)
    with bar("shuffling pairs", pairs, "pairs", done=done) as progress:
        for counts in fan_out(partial(_shuffle_part, builder, uris, bits), todo, short=True):
            progress.update(counts["pairs"])
            done += counts["pairs"]
    return done


def _spill_part(names: Artifact, spills: PairSpills, borrowed: BorrowedNames | None, item: Item) -> Item:
    entry = names.files("part-")[item["part"]]
    table = names.read_table(entry, list(NAME_COLUMNS))
    rows = table.num_rows
    if borrowed is not None:
        table = pa.concat_tables([table, borrowed.of_part(item["part"])])
    found = spills.spill(item["part"], entry.sha256, table, spills.normaliser.column(table["name"]))
    return {"part": item["part"], "files": found.files, "counts": found.counts, "names": rows}


def _shuffle_part(builder: ArtifactBuilder, uris: list[str], bits: int, item: Item) -> Item:
    table, _ = gather_part(uris, item["part"], bits)
    builder.publish_table(part_name(item["part"]), table)
    return {"pairs": table.num_rows}
