"""Benchmarks of sentence embeddings, read from the files that their makers publish, in SentEval's layout or any other.

A benchmark is looked for by the names of its folder and files, so that `data/downstream/STS/STS12-en-test` of SentEval
and `sts/STS12-en-test` are both found. Quirks of the files: STS-B has quotation marks that open no quoted field, and
seven or nine columns; STS15 and STS16 leave gold lines empty for pairs that do not count; TREC, MR, CR, SUBJ and MPQA
are Latin-1; MRPC, SICK and BIOSSES may start with a byte order mark. White space is folded, as SentEval does by
splitting at it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from biomodels.errors import InputError
from biomodels.storage import sha256

DEPTH = 5
"""How deep a benchmark's folder may lie below the data directory."""


class MissingBenchmarkError(Exception):
    """The files of a benchmark are not there: its result is n/a, which is no error of the run."""


@dataclass
class Pairs:
    """Pairs of sentences with a human score."""

    first: list[str] = field(default_factory=list)
    second: list[str] = field(default_factory=list)
    gold: list[float] = field(default_factory=list)


@dataclass
class Labelled:
    """Texts with a class, or pairs of texts with one (then `second` is not empty)."""

    texts: list[str] = field(default_factory=list)
    second: list[str] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)


@dataclass
class Files:
    """The data directory, and which of its files were read."""

    root: Path
    read: list[Path] = field(default_factory=list)

    def folder(self, names: Sequence[str], *needed: str) -> Path:
        """Return the folder of one of these names that holds the needed files, the one nearest to the root.

        Raises:
            MissingBenchmarkError: there is none.
        """
        for depth in range(DEPTH + 1):
            for path in sorted(self.root.glob("/".join("*" * depth))) if depth else [self.root]:
                for name in names:
                    if (path / name).is_dir() and all((path / name / file).is_file() for file in needed):
                        return path / name
        shown = ", ".join(needed[:2]) + (", …" if len(needed) > 2 else "")
        raise MissingBenchmarkError(f"there is no folder {' or '.join(names)} with {shown}")

    def lines(self, path: Path, encoding: str = "utf-8-sig") -> Iterator[tuple[int, str]]:
        """Yield number and text of each line, without its end; a blank last line is no line.

        Raises:
            InputError: the file is not in this encoding.
        """
        self.read.append(path)
        try:
            text = path.read_bytes().decode(encoding)
        except UnicodeDecodeError as error:
            raise InputError.at(
                str(path), None, f"is not {encoding} at byte {error.start + 1}", "fetch it again"
            ) from error
        rows = text.split("\n")
        if not rows[-1].strip():
            rows.pop()
        for number, line in enumerate(rows, start=1):
            yield number, line.rstrip("\r")

    def digests(self) -> dict[str, str]:
        """Return name → SHA-256 of the files that were read."""
        return {path.relative_to(self.root).as_posix(): sha256(str(path)) for path in sorted(set(self.read))}


STS_PARTS = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),  # without SMT, whose texts cannot be shared
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
"""The subsets of each year, as SentEval has them."""


