"""Third phase of `shard terminology`: the names dataset becomes the pairs dataset, through a shuffle."""

from __future__ import annotations

from functools import partial

from biomodels import storage
from biomodels.artifacts import Artifact, ArtifactBuilder, canonical_json
from biomodels.schemas import SCHEMA_VERSION
from biomodels.shuffle import part_bits
from biomodels.terminology.normalise import Normaliser
from biomodels.terminology.pairs import MOST_BITS, ROWS_PER_PART, gather_part, pairs_of_names, part_name, spill_pairs
from ray_jobs.fan_out import Item, fan_out
from ray_jobs.progress import bar


def make_pairs(names: Artifact, out: str, *, max_pairs: int, seed: int) -> Artifact:
    """Make the pairs artifact of a names artifact; finished work is kept.

    Args:
        names: the names.
        out: where the pairs go.
        max_pairs: the most pairs of one concept; 0 for no cap.
        seed: of the choice and of the order.
    """
    config = {"max_pairs": max_pairs, "seed": seed}
    builder = ArtifactBuilder.begin(
        out, "pairs", config=config, inputs={"names": names.digest}, schema_version=SCHEMA_VERSION
    )
    if builder.finished is not None:
        return Artifact.open(out, "pairs")
    normaliser = Normaliser.from_name(names.facts["normaliser"])
    parts = names.files("part-")
    spills = [builder.work("spill", f"{part:05d}.arrow") for part in range(len(parts))]
    items = [{"part": part} for part in range(len(parts))]
    pairs = 0
    task = partial(_spill_part, names, normaliser, spills, max_pairs=max_pairs, seed=seed)
    with bar("choosing pairs", names.facts["names"], "names") as progress:
        for counts in fan_out(task, items):
            pairs += counts["pairs"]
            progress.update(counts["names"])
    bits = part_bits(pairs, ROWS_PER_PART, MOST_BITS)
    todo = [{"part": part} for part in range(1 << bits) if builder.kept(part_name(part)) is None]
    done = sum(entry.rows or 0 for entry in builder.entries())
    with bar("shuffling pairs", pairs, "pairs", done=done) as progress:
        for counts in fan_out(partial(_shuffle_part, builder, spills, bits), todo):
            progress.update(counts["pairs"])
    builder.commit({"pairs": pairs, "normaliser": normaliser.name})
    return Artifact.open(out, "pairs")


def _spill_part(
    names: Artifact, normaliser: Normaliser, spills: list[str], item: Item, *, max_pairs: int, seed: int
) -> Item:
    part = item["part"]
    finished = spills[part] + ".json"
    if storage.exists(finished):
        kept: Item = storage.read_json(finished)
        return kept
    columns = ["concept_id", "name_id", "name", "language", "source"]
    table = names.read_table(names.files("part-")[part], columns)
    pairs = pairs_of_names(table, normaliser, max_pairs, seed)
    spill_pairs(pairs, spills[part])
    counts = {"pairs": pairs.num_rows, "names": table.num_rows}
    storage.publish_bytes(canonical_json(counts), finished)
    return counts


def _shuffle_part(builder: ArtifactBuilder, spills: list[str], bits: int, item: Item) -> Item:
    table, _ = gather_part(spills, item["part"], bits)
    builder.publish_table(part_name(item["part"]), table)
    return {"pairs": table.num_rows}
