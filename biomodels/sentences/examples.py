"""Tables of training examples, in an order that a seed and their content decide; and triples out of NLI rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from biomodels.schemas import SENTENCES
from biomodels.sentences.readers import Example, Nli
from biomodels.terminology.hashing import UInts, hash_strings, mix

KEYED = SENTENCES.append(pa.field("key", pa.uint64()))
"""Examples with the hash that orders and samples them."""

NLI_ROWS = pa.schema([("premise", pa.string()), ("hypothesis", pa.string()), ("label", pa.string())])


def keyed_table(examples: Sequence[Example], seed: int) -> pa.Table:
    """Return examples as a table of KEYED."""
    columns = [list(column) for column in zip(*examples, strict=True)] or [[], [], []]
    contents = ("\x1f".join([e.sentence_1, e.sentence_2 or "", *e.hard_negatives]) for e in examples)
    keys = mix(seed, hash_strings(contents)) if examples else np.empty(0, dtype=np.uint64)
    return pa.table([*columns, keys], schema=KEYED)


def ordered(table: pa.Table, *, distinct: bool) -> pa.Table:
    """Return the rows in the order of their keys; equal rows once if `distinct`."""
    keys: UInts = table["key"].to_numpy()
    order = np.argsort(keys, kind="stable")
    table, keys = table.take(pa.array(order)), keys[order]
    clash = np.flatnonzero(keys[1:] == keys[:-1]) + 1
    if not len(clash):
        return table
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
    kept: list[int] = []
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(keys)], strict=True):
        if stop - start == 1:
            kept.append(start)
            continue
        rows = table.slice(start, stop - start).to_pylist()
        contents = [(row["sentence_1"], row["sentence_2"] or "", tuple(row["hard_negatives"])) for row in rows]
        by_content = sorted(range(len(rows)), key=contents.__getitem__)
        first_only = [i for n, i in enumerate(by_content) if not n or contents[i] != contents[by_content[n - 1]]]
        kept += [start + i for i in (first_only if distinct else by_content)]
    return table.take(pa.array(kept, pa.int64()))


def smallest(table: pa.Table, count: int, *, distinct: bool) -> pa.Table:
    """Return the `count` rows of least key: a random sample, which does not depend on how the rows were come by."""
    return ordered(table, distinct=distinct).slice(0, count)


def nli_table(rows: Sequence[Nli]) -> pa.Table:
    """Return labelled NLI rows as a table of NLI_ROWS; those without a label are left out."""
    labelled = [row for row in rows if row.label is not None]
    return pa.table([list(column) for column in zip(*labelled, strict=True)] or [[], [], []], schema=NLI_ROWS)


def premise_hashes(table: pa.Table) -> UInts:
    """Return a hash of each row's premise."""
    return mix(hash_strings(table["premise"].to_pylist())) if table.num_rows else np.empty(0, dtype=np.uint64)


def triples(table: pa.Table, seed: int) -> tuple[list[Example], int]:
    """Make (premise, entailment, contradiction) of NLI rows, as supervised SimCSE is trained on.

    Each distinct entailment of a premise gives one example. The premise's contradictions are dealt out to them in
    turn, in an order that the seed decides. A hypothesis that bears both labels is left out.

    Args:
        table: NLI_ROWS; all rows of a premise are there.
        seed: decides which entailment meets which contradiction.

    Returns:
        The examples, and how many premises have none, since an entailment or a contradiction is lacking.
    """
    found: dict[str, dict[str, set[str]]] = {}
    for premise, hypothesis, label in zip(*(column.to_pylist() for column in table.columns), strict=True):
        found.setdefault(premise, {}).setdefault(label, set()).add(hypothesis)
    examples: list[Example] = []
    lacking = 0
    for premise in sorted(found):
        entailed, contradicted = (found[premise].get(label, set()) for label in ("entailment", "contradiction"))
        both = entailed & contradicted
        positives, negatives = _shuffled(entailed - both, seed), _shuffled(contradicted - both, seed)
        if not positives or not negatives:
            lacking += 1
        elif negatives:
            examples += _dealt(premise, positives, negatives)
    return examples, lacking


def _dealt(premise: str, positives: list[str], negatives: list[str]) -> Iterator[Example]:
    for i, positive in enumerate(positives):
        yield Example(premise, positive, (negatives[i % len(negatives)],))


def _shuffled(texts: Iterable[str], seed: int) -> list[str]:
    known = sorted(texts)
    if not known:
        return []
    return [known[i] for i in np.argsort(mix(seed, hash_strings(known)), kind="stable")]
