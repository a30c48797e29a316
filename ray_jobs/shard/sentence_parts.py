"""The tasks of `shard sentences`: read pieces of files, make triples of NLI rows, write parts.

Examples are spilled by the top bits of their key, so a part is a range of keys, whatever task read its rows.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from biomodels import shuffle, storage
from biomodels.artifacts import ArtifactBuilder
from biomodels.schemas import SENTENCES
from ray_jobs.fan_out import Item, fan_out

if TYPE_CHECKING:
    import pyarrow as pa

    from biomodels.sentences.readers import Example, Nli

BITS = 8
NLI_BITS = 6
PART_ROWS = 1 << 17
SPILL_ROWS = 1 << 17


def read_piece(item: Item) -> Item:
    """Read a piece of a file: spill its examples by key, and NLI rows by premise. A piece that is done is kept."""
    from biomodels.sentences.readers import Example, Nli, Source, read

    done = storage.join(item["work"], "read", f"{item['plan']}-{item['piece']:05d}.json")
    if storage.exists(done):
        kept: Item = storage.read_json(done)
        return kept
    given = item["source"]
    source = Source(**given | {"header": tuple(given["header"]) if given["header"] else None})
    spills = _Spills(item, f"{item['plan']}-{item['piece']:05d}")
    rejects: list[Item] = []
    for line, outcome in read(source, item["start"], item["end"]):
        spills.counts["rows"] += 1
        if isinstance(outcome, Example):
            spills.add(outcome)
        elif isinstance(outcome, Nli):
            spills.counts["unlabelled"] += outcome.label is None
            spills.add_nli(outcome)
        else:
            spills.counts["rejects"] += 1
            rejects.append({"line": line, **outcome._asdict()})
    result = spills.finish() | {"piece": item["piece"], "uri": source.uri, "rejects": rejects}
    storage.publish_bytes(json.dumps(result).encode(), done)
    return result


def pair_bucket(item: Item) -> Item:
    """Make triples of the premises of one bucket."""
    from biomodels.sentences.examples import NLI_ROWS, triples

    bucket = item["bucket"]
    rows = shuffle.gather(item["nli"], bucket, bucket + 1, NLI_ROWS)
    examples, lacking = triples(rows, item["seed"])
    spills = _Spills(item, f"{item['plan']}-nli-{bucket:03d}")
    for example in examples:
        spills.add(example)
    spills.counts["lacking"] = lacking
    return spills.finish()


def write_parts(builder: ArtifactBuilder, shared: Item, spills: list[str], examples: int) -> list[Item]:
    """Write the examples in the order of their keys, in parts whose number depends on how many there are.

    Returns:
        Rows and dropped duplicates of each part.
    """
    from ray_jobs.progress import bar

    bits = shuffle.part_bits(min(examples, shared["sample"] or examples), PART_ROWS, BITS)
    width = 1 << (BITS - bits)
    items = [
        {"part": part, "first": part * width, "after": (part + 1) * width, "spills": spills, "quota": None}
        for part in range(1 << bits)
    ]
    if shared["sample"]:
        items = _with_quotas(items, shared)

    def write(item: Item) -> Item:
        path = f"part-{item['part']:05d}.parquet"
        table, duplicates = _part(item, distinct=shared["distinct"])
        if builder.kept(path) is None:
            builder.publish_table(path, table.select(SENTENCES.names))
        return {"rows": table.num_rows, "duplicates": duplicates}

    with bar("write", len(items), "parts") as progress:
        results = []
        for result in fan_out(write, items, short=True):
            results.append(result)
            progress.update()
    return results


def _with_quotas(items: list[Item], shared: Item) -> list[Item]:
    """Return the parts that a sample takes rows from, in the order of their keys, and how many from each."""

    def count(item: Item) -> Item:
        return {"part": item["part"], "rows": _part(item, distinct=shared["distinct"])[0].num_rows}

    rows = {result["part"]: int(result["rows"]) for result in fan_out(count, items, short=True)}
    left = int(shared["sample"])
    chosen = []
    for item in items:
        quota = min(left, rows[item["part"]])
        left -= quota
        if quota:
            chosen.append(item | {"quota": quota})
    return chosen


def _part(item: Item, *, distinct: bool) -> tuple[pa.Table, int]:
    from biomodels.sentences.examples import KEYED, ordered

    table = shuffle.gather(item["spills"], item["first"], item["after"], KEYED)
    kept = ordered(table, distinct=distinct)
    duplicates = table.num_rows - kept.num_rows
    return kept if item["quota"] is None else kept.slice(0, item["quota"]), duplicates


class _Spills:
    """Collects what a task reads, and spills it now and then.

    Of a sample, a task keeps no more rows than the sample has: those of least key.
    """

    def __init__(self, item: Item, name: str) -> None:
        self._work = item["work"]
        self._seed = int(item["seed"])
        self._sample = item["sample"]
        self._distinct = bool(item["distinct"])
        self._name = name
        self._examples: list[Example] = []
        self._nli: list[Nli] = []
        self._tables: list[pa.Table] = []
        self._uris: list[str] = []
        self._nli_uris: list[str] = []
        self._columns: set[int] = set()
        self.counts: Counter[str] = Counter()

    def add(self, example: Example) -> None:
        """Take an example."""
        self._columns.add(example.columns)
        self._examples.append(example)
        self.counts["examples"] += 1
        if len(self._examples) >= SPILL_ROWS:
            self._flush()

    def add_nli(self, row: Nli) -> None:
        """Take an NLI row."""
        self._nli.append(row)
        if len(self._nli) >= SPILL_ROWS:
            self._flush_nli()

    def finish(self) -> Item:
        """Spill the rest, and say what there is."""
        self._flush()
        self._flush_nli()
        for table in self._tables:
            self._spill(table)
        return {
            "columns": sorted(self._columns),
            "counts": dict(self.counts),
            "spills": self._uris,
            "nli_spills": self._nli_uris,
        }

    def _flush(self) -> None:
        import pyarrow as pa

        from biomodels.sentences.examples import keyed_table, smallest

        if not self._examples:
            return
        table, self._examples = keyed_table(self._examples, self._seed), []
        if self._sample is None:
            self._spill(table)
            return
        self._tables = [smallest(pa.concat_tables([*self._tables, table]), self._sample, distinct=self._distinct)]

    def _flush_nli(self) -> None:
        from biomodels.sentences.examples import nli_table, premise_hashes

        if self._nli:
            table, self._nli = nli_table(self._nli), []
            uri = storage.join(self._work, "nli", f"{self._name}-{len(self._nli_uris):05d}.arrow")
            shuffle.spill(table, shuffle.bucket_of(premise_hashes(table), NLI_BITS), NLI_BITS, uri)
            self._nli_uris.append(uri)

    def _spill(self, table: pa.Table) -> None:
        uri = storage.join(self._work, "spill", f"{self._name}-{len(self._uris):05d}.arrow")
        keys: Any = table["key"].to_numpy()
        shuffle.spill(table, shuffle.bucket_of(keys, BITS), BITS, uri)
        self._uris.append(uri)
