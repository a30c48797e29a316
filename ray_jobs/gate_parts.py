"""The gate over a dataset, part by part: first all evidence is gathered and counted, then what counts is decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from biomodels import storage
from biomodels.artifacts import Artifact, ArtifactBuilder, FileEntry, canonical_json
from biomodels.errors import InputError
from biomodels.literature.articles import article_text
from biomodels.literature.gate import ANNOTATED, Evidence, Gate, Judge, Settings, Statistics
from biomodels.literature.genes import Gene, read_genes
from biomodels.literature.lexicon import PUBTATOR, Lexicon
from biomodels.schemas import CANDIDATES
from biomodels.shuffle import gather
from ray_jobs.fan_out import Item, fan_out
from ray_jobs.progress import bar

BATCH = 1024
EVIDENCE = pa.schema(
    [
        ("row", pa.int32()),
        ("string", pa.int32()),
        ("gene", pa.string()),
        ("definition", pa.int8()),
        ("cued", pa.bool_()),
    ]
)
ANNOTATIONS = pa.schema([("pmid", pa.int64()), ("gene", pa.string()), ("mentions", pa.string())])
"""Genes of the panel that PubTator found, with their mentions joined by |."""


@dataclass(frozen=True)
class Learned:
    """What a corpus says of the strings."""

    statistics: dict[tuple[int, str], Statistics]
    articles: int


@dataclass
class Outcome:
    """What was decided, over all parts: numbers of articles."""

    sizes: Counter[str] = field(default_factory=Counter)
    """By number of candidates."""
    tiers: Counter[str] = field(default_factory=Counter)
    """By tier that counted."""
    passed: Counter[tuple[int, str]] = field(default_factory=Counter)
    """By (string, gene) that counted."""


@dataclass(frozen=True)
class Plan:
    """What all parts share."""

    builder: ArtifactBuilder
    articles: Artifact
    entries: dict[str, list[str]]
    """HGNC id → G2P ids, sorted."""
    symbols: dict[str, str]
    entrez: dict[str, str]
    """NCBI gene id → HGNC id, of the panel."""
    not_in_tables: int
    lexicon: Lexicon
    gate: Gate
    annotations: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        builder: ArtifactBuilder,
        articles: Artifact,
        threads: Artifact,
        *,
        tables: Sequence[str],
        diseases: Sequence[Artifact],
        tiers: Sequence[str],
    ) -> Plan:
        """Read the panel and the gene tables, and build the gate.

        Raises:
            InputError: no gene of the panel is in the tables.
        """
        genes = read_genes(tables)
        rows = [row for entry in threads.files("part-") for row in threads.read_table(entry).to_pylist()]
        rows = [row for row in rows if row["hgnc_id"]]
        missing = {row["hgnc_id"]: row["gene_symbol"] for row in rows if row["hgnc_id"] not in genes}
        if len(missing) == len({row["hgnc_id"] for row in rows}):
            raise InputError(
                f"{', '.join(tables)}: holds no gene of the panel; give a table of human genes with HGNC ids"
            )
        genes |= {hgnc_id: Gene(hgnc_id, symbol, "") for hgnc_id, symbol in missing.items()}
        entries: dict[str, list[str]] = {}
        previous: dict[str, list[str]] = {}
        named: dict[str, list[str]] = {}
        for row in rows:
            entries.setdefault(row["hgnc_id"], []).append(row["g2p_id"])
            symbols = (row["previous_gene_symbols"] or "").split(";")
            previous.setdefault(row["hgnc_id"], []).extend(text for item in symbols if (text := item.strip()))
            named.setdefault(row["hgnc_id"], []).append(row["disease_name"] or "")
        of_panel = (name for names in named.values() for name in names)
        lexicon = Lexicon.of(genes, previous, [*of_panel, *_disease_names(diseases)], tiers)
        return cls(
            builder=builder,
            articles=articles,
            entries={hgnc_id: sorted(ids) for hgnc_id, ids in sorted(entries.items())},
            symbols={hgnc_id: genes[hgnc_id].symbol for hgnc_id in entries},
            entrez={number: hgnc_id for hgnc_id in entries if (number := genes[hgnc_id].entrez_id)},
            not_in_tables=len(missing),
            lexicon=lexicon,
            gate=Gate.of(lexicon, genes, named),
        )

    def with_annotations(self, uris: Iterable[str]) -> Plan:
        """Return the plan with PubTator's annotations."""
        return replace(self, annotations=tuple(uris))

    @property
    def parts(self) -> list[FileEntry]:
        """The parts of the articles; candidates have the same."""
        return self.articles.files("part-")

    def judge(self, filters: tuple[str, ...], max_share: float, learned: Learned) -> Judge:
        """Return who decides."""
        return Judge(self.lexicon, Settings(filters, max_share), learned.statistics, learned.articles)

    def work(self, kind: str, part: int) -> str:
        """Return a file of the work area."""
        return self.builder.work(kind, f"{part:05d}")


