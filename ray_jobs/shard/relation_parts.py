"""The work of `shard relations`: groups of neighbouring files are read in parallel, each into parts of its own."""

from __future__ import annotations

import csv
import importlib
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from biomodels import storage
from biomodels.artifacts import ArtifactBuilder, canonical_json, write_parquet
from biomodels.errors import InputError
from biomodels.relations.records import Pair, Sentence, relations_table
from biomodels.relations.triples import TripleIndex
from biomodels.schemas import REJECTS
from biomodels.terminology.hashing import hash_column
from biomodels.terminology.rejects import EXAMPLES, Reject, check_reject_rate, rejects_table
from ray_jobs.fan_out import Item, fan_out
from ray_jobs.progress import bar

READERS = {"ddi2013": "ddi", "ppi-xml": "ppi", "bnl-json": "bnl_json"}
SUFFIXES = {"ddi2013": (".xml",), "ppi-xml": (".xml",), "bnl-json": (".json", ".jsonl")}

GROUP_BYTES = 1 << 21
"""Files are grouped up to this size; a larger file is a group of its own."""

ROWS_PER_PART = 1 << 14

ONE_CLASS_PAIRS = 100
"""A directory with so many pairs and no positive one holds no relation corpus."""

SELF, SAME_NAME = "self_interaction", "same_name"
"""Why a pair is left out."""

IRREGULARITIES = ("kind", "file", "line", "sentence_id", "item", "detail")


@dataclass(frozen=True)
class CorpusFile:
    """An input file. `name` is its path below the argument that named it: it orders the files, on any machine."""

    name: str
    uri: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Plan:
    """How every file is read."""

    format: str
    wanted: frozenset[str] | None
    unwanted: frozenset[str] | None
    drop_self: bool
    drop_same_name: bool

    def keeps(self, document: str) -> bool:
        """Say whether a document is asked for."""
        if self.wanted is not None:
            return document in self.wanted
        return self.unwanted is None or document not in self.unwanted

    def reason_to_drop(self, pair: Pair) -> str | None:
        """Say why a pair is left out, or None."""
        if self.drop_self and pair.entity_1.spans == pair.entity_2.spans:
            return SELF
        if self.drop_same_name and pair.entity_1.text.casefold() == pair.entity_2.text.casefold():
            return SAME_NAME
        return None


@dataclass
class GroupSummary:
    """What became of a group. `files` are [directory, offsets, pairs, positives] of each; lists are in file order."""

    group: int
    parts: list[str] = field(default_factory=list)
    filtered_parts: list[str] = field(default_factory=list)
    files: list[list[Any]] = field(default_factory=list)
    documents: int = 0
    listed: list[str] = field(default_factory=list)
    sentences: int = 0
    sentences_with_pairs: int = 0
    entities: int = 0
    types: dict[str, int] = field(default_factory=dict)
    filtered: dict[str, list[int]] = field(default_factory=dict)
    irregularities: dict[str, int] = field(default_factory=dict)
    rejected: int = 0
    examples: list[list[Any]] = field(default_factory=list)


def corpus_files(paths: Sequence[str], form: str) -> list[CorpusFile]:
    """Find the files of a corpus, sorted by name.

    Raises:
        InputError: a path is not there, or a directory has no file of the format.
    """
    found: dict[str, str] = {}
    for path in paths:
        uri = storage.absolute(path).rstrip("/")
        if storage.is_file(uri):
            found.setdefault(uri, uri.rsplit("/", 1)[-1])
            continue
        names = [name for name in storage.list_files(uri, recursive=True) if _is_corpus(name, form)]
        if not names:
            what = f"has no {' or '.join(SUFFIXES[form])} file" if storage.exists(uri) else "is not there"
            raise InputError.at(path, None, what, f"give the files or directories of a {form} corpus")
        for name in names:
            found.setdefault(storage.join(uri, name), f"{uri.rsplit('/', 1)[-1]}/{name}")
    with ThreadPoolExecutor(16) as pool:
        sums = list(pool.map(storage.sha256, found))
    files = [CorpusFile(name, uri, _size(uri), digest) for (uri, name), digest in zip(found.items(), sums, strict=True)]
    return sorted(files, key=lambda file: (file.name, file.sha256))