def read_sts(files: Files, task: str, split: str) -> dict[str, Pairs]:
    """Read a benchmark of similarity.

    Args:
        files: where to look.
        task: STS12 to STS16, STSBenchmark, SICKRelatedness, BIOSSES, or STSBenchmark-de and the like.
        split: "dev" or "test"; STS12 to STS16 and BIOSSES have but one, the test.

    Returns:
        Part → pairs; more than one part for STS12 to STS16.

    Raises:
        MissingBenchmarkError: its files are not there, or it has no such split.
        InputError: a line cannot be read.
    """
    if task in STS_PARTS or task == "BIOSSES":
        if split != "test":
            raise MissingBenchmarkError("it has no development set")
        return _year(files, task) if task in STS_PARTS else {"test": _biosses(files)}
    if task == "STSBenchmark":
        name = f"sts-{split}.csv"
        path = files.folder(("STSBenchmark", "stsbenchmark"), name) / name
        return {split: _scored(files, path, 5, 6, 4)}
    if task == "SICKRelatedness":
        name = {"dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}[split]
        path = files.folder(("SICK",), name) / name
        return {split: _scored(files, path, 1, 2, 3, header=True)}
    name = f"stsb-{task.removeprefix('STSBenchmark-')}-{split}.csv"
    return {
        split: _multilingual(files, files.folder(("stsb_multi", "stsb_multi_mt", "STSBenchmark-multi"), name) / name)
    }


def _year(files: Files, task: str) -> dict[str, Pairs]:
    parts = STS_PARTS[task]
    needed = [f"STS.{kind}.{part}.txt" for part in parts for kind in ("input", "gs")]
    folder = files.folder((f"{task}-en-test", task), *needed)
    return {part: _year_part(files, folder, part) for part in parts}


def _year_part(files: Files, folder: Path, part: str) -> Pairs:
    texts, gold = folder / f"STS.input.{part}.txt", folder / f"STS.gs.{part}.txt"
    inputs, scores = list(files.lines(texts)), list(files.lines(gold))
    while len(scores) < len(inputs):  # gold lines at the end may be empty too
        scores.append((len(scores) + 1, ""))
    if len(scores) != len(inputs):
        raise InputError.at(str(gold), None, f"has {len(scores)} lines for {len(inputs)} pairs", "fetch both again")
    pairs = Pairs()
    for (number, line), (_, score) in zip(inputs, scores, strict=True):
        if score.strip():
            columns = line.split("\t")
            _need(len(columns) >= 2, texts, number, "has no tab between two sentences")
            _add(pairs, columns[0], columns[1], score, (gold, number))
    return pairs


def _scored(files: Files, path: Path, first: int, second: int, score: int, *, header: bool = False) -> Pairs:
    """Read tab-separated lines, in which a quotation mark is a character like any other."""
    pairs = Pairs()
    for number, line in files.lines(path):
        if header and number == 1:
            continue
        columns = line.split("\t")
        _need(len(columns) > max(first, second, score), path, number, f"has {len(columns)} columns")
        _add(pairs, columns[first], columns[second], columns[score], (path, number))
    _need(bool(pairs.gold), path, 1, "holds no pair")
    return pairs


def _biosses(files: Files) -> Pairs:
    path = files.folder(("BIOSSES", "biosses"), "biosses.tsv") / "biosses.tsv"
    return _scored(files, path, 1, 2, 3, header=True)


def _multilingual(files: Files, path: Path) -> Pairs:
    pairs = Pairs()
    text = "\n".join(line for _, line in files.lines(path))
    reader = csv.reader(io.StringIO(text), strict=True)
    try:
        for row in reader:
            _need(len(row) == 3, path, reader.line_num, f"has {len(row)} columns where 3 are needed")
            _add(pairs, row[0], row[1], row[2], (path, reader.line_num))
    except csv.Error as error:
        raise InputError.at(str(path), reader.line_num, f"is no CSV ({error})", "fetch it again") from error
    return pairs


def read_probe(files: Files, name: str) -> Pairs:
    """Read a probe of BIOSSES: sentences, each followed by itself made to say the contrary ("negation" or "antonym").

    Raises:
        MissingBenchmarkError: its file is not there.
    """
    file = f"biosses_{name}_subset.txt"
    path = files.folder(("BIOSSES", "biosses"), file) / file
    rows = [(number, fold(line)) for number, line in files.lines(path) if line.strip()]
    _need(len(rows) % 2 == 0, path, rows[-1][0] if rows else 1, "has no altered sentence after it")
    return Pairs([text for _, text in rows[::2]], [text for _, text in rows[1::2]], [])


def read_transfer(files: Files, task: str) -> dict[str, Labelled]:
    """Read a benchmark of classification.

    Args:
        files: where to look.
        task: MR, CR, SUBJ, MPQA (one split, "all"), SST2 ("train", "dev", "test"), TREC, MRPC ("train", "test").

    Raises:
        MissingBenchmarkError: its files are not there.
        InputError: a line cannot be read.
    """
    return _TRANSFER[task](files)


def _binary(folder: str, positive: str, negative: str) -> Callable[[Files], dict[str, Labelled]]:
    def read(files: Files) -> dict[str, Labelled]:
        place = files.folder((folder,), positive, negative)
        found = Labelled()
        for label, file in ((1, positive), (0, negative)):
            for _, line in files.lines(place / file, "latin-1"):
                found.texts.append(fold(line))
                found.labels.append(label)
        return {"all": found}

    return read


def _sst2(files: Files) -> dict[str, Labelled]:
    names = {split: f"sentiment-{split}" for split in ("train", "dev", "test")}
    folder = files.folder(("binary", "SST2", "SST/binary"), *names.values())
    found = {split: Labelled() for split in names}
    for split, name in names.items():
        for number, line in files.lines(folder / name):
            text, _, label = line.strip().rpartition("\t")
            _need(label in {"0", "1"} and bool(text), folder / name, number, "has no label 0 or 1 after a tab")
            found[split].texts.append(fold(text))
            found[split].labels.append(int(label))
    return found


TREC_CLASSES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")


def _trec(files: Files) -> dict[str, Labelled]:
    names = {"train": "train_5500.label", "test": "TREC_10.label"}
    folder = files.folder(("TREC",), *names.values())
    found = {split: Labelled() for split in names}
    for split, name in names.items():
        for number, line in files.lines(folder / name, "latin-1"):
            label, _, question = line.strip().partition(" ")
            coarse = label.partition(":")[0]
            _need(coarse in TREC_CLASSES, folder / name, number, f"has the class {coarse!r}")
            found[split].texts.append(fold(question))
            found[split].labels.append(TREC_CLASSES.index(coarse))
    return found


def _mrpc(files: Files) -> dict[str, Labelled]:
    names = {split: f"msr_paraphrase_{split}.txt" for split in ("train", "test")}
    folder = files.folder(("MRPC",), *names.values())
    found = {split: Labelled() for split in names}
    for split, name in names.items():
        for number, line in files.lines(folder / name):
            columns = line.split("\t")
            _need(len(columns) == 5, folder / name, number, f"has {len(columns)} columns where 5 are needed")
            if number > 1:
                _need(columns[0] in {"0", "1"}, folder / name, number, f"has the label {columns[0]!r}")
                found[split].texts.append(fold(columns[3]))
                found[split].second.append(fold(columns[4]))
                found[split].labels.append(int(columns[0]))
    return found


_TRANSFER: dict[str, Callable[[Files], dict[str, Labelled]]] = {
    "MR": _binary("MR", "rt-polarity.pos", "rt-polarity.neg"),
    "CR": _binary("CR", "custrev.pos", "custrev.neg"),
    "SUBJ": _binary("SUBJ", "subj.objective", "subj.subjective"),
    "MPQA": _binary("MPQA", "mpqa.pos", "mpqa.neg"),
    "SST2": _sst2,
    "TREC": _trec,
    "MRPC": _mrpc,
}

USUAL_ROWS = {
    **{("STSBenchmark", "dev"): 1500, ("STSBenchmark", "test"): 1379},
    **{("SICKRelatedness", "dev"): 500, ("SICKRelatedness", "test"): 4927, ("BIOSSES", "test"): 100},
    **{("MR", "all"): 10662, ("CR", "all"): 3775, ("SUBJ", "all"): 10000, ("MPQA", "all"): 10606},
    **{("SST2", "train"): 67349, ("SST2", "dev"): 872, ("SST2", "test"): 1821},
    **{("TREC", "train"): 5452, ("TREC", "test"): 500, ("MRPC", "train"): 4076, ("MRPC", "test"): 1725},
}
"""How many rows the published files have; other numbers are worth a warning (there are damaged copies)."""


def fold(text: str) -> str:
    """Return a text with single blanks for white space, as SentEval's splitting and joining leaves it."""
    return " ".join(text.split())


def _add(pairs: Pairs, first: str, second: str, score: str, place: tuple[Path, int]) -> None:
    try:
        gold = float(score)
    except ValueError as error:
        raise InputError.at(str(place[0]), place[1], f"has the score {score!r}", "fetch the file again") from error
    pairs.first.append(fold(first))
    pairs.second.append(fold(second))
    pairs.gold.append(gold)


def _need(condition: bool, path: Path, line: int, problem: str) -> None:
    if not condition:
        raise InputError.at(str(path), line, problem, "fetch the file again")
