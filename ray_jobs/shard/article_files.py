"""First phase of `shard pubmed`: each source file becomes spill files of its events, by the hash of the PMID.

What was read from a file is kept in OUT/_files under the digest of the file until the dataset is finished. So a file
that had to be fetched again costs no second reading of the others.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq

from biomodels import storage
from biomodels.artifacts import canonical_json, digest_json, write_parquet
from biomodels.errors import BiomodelsError, InputError
from biomodels.literature.articles import EVENTS, Article, events_table, in_batches
from biomodels.literature.merge import KEYS, MOST_BITS, pmid_hash
from biomodels.literature.sources import check_md5, detect_format, reader
from biomodels.schemas import REJECTS
from biomodels.shuffle import bucket_of, spill
from biomodels.terminology.rejects import EXAMPLES, Reject, rejects_table
from ray_jobs.fan_out import Item, fan_out
from ray_jobs.progress import bar

FOLDER = "_files"
BATCH = 1000
"""How many records are Python objects at once."""

SPILL_ROWS = 32_768
"""Rows of a spill file; a file of NLM's has at most 30,000."""

MOST_REJECTS = 100_000
"""A file with more malformed records than this is another kind of file, or damaged, and is not read on."""

SHOWN_FAILURES = 3


@dataclass(frozen=True)
class SourceFile:
    """One input file. `name` is its base name, which its articles bear."""

    uri: str
    name: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Reading:
    """How all files are read, and where what was read is kept."""

    out: str
    form: str
    need_md5: bool

    def folder(self, file: SourceFile) -> str:
        """Return where the events of a file lie."""
        return storage.join(self.out, FOLDER, digest_json([file.name, file.sha256, self.form, SPILL_ROWS, MOST_BITS]))


@dataclass(frozen=True)
class FileSummary:
    """What a file held."""

    name: str
    folder: str
    records: int = 0
    deletions: int = 0
    later_versions: int = 0
    without_abstract: int = 0
    rejects: int = 0
    spills: int = 0
    md5: bool = False
    """Whether an MD5 was there, and right."""
    examples: list[Reject] = field(default_factory=list)

    @classmethod
    def load(cls, content: Item, folder: str) -> FileSummary:
        """Rebuild a summary from its JSON."""
        examples = [Reject(**example) for example in content["examples"]]
        return cls(**(content | {"examples": examples, "folder": folder}))

    @property
    def counts(self) -> dict[str, str | int]:
        """What the manifest says of the file."""
        return {
            "name": self.name,
            "records": self.records,
            "deletions": self.deletions,
            "later_versions": self.later_versions,
            "without_abstract": self.without_abstract,
            "rejects": self.rejects,
        }

    def uris(self, kind: str) -> list[str]:
        """Return the spill files of `kind` "events" or "keys", in the order of the file."""
        return [storage.join(self.folder, f"{kind}-{number:04d}.arrow") for number in range(self.spills)]

    def read_rejects(self) -> pa.Table:
        """Return the file's rejects (schema REJECTS)."""
        if not self.rejects:
            return REJECTS.empty_table()
        files, path = storage.filesystem(storage.join(self.folder, "rejects.parquet"))
        return pq.read_table(path, filesystem=files)


def read_files(reading: Reading, files: list[SourceFile]) -> list[FileSummary]:
    """Spill all files, in one task each; what an earlier run read is kept.

    Returns:
        The summaries, in the order of `files`.

    Raises:
        InputError: some files cannot be used. All others have been read by then, and are kept.
    """
    found = {file.name: kept for file in files if (kept := _kept(reading, file)) is not None}
    items = [asdict(file) for file in files if file.name not in found]
    failures: dict[str, str] = {}
    done = sum(file.size for file in files if file.name in found)
    with bar("reading", sum(file.size for file in files), "B", done=done) as progress:
        for result in fan_out(partial(_read, reading), items):
            progress.update(result["size"])
            if "failure" in result:
                failures[result["name"]] = result["failure"]
            else:
                found[result["name"]] = FileSummary.load(result["summary"], result["folder"])
    if failures:
        shown = [failures[file.name] for file in files if file.name in failures]
        more = f"; and {len(shown) - SHOWN_FAILURES} more" if len(shown) > SHOWN_FAILURES else ""
        raise InputError(
            f"{len(shown)} of {len(files)} files cannot be used: {'; '.join(shown[:SHOWN_FAILURES])}{more}. "
            f"The other {len(found)} are read and kept; mend these or leave them out, and run the command again"
        )
    return [found[file.name] for file in files]