def make_parts(
    builder: ArtifactBuilder, plan: Plan, files: list[CorpusFile], *, allow_one_class: bool, max_reject_rate: float
) -> None:
    """Read all files and publish the dataset.

    Raises:
        InputError: the corpus is no relation corpus, or two of its pairs have one id.
        RejectRateError: too many pairs are unusable.
    """
    groups = _groups(files)
    summaries, todo = _finished(builder, len(groups))
    items = [{"group": number, "files": [file.uri for file in groups[number]]} for number in todo]
    with bar("reading", len(files), "files", done=len(files) - sum(len(groups[number]) for number in todo)) as progress:
        for content in fan_out(partial(_read_group, builder, plan), items):
            summary = GroupSummary(**content)
            summaries[summary.group] = summary
            progress.update(len(summary.files))
    ordered = [summaries[number] for number in range(len(groups))]
    pairs, positives = (sum(file[place] for summary in ordered for file in summary.files) for place in (2, 3))
    rejected = sum(summary.rejected for summary in ordered)
    examples = [Reject(*example) for summary in ordered for example in summary.examples]
    check_reject_rate(rejected, pairs + rejected, max_reject_rate, examples)
    _check_listed(plan, ordered)
    if not allow_one_class:
        _refuse_one_class(ordered, pairs, positives)
    index = _index(builder, ordered)
    _publish_lists(builder, ordered)
    builder.commit(
        {
            "format": plan.format,
            "pairs": pairs,
            "positives": positives,
            "documents": sum(summary.documents for summary in ordered),
            "sentences": sum(summary.sentences for summary in ordered),
            "sentences_with_pairs": sum(summary.sentences_with_pairs for summary in ordered),
            "entities": sum(summary.entities for summary in ordered),
            "relation_types": _sum(summary.types for summary in ordered),
            "offsets": _sum({file[1]: 1} for summary in ordered for file in summary.files),
            "irregularities": _sum(summary.irregularities for summary in ordered),
            "filtered": _filtered(plan, ordered),
            "rejects": rejected,
            "triples": index.coverage(),
        }
    )


def _read_group(builder: ArtifactBuilder, plan: Plan, item: Item) -> Item:
    """Read a group's files into parts; its summary file, written last, marks it finished."""
    reader = importlib.import_module(f"biomodels.relations.{READERS[plan.format]}")
    with (
        storage.writing(_work(builder, item["group"], "tsv")) as local,
        open(local, "w", encoding="utf-8", newline="") as odd,
    ):
        writer = _GroupWriter(builder, plan, GroupSummary(item["group"]), odd)
        for uri in item["files"]:
            offsets, sentences = reader.read(uri)
            writer.add_file(uri, offsets, sentences)
        summary = asdict(writer.close())
    storage.publish_bytes(canonical_json(summary), _work(builder, item["group"], "json"))
    return summary


