"""The protocols of SimCSE's evaluation: similarity (STS) and classification on frozen embeddings (transfer)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from biomodels.errors import InputError
from biomodels.evaluation import senteval, similarity
from biomodels.sentences.benchmarks import (
    STS_PARTS,
    USUAL_ROWS,
    Files,
    Labelled,
    Pairs,
    read_probe,
    read_sts,
    read_transfer,
)

Mode = Literal["test", "dev", "fasttest"]
Vectors = NDArray[np.float32]
Encode = Callable[[Sequence[str]], Vectors]
Cosines = Callable[[list[str], list[str]], NDArray[np.float64]]

STS = (*STS_PARTS, "STSBenchmark", "SICKRelatedness")
TRANSFER = ("MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC")
TASK_SETS = {"sts": STS, "transfer": TRANSFER, "full": STS + TRANSFER}
"""The sets of SimCSE's tables, in their order."""

PROBES = ("negation", "antonym")
EXTRAS = ("BIOSSES", *PROBES, "alignment", "STSBenchmark-<language>")
"""What can be asked for beside them: BIOSSES and its probes, alignment and uniformity, STS-B in other languages."""

ALIGNED_FROM = 4.0
"""Pairs of STS-B with a higher score count as positives of `alignment` (SimCSE, section 6)."""

PARAPHRASE_FROM = 3.0