def _disease_names(diseases: Sequence[Artifact]) -> Iterator[str]:
    for artifact in diseases:
        for entry in artifact.files("part-"):
            yield from artifact.read_table(entry, ["name"])["name"].to_pylist()


def search(plan: Plan) -> None:
    """Gather the evidence of all parts in the work area; what is there is kept."""
    parts = plan.parts
    left = [number for number in range(len(parts)) if not storage.exists(plan.work("counts", number))]
    total = sum(entry.rows or 0 for entry in parts)
    done = total - sum(parts[number].rows or 0 for number in left)
    with bar("searching", total, "articles", done=done) as progress:
        for result in fan_out(partial(_search_part, plan), [{"part": number} for number in left]):
            progress.update(result["articles"])


def learn(plan: Plan) -> Learned:
    """Add up what the parts say of the strings."""
    statistics: dict[tuple[int, str], Statistics] = {}
    articles = 0
    for number in range(len(plan.parts)):
        counts = storage.read_json(plan.work("counts", number))
        articles += counts["articles"]
        for string, gene, *numbers in counts["strings"]:
            statistics.setdefault((string, gene), Statistics()).merge(Statistics(*numbers))
    return Learned(statistics, articles)


def decide(plan: Plan, judge: Judge) -> Outcome:
    """Publish all parts of the candidates; finished ones are kept."""
    outcome = Outcome()
    items = [{"part": number} for number in range(len(plan.parts))]
    with bar("deciding", len(items), "parts") as progress:
        for result in fan_out(partial(_decide_part, plan, judge), items, short=True):
            progress.update()
            outcome.sizes.update(result["sizes"])
            outcome.tiers.update(result["tiers"])
            outcome.passed.update({(string, gene): count for string, gene, count in result["passed"]})
    return outcome


def _search_part(plan: Plan, item: Item) -> Item:
    """Write a part's evidence, then its counts, which mark it finished."""
    number = item["part"]
    annotated = _annotations(plan, number)
    statistics: dict[tuple[int, str], Statistics] = {}
    tables, row = [EVIDENCE.empty_table()], 0
    files, path = storage.filesystem(plan.articles.file_uri(plan.parts[number]))
    with files.open_input_file(path) as handle:
        for batch in pq.ParquetFile(handle).iter_batches(BATCH, columns=["pmid", "title", "abstract"]):
            found: list[tuple[Any, ...]] = []
            for pmid, title, abstract in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                text = article_text(title, abstract)
                for evidence in plan.gate.evidence(text):
                    statistics.setdefault((evidence.string, evidence.gene), Statistics()).add(evidence)
                    found.append((row, *evidence))
                found += [(row, ANNOTATED, gene, 0, False) for gene in _mentioned(annotated.get(pmid, []), text)]
                row += 1
            if found:
                tables.append(pa.table(list(zip(*found, strict=True)), schema=EVIDENCE))
    with (
        storage.writing(plan.work("evidence", number)) as local,
        pa.OSFile(local, "wb") as sink,
        pa.ipc.new_file(sink, EVIDENCE) as writer,
    ):
        writer.write_table(pa.concat_tables(tables))
    counts = [
        [string, gene, of.documents, of.defined, of.compatible, of.cued]
        for (string, gene), of in sorted(statistics.items())
    ]
    storage.publish_bytes(canonical_json({"articles": row, "strings": counts}), plan.work("counts", number))
    return {"articles": row}