class _GroupWriter:
    """Collects the rows of a group, writes a part when there are enough, and keeps count."""

    def __init__(self, builder: ArtifactBuilder, plan: Plan, summary: GroupSummary, odd: IO[str]) -> None:
        self.builder, self.plan, self.summary = builder, plan, summary
        self.rows: list[tuple[Sentence, Pair]] = []
        self.filtered: list[tuple[Sentence, Pair]] = []
        self.rejects: list[Reject] = []
        self.odd = csv.writer(odd, csv.excel_tab, lineterminator="\n")

    def add_file(self, uri: str, offsets: str, sentences: Iterable[Sentence]) -> None:
        """Take the sentences of a file."""
        summary = self.summary
        counts = [os.path.dirname(uri).rsplit("/", 1)[-1], offsets, 0, 0]
        document = None
        for sentence in sentences:
            if sentence.document_id and not self.plan.keeps(sentence.document_id):
                continue
            self.rejects += sentence.rejects
            if not sentence.document_id:
                continue
            if sentence.document_id != document:
                document = sentence.document_id
                summary.documents += 1
                summary.listed += [document] if self.plan.wanted or self.plan.unwanted else []
            self._add(sentence, counts)
        summary.files.append(counts)

    def close(self) -> GroupSummary:
        """Write what is left."""
        summary = self.summary
        self.rows = self._write(self.rows, "part", summary.parts)
        self.filtered = self._write(self.filtered, "filtered/part", summary.filtered_parts)
        summary.rejected = len(self.rejects)
        summary.examples = [[*asdict(reject).values()] for reject in sorted(self.rejects)[:EXAMPLES]]
        with storage.writing(_work(self.builder, summary.group, "rejects.parquet")) as local:
            write_parquet(rejects_table(self.rejects), local)
        return summary

    def _add(self, sentence: Sentence, counts: list[Any]) -> None:
        summary = self.summary
        kept = []
        for pair in sentence.pairs:
            reason = self.plan.reason_to_drop(pair)
            if reason is None:
                kept.append(pair)
                continue
            self.filtered.append((sentence, pair))
            total = summary.filtered.setdefault(reason, [0, 0])
            total[0] += 1
            total[1] += pair.label
        summary.sentences += 1
        summary.sentences_with_pairs += bool(kept)
        summary.entities += len(sentence.entities)
        summary.types = _sum([summary.types, Counter(pair.relation_type for pair in kept if pair.relation_type)])
        summary.irregularities = _sum([summary.irregularities, Counter(odd.kind for odd in sentence.irregularities)])
        for item in sentence.irregularities:
            self.odd.writerow([" ".join(str(getattr(item, name)).split()) for name in IRREGULARITIES])
        counts[2] += len(kept)
        counts[3] += sum(pair.label for pair in kept)
        self.rows += [(sentence, pair) for pair in kept]
        if len(self.rows) >= ROWS_PER_PART:
            self.rows = self._write(self.rows, "part", summary.parts)
        if len(self.filtered) >= ROWS_PER_PART:
            self.filtered = self._write(self.filtered, "filtered/part", summary.filtered_parts)

    def _write(self, rows: list[tuple[Sentence, Pair]], name: str, parts: list[str]) -> list[tuple[Sentence, Pair]]:
        """Write rows as a part, if there are any, and return an empty list. No sentence is cut between parts."""
        if rows:
            parts.append(f"{name}-{self.summary.group:05d}-{len(parts):03d}.parquet")
            self.builder.publish_table(parts[-1], relations_table(rows))
        return []


def _finished(builder: ArtifactBuilder, groups: int) -> tuple[dict[int, GroupSummary], list[int]]:
    """Return the summaries of the groups that an earlier run finished, and the numbers of the others."""
    done, todo = {}, []
    for number in range(groups):
        uri = _work(builder, number, "json")
        summary = GroupSummary(**storage.read_json(uri)) if storage.exists(uri) else None
        parts = summary.parts + summary.filtered_parts if summary else []
        if summary is not None and all(builder.kept(path) for path in parts):
            done[number] = summary
        else:
            todo.append(number)
    return done, todo


def _index(builder: ArtifactBuilder, ordered: list[GroupSummary]) -> TripleIndex:
    """Index the pairs by sentence and class.

    Raises:
        InputError: two pairs have one id.
    """
    columns = ["sentence_id", "pair_id", "label"]
    tables = [_read(storage.join(builder.uri, path), columns) for summary in ordered for path in summary.parts]
    every = pa.concat_tables(tables)
    hashes = np.sort(hash_column(every["pair_id"]))
    if (hashes[1:] == hashes[:-1]).any():
        counts = pc.value_counts(every["pair_id"])
        twice = next(item for item in counts if item["counts"].as_py() > 1)
        raise InputError(
            f"the pair {twice['values'].as_py()} occurs {twice['counts'].as_py()} times: give every document once "
            "(one of the training and test files of a set of folds, say)"
        )
    return TripleIndex.of(every)


