"""How the pairs of an evaluation are split, what leaks, and the baseline trained on that split, a task a fold."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from biomodels import storage
from biomodels.artifacts import Artifact, ArtifactBuilder, batches
from biomodels.relations import folds as making
from biomodels.relations.folds import NO_FOLD, UNITS, FoldLeakage
from biomodels.relations.gold import Gold, text_hashes
from biomodels.relations.markers import Example

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

COLUMNS = [
    *("pair_id", "document_id", "text", "spans_1", "spans_2", "type_1", "type_2"),
    *("label", "relation_type", "others"),
]


@dataclass(frozen=True)
class Split:
    """How training and test pairs were told apart.

    Attributes:
        statement: for the reader.
        folds: (N,) or None: a fixed split, or one that is not known.
        leaks: (N,) pairs whose sentence is also in their training part; None if that is not known.
        leakage: counts by fold.
    """

    statement: str
    folds: Ints | None
    leaks: Bools | None
    leakage: list[FoldLeakage]

    @classmethod
    def of(
        cls,
        gold: Gold,
        predictions: pa.Table | None,
        *,
        folds: str | None,
        k: int,
        seed: int,
        train: Artifact | None,
        always: object = None,
    ) -> Split:
        """Find the split: a training set, folds asked for, the predictions' folds; else, if `always`, by document."""
        if train is not None:
            texts, documents = _texts_of(train)
            leaks, counts = making.leakage_from(gold.texts, gold.documents, gold.labels, texts, documents)
            return cls(f"fixed: a training set of {len(texts):,} pairs", None, leaks, counts)
        if folds is None and predictions is not None and "fold" in predictions.column_names:
            fold_of = dict(zip(predictions["pair_id"].to_pylist(), predictions["fold"].to_pylist(), strict=True))
            chosen, statement = _fold_column(gold, fold_of), "folds of the prediction files"
        elif folds is None and not always:
            return cls("not stated: give --train, --folds or a column fold to learn what leaks", None, None, [])
        elif folds is None or folds in UNITS:
            unit = folds or "document"
            groups = {"document": gold.documents, "sentence": gold.sentences, "instance": gold.pair_ids}[unit]
            chosen = making.stratified_folds(groups, gold.labels, k, seed)
            statement = f"{k} folds by {unit}, stratified by positives, seed {seed}"
        else:
            published = making.read_folds(folds)
            chosen = making.apply_folds(published, gold.pair_ids, gold.sentences, gold.documents)
            statement = f"{len(set(chosen.tolist()))} published folds"
        leaks, counts = making.leakage(gold.texts, gold.documents, gold.labels, chosen)
        cut = sum(count.documents > 0 for count in counts)
        clean = "no document is in two folds" if not cut else f"{cut} folds share documents with others"
        return cls(f"{statement}; {clean}", chosen, leaks, counts)

    def facts(self) -> dict[str, Any]:
        """Return it as the report has it."""
        return {
            "statement": self.statement,
            "folds": None if self.folds is None else len(set(self.folds.tolist()) - {NO_FOLD}),
            "leakage": None if self.leaks is None else [asdict(counts) for counts in self.leakage],
        }


def baseline_predictions(
    builder: ArtifactBuilder,
    relations: Artifact,
    train: Artifact | None,
    gold: Gold,
    split: Split,
    *,
    num_cpus: int | None,
) -> pa.Table:
    """Train and run the bag of words for each fold, and return its predictions; finished folds are kept."""
    from ray_jobs.fan_out import fan_out
    from ray_jobs.progress import bar
    from ray_jobs.session import session

    numbers = sorted(set(split.folds.tolist()) - {NO_FOLD}) if split.folds is not None else [0]
    todo = [number for number in numbers if builder.kept(_path(number)) is None]
    fold_of = None if split.folds is None else dict(zip(gold.pair_ids, split.folds.tolist(), strict=True))
    with bar("bag of words", len(numbers), "folds", done=len(numbers) - len(todo)) as progress:
        if todo:
            with session(num_cpus):
                task = partial(_fit_fold, builder, relations, train, fold_of)
                for _ in fan_out(task, [{"fold": number} for number in todo]):
                    progress.update()
    return pa.concat_tables([_read(builder, number) for number in numbers])


def _fit_fold(
    builder: ArtifactBuilder,
    relations: Artifact,
    train: Artifact | None,
    fold_of: dict[str, int] | None,
    item: dict[str, Any],
) -> dict[str, Any]:
    """Train on all other folds (or the training set) and publish the answers to one."""
    from biomodels.relations.bag_of_words import BagOfWords

    fold = item["fold"]

    def in_test(row: dict[str, Any]) -> bool:
        return fold_of is None or fold_of[row["pair_id"]] == fold

    test = [row for row in _rows(relations) if in_test(row)]
    training = list(_rows(train)) if train else [row for row in _rows(relations) if not in_test(row)]
    labels = np.array([row["label"] for row in training], dtype=bool)
    model = BagOfWords().fit([Example.of(row) for row in training], labels, [row["relation_type"] for row in training])
    scores, types = model.predict([Example.of(row) for row in test])
    table = pa.table(
        {
            "pair_id": [row["pair_id"] for row in test],
            "score": scores,
            "relation_type": pa.array(types, pa.string()),
            "fold": pa.array([fold] * len(test), pa.int64()),
        }
    )
    builder.publish_table(_path(fold), table)
    return {"fold": fold}


def _fold_column(gold: Gold, fold_of: dict[str, int]) -> Ints:
    """Return each pair's fold; a pair that the filter left out is in the fold of its sentence, else its document."""
    by_name: dict[str, Counter[int]] = {}
    for names in zip(gold.pair_ids, gold.sentences, gold.documents, strict=True):
        if names[0] in fold_of:
            for name in names:
                by_name.setdefault(name, Counter())[fold_of[names[0]]] += 1
    found = [
        next((by_name[name].most_common(1)[0][0] for name in names if name in by_name), NO_FOLD)
        for names in zip(gold.pair_ids, gold.sentences, gold.documents, strict=True)
    ]
    return np.array(found, dtype=np.int64)


def _rows(relations: Artifact) -> Any:
    for batch in batches(relations, columns=COLUMNS, prefix="part-"):
        yield from batch.to_pylist()


def _texts_of(train: Artifact) -> tuple[Ints, list[str]]:
    """Return the hashes of a training set's texts, and its documents."""
    hashes, documents = [np.empty(0, dtype=np.int64)], []
    for batch in batches(train, columns=["text", "document_id"], prefix="part-"):
        hashes.append(text_hashes(batch["text"].to_pylist()))
        documents += batch["document_id"].to_pylist()
    return np.concatenate(hashes), documents


def _path(fold: int) -> str:
    return f"bag_of_words/fold-{fold:02d}.parquet"


def _read(builder: ArtifactBuilder, fold: int) -> pa.Table:
    import pyarrow.parquet as pq

    files, path = storage.filesystem(storage.join(builder.uri, _path(fold)))
    return pq.read_table(path, filesystem=files)
