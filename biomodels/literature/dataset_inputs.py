"""Reading what the cross-encoder's dataset is made of: labelled pairs, entries, gate candidates, texts."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from biomodels.artifacts import Artifact, batches, digest_bytes
from biomodels.errors import CompatibilityError, InputError
from biomodels.literature.articles import ENGLISH, article_text
from biomodels.literature.entries import Entry
from biomodels.literature.pair_files import GivenPair
from biomodels.literature.pairs import Pair, Resolved
from biomodels.literature.splits import Shared, check_apart
from biomodels.literature.training_set import Article, Panel
from biomodels.row_files import read_rows
from biomodels.terminology.hashing import mix
from biomodels.terminology.rejects import Reject, check_reject_rate

UNKNOWN_ENTRY = "unknown entry: the threads have no such G2P id (retired or merged)"
NO_TEXT = "no text: neither the articles nor the row itself have one"
DUPLICATE = "repeated: another row says the same of the same text"
CONFLICT = "conflict: rows give the same texts different labels"


class Texts(NamedTuple):
    """Fetched articles: PMID → article, and which of them may stand for the corpus (English, not retracted, with an
    abstract)."""

    articles: dict[int, Article]
    corpus: set[int]


class Gated(NamedTuple):
    """An article's gate candidates, and the digest of the text in which they were found."""

    g2p_ids: list[str]
    text_digest: str


@dataclass(frozen=True)
class Labelled:
    """The labelled pairs of all files.

    Attributes:
        pairs: those whose entry is known.
        panel: all entries.
        cited: PMIDs that the entries cite, which are no corpus negatives.
        given: rows read, malformed ones included.
        own_texts: PMID → the text that a row brought along.
        malformed: rows that cannot be read.
        unknown: pairs whose entry is not among the threads.
    """

    pairs: list[Pair]
    panel: Panel
    cited: set[int]
    given: int
    own_texts: dict[int, str]
    malformed: list[Reject]
    unknown: list[Pair]

    def with_own_texts(self, articles: Mapping[int, Article]) -> dict[int, Article]:
        """Return the articles, and for PMIDs that are not among them the texts that rows brought along."""
        own = {pmid: Article(text, _digest(text)) for pmid, text in self.own_texts.items() if pmid not in articles}
        return {**articles, **own}

    def rejects(self, articles: Collection[int], resolved: Resolved) -> list[Reject]:
        """Return every row that is not in the dataset, with the reason."""
        no_text = [pair for pair in self.pairs if pair.pmid not in articles]
        dropped = (
            (self.unknown, UNKNOWN_ENTRY),
            (no_text, NO_TEXT),
            (resolved.duplicates, DUPLICATE),
            (resolved.conflicts, CONFLICT),
        )
        return [*self.malformed, *(_reject(pair, reason) for pairs, reason in dropped for pair in pairs)]


def read_labelled(uris: Sequence[str], threads: Artifact, max_reject_rate: float) -> Labelled:
    """Read files of labelled pairs, and the entries.

    Raises:
        InputError: a file cannot be read, holds no usable row, or too many rows are malformed.
    """
    panel, cited = read_panel(threads)
    pairs: list[Pair] = []
    own: dict[int, str] = {}
    bad: list[Reject] = []
    unknown: list[Pair] = []
    given = 0
    for uri in uris:
        name, malformed, rows = os.path.basename(uri), [], 0
        for row in read_rows(uri, GivenPair):
            rows += 1
            if isinstance(row, Reject):
                malformed.append(row)
                continue
            line, found = row
            pair = Pair(found.pmid, found.g2p_id, found.label, found.provenance, found.split, name, line)
            (pairs if found.g2p_id in panel.threads else unknown).append(pair)
            if found.title or found.abstract:
                own.setdefault(found.pmid, article_text(found.title or "", found.abstract or ""))
        check_reject_rate(len(malformed), rows, max_reject_rate, malformed)
        given, bad = given + rows, bad + malformed
    if not pairs:
        raise InputError(f"{', '.join(uris)}: no row is usable: {len(unknown)} name entries that the threads lack")
    return Labelled(pairs, panel, cited, given, own, bad, unknown)


def read_panel(threads: Artifact) -> tuple[Panel, set[int]]:
    """Read the entries, and the PMIDs that they cite."""
    columns = ["g2p_id", "hgnc_id", "gene_symbol", "disease_name", "allelic_requirement", "text", "publications"]
    rows = [row for batch in batches(threads, columns, "part-") for row in batch.to_pylist()]
    entries = {
        row["g2p_id"]: Entry(
            row["g2p_id"],
            row["hgnc_id"] or row["gene_symbol"] or row["g2p_id"],
            row["disease_name"] or "",
            row["allelic_requirement"] or "",
        )
        for row in rows
    }
    cited = {int(pmid) for row in rows for pmid in row["publications"] or ()}
    return Panel({row["g2p_id"]: row["text"] for row in rows}, entries), cited