def _kept(reading: Reading, file: SourceFile) -> FileSummary | None:
    folder = reading.folder(file)
    summary = storage.join(folder, "summary.json")
    if not storage.exists(summary):
        return None
    found = FileSummary.load(storage.read_json(summary), folder)
    return found if found.md5 or not reading.need_md5 else None


def _read(reading: Reading, item: Item) -> Item:
    file = SourceFile(**item)
    told = {"name": file.name, "size": file.size}
    try:
        summary = _spill_file(reading, file)
    except BiomodelsError as error:
        return told | {"failure": str(error)}
    return told | {"summary": _content(summary), "folder": summary.folder}


def _spill_file(reading: Reading, file: SourceFile) -> FileSummary:
    """Read and spill one file; its summary, written last, marks it finished."""
    checked = check_md5(file.uri, needed=reading.need_md5)
    form = detect_format(file.uri) if reading.form == "auto" else reading.form
    folder = reading.folder(file)
    records = deletions = later = bare = rows = 0
    spills: list[str] = []
    tables: list[pa.Table] = []
    rejects: list[Reject] = []
    for batch in chain(in_batches(reader(form)(file.uri), BATCH), [None]):
        if batch is not None:
            events = [item for item in batch if not isinstance(item, Reject)]
            articles = [event for event in events if isinstance(event, Article)]
            rejects += [item for item in batch if isinstance(item, Reject)]
            records, deletions = records + len(articles), deletions + len(events) - len(articles)
            later += sum(article.version > 1 for article in articles)
            bare += sum(not article.sections for article in articles)
            if len(rejects) > MOST_REJECTS:
                problem = f"has more than {MOST_REJECTS:,} malformed records; the last: {rejects[-1].reason}"
                raise InputError.at(file.uri, rejects[-1].line, problem, f"check that it is {form}")
            tables.append(events_table(events, file.name))
            rows += len(events)
        if rows >= SPILL_ROWS or (batch is None and rows):
            _spill_events(pa.concat_tables(tables), folder, len(spills))
            spills.append(folder)
            tables, rows = [], 0
    if not records + deletions + len(rejects):
        raise InputError.at(file.uri, None, "holds no record", "check that it is the right file")
    if rejects:
        with storage.writing(storage.join(folder, "rejects.parquet")) as local:
            write_parquet(rejects_table(rejects), local)
    summary = FileSummary(
        name=file.name,
        folder=folder,
        records=records,
        deletions=deletions,
        later_versions=later,
        without_abstract=bare,
        rejects=len(rejects),
        spills=len(spills),
        md5=checked,
        examples=sorted(rejects)[:EXAMPLES],
    )
    storage.publish_bytes(canonical_json(_content(summary)), storage.join(folder, "summary.json"))
    return summary


def _spill_events(events: pa.Table, folder: str, number: int) -> None:
    """Spill events, and beside them the columns that decide which ones stay; row by row they correspond."""
    buckets = bucket_of(pmid_hash(events["pmid"]), MOST_BITS)
    spill(events.cast(EVENTS), buckets, MOST_BITS, storage.join(folder, f"events-{number:04d}.arrow"))
    spill(events.select(KEYS.names), buckets, MOST_BITS, storage.join(folder, f"keys-{number:04d}.arrow"))


def _content(summary: FileSummary) -> Item:
    """Return a summary as JSON can hold it; where it lies is left out, so that a moved directory stays good."""
    return {key: value for key, value in asdict(summary).items() if key != "folder"}