class Encoded:
    """A model that encodes each distinct text once, and refuses vectors that are not finite.

    Args:
        encode: texts → E_ND.
    """

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._known: dict[str, int] = {}
        self._rows: list[Vectors] = []

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return E_ND.

        Raises:
            InputError: a vector is not finite.
        """
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            E_ND = self._encode(new)
            finite = np.isfinite(E_ND).all(axis=1)
            if not finite.all():
                text = new[int(np.argmin(finite))]
                raise InputError(f"the model's vector of {text[:80]!r} is not finite; the model is damaged")
            self._known |= {text: len(self._known) + i for i, text in enumerate(new)}
            self._rows.extend(E_ND)
        if not len(texts):
            return np.empty((0, 0), dtype=np.float32)
        return np.stack([self._rows[self._known[text]] for text in texts])

    def cosines(self, first: list[str], second: list[str]) -> NDArray[np.float64]:
        """Return the cosine of each text with the one at its place in the other list."""
        return similarity.cosine_rows(self(first), self(second))


def evaluate_sts(
    files: Files, task: str, mode: Mode, cosines: Cosines, *, seed: int = 0, resamples: int = 1000
) -> dict[str, Any]:
    """Evaluate a benchmark of similarity.

    Args:
        files: where its files are.
        task: its name; see `read_sts`.
        mode: "dev" takes the development set, where there is one.
        cosines: the model.
        seed, resamples: of the bootstrap interval; no interval if `resamples` is 0.

    Returns:
        `score`: 100 times Spearman's rho over all pairs together; its 95 % `interval`; Pearson and Spearman of `all`,
        `mean` and `wmean`, and of each part; `warnings`.

    Raises:
        MissingBenchmarkError: its files are not there.
        InputError: a file cannot be read.
    """
    split = "dev" if mode == "dev" else "test"
    parts = read_sts(files, task, split)
    together = cosines(
        [t for part in parts.values() for t in part.first], [t for p in parts.values() for t in p.second]
    )
    gold = [np.array(part.gold) for part in parts.values()]
    ends = np.cumsum([len(part) for part in gold])
    scored = dict(zip(parts, zip(np.split(together, ends[:-1]), gold, strict=True), strict=True))
    result: dict[str, Any] = {
        "kind": "sts",
        "split": split,
        "parts": {name: similarity.correlate(*part)._asdict() for name, part in scored.items()},
        **{name: value._asdict() for name, value in similarity.summarise(scored).items()},
        "warnings": _odd_sizes(task, {split: sum(len(part.gold) for part in parts.values())}),
    }
    result["score"] = 100 * result["all"]["spearman"]
    if resamples:
        interval = similarity.spearman_interval(together, np.concatenate(gold), seed=seed, resamples=resamples)
        result["interval"] = [100 * interval.low, 100 * interval.high]
    return result


def evaluate_probe(files: Files, name: str, cosines: Cosines) -> dict[str, Any]:
    """See how similar a model finds sentences that say the contrary of each other.

    Returns:
        `cosine`: mean over the pairs; `paraphrase_cosine`: mean over the pairs of BIOSSES that people scored 3 or more,
        which a model that understands should find more similar; `fooled`: share of contrary pairs above that mean.

    Raises:
        MissingBenchmarkError: the files of BIOSSES are not there.
    """
    probe = read_probe(files, name)
    biosses = read_sts(files, "BIOSSES", "test")["test"]
    same = [i for i, gold in enumerate(biosses.gold) if gold >= PARAPHRASE_FROM]
    contrary = cosines(probe.first, probe.second)
    paraphrases = cosines([biosses.first[i] for i in same], [biosses.second[i] for i in same])
    threshold = float(paraphrases.mean())
    return {
        "kind": "probe",
        "pairs": len(contrary),
        "cosine": float(contrary.mean()),
        "paraphrase_cosine": threshold,
        "fooled": float((contrary > threshold).mean()),
    }


def evaluate_alignment(files: Files, mode: Mode, encode: Encode) -> dict[str, Any]:
    """Measure alignment of STS-B's positive pairs and uniformity of its sentences; lower is better in both.

    Raises:
        MissingBenchmarkError: STS-B is not there.
    """
    split = "dev" if mode == "dev" else "test"
    pairs: Pairs = read_sts(files, "STSBenchmark", split)[split]
    same = [i for i, gold in enumerate(pairs.gold) if gold > ALIGNED_FROM]
    texts = list(dict.fromkeys([*pairs.first, *pairs.second]))
    first, second = encode([pairs.first[i] for i in same]), encode([pairs.second[i] for i in same])
    return {
        "kind": "alignment",
        "split": split,
        "alignment": similarity.alignment(first, second),
        "uniformity": similarity.uniformity(encode(texts)),
        "positives": len(same),
        "sentences": len(texts),
    }


def evaluate_transfer(
    files: Files, task: str, mode: Mode, encode: Encode, on_fit: Callable[[int], Any] = lambda fits: None
) -> dict[str, Any]:
    """Evaluate a benchmark of classification by SentEval's protocol.

    Args:
        files: where its files are.
        task: one of `TRANSFER`.
        mode: "test" fits as SimCSE's tables do; "dev" and "fasttest" fit faster. "dev" scores the development data.
        encode: the model.
        on_fit: told of each fit of the cross-validation.

    Returns:
        `score`: accuracy in percent; `dev` and `test` accuracies; `f1` for MRPC; sizes; `warnings`.

    Raises:
        MissingBenchmarkError: its files are not there.
    """
    data = read_transfer(files, task)
    protocol = senteval.TEST if mode == "test" else senteval.FAST
    encoded = {split: _features(part, encode) for split, part in data.items()}
    if "all" in encoded:
        found = senteval.nested(*encoded["all"], protocol, on_fit)
    elif "dev" in encoded:
        found = senteval.train_dev_test(encoded["train"], encoded["dev"], encoded["test"], protocol, on_fit)
    else:
        found = senteval.train_test(encoded["train"], encoded["test"], protocol, on_fit)
    sizes = {split: len(part.texts) for split, part in data.items()}
    result: dict[str, Any] = {
        "kind": "transfer",
        "score": found.dev if mode == "dev" else found.test,
        "dev": found.dev,
        "test": found.test,
        "sizes": sizes,
        "warnings": _odd_sizes(task, sizes),
    }
    if task == "MRPC" and found.predicted is not None:
        from sklearn.metrics import f1_score

        result["f1"] = round(100 * float(f1_score(encoded["test"][1], found.predicted)), 2)
    return result


def expected_fits(task: str, mode: Mode) -> int:
    """Return how often `evaluate_transfer` calls `on_fit`."""
    protocol = senteval.TEST if mode == "test" else senteval.FAST
    return 1 if task == "SST2" else senteval.fits(protocol, nested_folds=task not in {"TREC", "MRPC"})


def data_files(directory: str) -> Files:
    """Return a data directory.

    Raises:
        InputError: there is none.
    """
    root = Path(directory).expanduser()
    if not root.is_dir():
        raise InputError(f"{directory}: is no directory; give the one that holds the benchmarks")
    return Files(root.resolve())


def _features(part: Labelled, encode: Encode) -> tuple[Vectors, NDArray[np.int64]]:
    """Return vectors and labels in SentEval's order, by length and label, on which its folds depend."""
    second = part.second or [""] * len(part.texts)
    rows = sorted(
        zip(part.texts, second, part.labels, strict=True),
        key=lambda row: (len(row[0].split()), len(row[1].split()), row[2]),
    )
    E_ND = encode([row[0] for row in rows])
    if part.second:
        E_ND = senteval.pair_features(E_ND, encode([row[1] for row in rows]))
    return E_ND, np.array([row[2] for row in rows], dtype=np.int64)


def _odd_sizes(task: str, sizes: dict[str, int]) -> list[str]:
    usual = {split: USUAL_ROWS.get((task, split), rows) for split, rows in sizes.items()}
    return [
        f"{task} {split} has {rows:,} rows where the published file has {usual[split]:,}"
        for split, rows in sizes.items()
        if rows != usual[split]
    ]