def choose_corpus(
    candidates: Artifact, sample: Collection[int] | None, barred: Collection[int], number: int, seed: int
) -> set[int]:
    """Choose abstracts of the gate's candidates, whether they pass or not: those with the least hashes of (seed, PMID).

    Args:
        candidates: the gate's output.
        sample: PMIDs to choose among; all if None.
        barred: PMIDs that must not be chosen.
        number: how many, at most.
        seed: decides the choice.

    Raises:
        InputError: none is left.
    """
    out = pa.array(sorted(barred), pa.int64())
    only = None if sample is None else pa.array(sorted(sample), pa.int64())
    chosen = np.empty(0, dtype=np.int64)
    for batch in batches(candidates, ["pmid"], "part-"):
        pmids = batch["pmid"].filter(pc.invert(pc.is_in(batch["pmid"], out)))
        if only is not None:
            pmids = pmids.filter(pc.is_in(pmids, only))
        chosen = np.concatenate([chosen, pmids.to_numpy(zero_copy_only=False)])
        if len(chosen) > number:
            chosen = chosen[np.lexsort((chosen, mix(chosen, seed)))[:number]]
    if not len(chosen):
        raise InputError(f"{candidates.uri}: no article is left for corpus negatives; check --sample and --exclude")
    return {int(pmid) for pmid in chosen}


def passing(candidates: Artifact, pmids: Collection[int]) -> dict[int, Gated]:
    """Return the gate's candidates of those of some articles that have any."""
    wanted = pa.array(sorted(pmids), pa.int64())
    found: dict[int, Gated] = {}
    for batch in batches(candidates, ["pmid", "g2p_ids", "text_digest"], "part-"):
        for row in batch.filter(pc.is_in(batch["pmid"], wanted)).to_pylist():
            if row["g2p_ids"]:
                found[row["pmid"]] = Gated(row["g2p_ids"], row["text_digest"])
    return found


def corpus_negatives_of(
    gated: Mapping[int, Gated], texts: Texts, barred_texts: Collection[str]
) -> dict[int, list[str]]:
    """Return the candidates of the articles that may stand for the corpus.

    Args:
        gated: articles with candidates.
        texts: fetched articles.
        barred_texts: digests of texts that must stay apart.

    Raises:
        CompatibilityError: the gate read another text of an article, or one that is not among the articles.
    """
    usable = {}
    for pmid, (g2p_ids, digest) in gated.items():
        article = texts.articles.get(pmid)
        if article is None or article.digest != digest:
            raise CompatibilityError(
                f"the candidates of PMID {pmid} were found in another text than the articles have; run the gate again"
            )
        if pmid in texts.corpus and digest not in barred_texts:
            usable[pmid] = g2p_ids
    return usable


def check_entries(ids: Iterable[Collection[str]], panel: Panel, what: str) -> None:
    """See that the threads have all entries of lists.

    Raises:
        CompatibilityError: naming one that they lack.
    """
    unknown = set().union(*ids) - panel.threads.keys()
    if unknown:
        raise CompatibilityError(f"{what}: name {min(unknown)}, which the threads lack; make both from one export")


def read_texts(rows: Iterable[pa.RecordBatch]) -> Texts:
    """Return the articles of fetched rows."""
    articles, corpus = {}, set()
    for batch in rows:
        for row in batch.to_pylist():
            articles[row["pmid"]] = Article(article_text(row["title"], row["abstract"]), row["text_digest"])
            english = row["languages"] is None or row["languages"] == ENGLISH
            if english and row["abstract"] and not row["retracted"]:
                corpus.add(row["pmid"])
    return Texts(articles, corpus)


def check_frozen(labelled: Labelled, texts: Texts, frozen: Collection[int]) -> set[str]:
    """See that no labelled pair has a PMID or text of a frozen benchmark; return the digests of the latter's texts.

    Raises:
        InputError: naming the first that has.
    """
    known = labelled.with_own_texts(texts.articles)
    rows = (Shared(known[pair.pmid].digest, pair.pmid) for pair in labelled.pairs if pair.pmid in known)
    digests = {texts.articles[pmid].digest for pmid in frozen if pmid in texts.articles}
    check_apart(rows, frozen, digests, "a frozen benchmark")
    return digests


def _digest(text: str) -> str:
    return digest_bytes(text.encode())


def _reject(pair: Pair, reason: str) -> Reject:
    return Reject(pair.file, pair.line, reason, f"{pair.pmid} {pair.g2p_id} {pair.label:g}")