def _annotations(plan: Plan, number: int) -> dict[int, list[tuple[str, str]]]:
    """Return PubTator's genes of a part's articles: PMID → (gene, mentions)."""
    found: dict[int, list[tuple[str, str]]] = {}
    if plan.annotations:
        from biomodels.literature.merge import MOST_BITS

        width = (1 << MOST_BITS) // len(plan.parts)
        table = gather(plan.annotations, number * width, (number + 1) * width, ANNOTATIONS)
        for pmid, gene, mentions in zip(*(column.to_pylist() for column in table.columns), strict=True):
            found.setdefault(pmid, []).append((gene, mentions))
    return found


def _mentioned(annotated: list[tuple[str, str]], text: str) -> list[str]:
    """Return the genes of which the text has a mention: the annotations come from full texts and databases too."""
    if not annotated:
        return []
    folded = text.casefold()
    return sorted(
        {gene for gene, mentions in annotated if any(m and m.casefold() in folded for m in mentions.split("|"))}
    )


def _decide_part(plan: Plan, judge: Judge, item: Item) -> Item:
    number = item["part"]
    path, stats = plan.parts[number].path, plan.work("decided", number)
    if plan.builder.kept(path) is not None:
        kept: Item = storage.read_json(stats)
        return kept
    articles = plan.articles.read_table(plan.parts[number], ["pmid", "text_digest"])
    ids: list[list[str]] = [[] for _ in range(articles.num_rows)]
    sources: list[list[str]] = [[] for _ in range(articles.num_rows)]
    passed: Counter[tuple[int, str]] = Counter()
    tiers: Counter[str] = Counter()
    doubt = cache(judge.doubt)
    for row, evidence in _by_row(plan, number):
        counting = [(row_item.string, row_item.gene) for row_item in judge.accepted(evidence, doubt)]
        if counting:
            passed.update(counting)
            ids[row] = sorted({g2p_id for _, gene in counting for g2p_id in plan.entries[gene]})
            sources[row] = sorted({tier for string, gene in counting for tier in _tiers(plan, string, gene)})
            tiers.update(sources[row])
    result = {
        "sizes": Counter(str(len(found)) for found in ids),
        "tiers": tiers,
        "passed": [[string, gene, count] for (string, gene), count in sorted(passed.items())],
    }
    columns = [articles["pmid"], pa.array(ids, CANDIDATES.field("g2p_ids").type)]
    columns += [pa.array(sources, CANDIDATES.field("sources").type), articles["text_digest"]]
    storage.publish_bytes(canonical_json(result), stats)  # before the ledger's entry, so that a kept part has counts
    plan.builder.publish_table(path, pa.table(columns, schema=CANDIDATES))
    return result


def _by_row(plan: Plan, number: int) -> Iterator[tuple[int, list[Evidence]]]:
    """Yield the evidence of each article of a part that has some."""
    files, path = storage.filesystem(plan.work("evidence", number))
    with files.open_input_file(path) as handle, pa.ipc.open_file(handle) as reader:
        columns = [column.to_pylist() for column in reader.read_all().columns]
    current: list[Evidence] = []
    last = -1
    for row, *evidence in zip(*columns, strict=True):
        if row != last and current:
            yield last, current
            current = []
        last = row
        current.append(Evidence(*evidence))
    if current:
        yield last, current


def _tiers(plan: Plan, string: int, gene: str) -> tuple[str, ...]:
    return (PUBTATOR,) if string == ANNOTATED else plan.lexicon.strings[string].genes[gene]