def _publish_lists(builder: ArtifactBuilder, ordered: list[GroupSummary]) -> None:
    """Join the groups' irregularities and rejects."""

    def irregularities(local: str) -> int:
        with open(local, "wb") as sink:
            sink.write(("\t".join(IRREGULARITIES) + "\n").encode())
            for summary in ordered:
                for piece in storage.chunks(_work(builder, summary.group, "tsv")):
                    sink.write(piece)
        return sum(sum(summary.irregularities.values()) for summary in ordered)

    builder.publish("irregularities.tsv", irregularities)
    if any(summary.rejected for summary in ordered):
        parts = [_read(_work(builder, summary.group, "rejects.parquet")) for summary in ordered]
        builder.publish_table("rejects/rejects.parquet", pa.concat_tables([REJECTS.empty_table(), *parts]))


def _check_listed(plan: Plan, ordered: list[GroupSummary]) -> None:
    """Refuse a list of documents of which some were not found.

    Raises:
        InputError: naming one of them.
    """
    if plan.wanted is None:
        return
    lost = sorted(plan.wanted - {document for summary in ordered for document in summary.listed})
    if lost:
        raise InputError(
            f"{len(lost)} of {len(plan.wanted)} documents of --documents are not in the corpus, such as {lost[0]}; "
            "check the list and the paths"
        )


def _refuse_one_class(ordered: list[GroupSummary], pairs: int, positives: int) -> None:
    """Refuse what cannot be a relation corpus.

    Raises:
        InputError: there are no pairs, all are of one class, or those of a whole directory are all negative.
    """
    remedy = "if that is meant, say --allow-one-class"
    if not pairs:
        raise InputError("the corpus has no pair of entities; check the paths and the format")
    if positives in (0, pairs):
        kind = "positive" if positives else "negative"
        raise InputError(f"all {pairs:,} pairs of the corpus are {kind}, so it is no relation corpus; {remedy}")
    directories: dict[str, list[int]] = {}
    for summary in ordered:
        for directory, _, count, true in summary.files:
            total = directories.setdefault(directory, [0, 0])
            total[0] += count
            total[1] += true
    for directory, (count, true) in sorted(directories.items()):
        if count >= ONE_CLASS_PAIRS and not true:
            raise InputError(
                f"{directory}: all {count:,} pairs are negative, as in the DrugNER test set, which tests no relations; "
                f"leave the directory out, or {remedy}"
            )


def _filtered(plan: Plan, ordered: list[GroupSummary]) -> dict[str, dict[str, int]]:
    """Return what each active filter removed."""
    active = [SELF] * plan.drop_self + [SAME_NAME] * plan.drop_same_name
    return {
        reason: dict(
            zip(
                ("pairs", "positives"),
                (sum(summary.filtered.get(reason, [0, 0])[place] for summary in ordered) for place in (0, 1)),
                strict=True,
            )
        )
        for reason in active
    }


def _groups(files: list[CorpusFile]) -> list[list[CorpusFile]]:
    """Cut the files, in their order, into groups of bounded size."""
    groups: list[list[CorpusFile]] = []
    room = 0
    for file in files:
        if file.size > room:
            groups.append([])
            room = GROUP_BYTES
        groups[-1].append(file)
        room -= file.size
    return groups


def _is_corpus(name: str, form: str) -> bool:
    """Say whether a file of a directory belongs to the corpus: lists of types lie beside the JSON lines."""
    return name.endswith(SUFFIXES[form]) and not name.endswith("_types.json")


def _sum(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(sorted(total.items()))


def _size(uri: str) -> int:
    files, path = storage.filesystem(uri)
    return int(files.get_file_info(path).size or 0)


def _read(uri: str, columns: list[str] | None = None) -> pa.Table:
    files, local = storage.filesystem(uri)
    return pq.read_table(local, filesystem=files, columns=columns)


def _work(builder: ArtifactBuilder, group: int, suffix: str) -> str:
    return builder.work("groups", f"{group:05d}.{suffix}")
