"""Cross-encoders as they would be deployed: top-k in universes, frozen truth against the corpus, and the threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from biomodels.errors import InputError
from biomodels.evaluation import universes
from biomodels.evaluation.benchmark import decade, deployed, proportions, strata_of
from biomodels.evaluation.cross_encoder import Bools, Evaluation, Pairs, Row, Strings
from biomodels.evaluation.operating_point import choose_threshold, gate_analysis
from biomodels.evaluation.pair_scores import Ints, PairScores, Scores
from biomodels.literature.entries import Entry, interchangeable, siblings


@dataclass(frozen=True)
class Truth:
    """Pairs that independent sources assert. `in_scope` is None if no source says."""

    pmids: Ints
    g2p_ids: Strings
    sources: Strings
    in_scope: Bools | None


@dataclass(frozen=True)
class Corpus:
    """A sample of the corpus at large, whether gated or not."""

    pmids: Ints
    years: Sequence[int | None]


@dataclass(frozen=True)
class Gate:
    """What a deployed model scores: PMID → candidates. None stands for whatever was scored."""

    candidates: Mapping[int, Sequence[str]] | None = None

    def best(self, scores: PairScores, pmids: Ints) -> Scores:
        """Return the best score among each article's candidates; NaN where it has none.

        Raises:
            InputError: a candidate has no score, or an article whose candidates are not known has no row.
        """
        if self.candidates is None:
            if (missing := np.flatnonzero(~scores.has(pmids))).size:
                raise InputError(f"PMID {pmids[missing[0]]} has no row among the scores; score the whole sample")
            return scores.best(pmids)
        mine = [self.candidates.get(pmid, ()) for pmid in pmids.tolist()]
        lengths = np.array([len(ids) for ids in mine], dtype=np.int64)
        flat = np.array([g2p_id for ids in mine for g2p_id in ids], dtype=np.str_)
        article = np.repeat(pmids, lengths)
        found = scores.lookup(article, flat)
        if (missing := np.flatnonzero(np.isnan(found))).size:
            where = f"candidate {flat[missing[0]]} of PMID {article[missing[0]]}"
            raise InputError(f"{where} has no score; score all candidates")
        best = np.full(len(pmids), np.nan, dtype=np.float32)
        if len(found):
            starts = np.cumsum(lengths) - lengths
            best[lengths > 0] = np.maximum.reduceat(found, starts[lengths > 0])
        return best

    def lookup(self, scores: PairScores, pmids: Ints, g2p_ids: Strings) -> Scores:
        """Return the scores of pairs; NaN where the entry is not among the article's candidates."""
        found = scores.lookup(pmids, g2p_ids)
        if self.candidates is None:
            return found
        pairs = zip(pmids.tolist(), g2p_ids.tolist(), strict=True)
        inside = np.array([g2p_id in self.candidates.get(pmid, ()) for pmid, g2p_id in pairs], dtype=bool)
        return np.where(inside, found, np.float32(np.nan))

    def gated(self, scores: PairScores, pmids: Ints) -> Bools:
        """Return which articles have a candidate."""
        if self.candidates is None:
            return ~np.isnan(scores.best(pmids))
        return np.array([bool(self.candidates.get(pmid)) for pmid in pmids.tolist()], dtype=bool)


def rank(report: Evaluation, test: Pairs, entries: Mapping[str, Entry] | None, gate: Gate) -> None:
    """Add top-k in every universe that is fully scored."""
    gold: dict[int, set[str]] = {}
    for pmid, g2p_id in zip(test.pmids[test.labels].tolist(), test.g2p_ids[test.labels].tolist(), strict=True):
        gold.setdefault(pmid, set()).add(g2p_id)
    if not gold:
        report.skipped.append("top-k: no test pair is positive")
        return
    rows: list[Row] = []
    for name, (members, universe) in _universes(test, gold, entries, gate).items():
        for model, seed, scores in report.runs():
            lacking = [pmid for pmid in members if not set(universe(pmid)) <= set(scores.of(pmid)[0].tolist())]
            if lacking:
                report.skipped.append(
                    f"top-k in the {name} for {model}, seed {seed}: {len(lacking)} of {len(members)} articles lack "
                    f"scores of entries that compete, first PMID {min(lacking)}"
                )
                continue
            found = universes.top_k(name, scores, members, universe, report.settings.ks)
            rows.append({"model": model, "seed": seed, **_flat(found)})
    report.add(
        "topk",
        "Top-k",
        "Share of articles with a true entry among the first k of a universe, equal scores by id. A true entry outside "
        "the universe is an error; interchangeable entries count as right where the name says so.",
        rows,
    )


def _universes(
    test: Pairs, gold: Mapping[int, set[str]], entries: Mapping[str, Entry] | None, gate: Gate
) -> dict[str, tuple[Mapping[int, set[str]], universes.Universe]]:
    """Return name → (true entries by article, who competes)."""
    pool = set(test.g2p_ids.tolist())
    found: dict[str, tuple[Mapping[int, set[str]], universes.Universe]] = {"pool": (gold, lambda pmid: pool)}
    candidates = gate.candidates
    if candidates is not None:
        found["gate"] = (gold, lambda pmid: candidates.get(pmid, ()))
    if entries is None:
        return found
    mates = siblings(entries.values())
    of_gene = {pmid: {mate for g2p_id in true for mate in mates.get(g2p_id, ())} for pmid, true in gold.items()}
    several = {pmid: true for pmid, true in gold.items() if len(of_gene[pmid]) > len(true)}
    found = {"panel": (gold, lambda pmid: entries.keys()), **found}
    if several:
        found["siblings"] = (several, lambda pmid: of_gene[pmid])
    alike = {pmid: true | _alike(true, of_gene[pmid], entries) for pmid, true in gold.items()}
    if candidates is not None and alike != gold:
        found["gate, interchangeable entries right"] = (alike, found["gate"][1])
    return found


def _alike(true: set[str], others: set[str], entries: Mapping[str, Entry]) -> set[str]:
    known = [entries[g2p_id] for g2p_id in true if g2p_id in entries]
    return {other for other in others if any(interchangeable(entry, entries[other]) for entry in known)}


def _flat(found: universes.TopK) -> Row:
    plain: Row = {key: value for key, value in found._asdict().items() if key not in ("acc", "recall")}
    return plain | {f"acc@{k}": v for k, v in found.acc.items()} | {f"recall@{k}": v for k, v in found.recall.items()}


def benchmark(report: Evaluation, truth: Truth | None, corpus: Corpus | None, gate: Gate) -> None:
    """Add the recall of frozen truth, the fire rate, and the choice of a threshold where both are given."""
    recall: list[Row] = []
    fires: list[Row] = []
    for model, seed, scores in report.runs():
        run: Row = {"model": model, "seed": seed}
        if truth is not None:
            strata = {"all": np.ones(len(truth.pmids), dtype=bool), "gated": gate.gated(scores, truth.pmids)}
            if truth.in_scope is not None:
                strata["in scope"] = truth.in_scope
            strata |= {f"source {name}": mine for name, mine in strata_of(truth.sources.tolist()).items()}
            found = gate.lookup(scores, truth.pmids, truth.g2p_ids)
            recall += [run | row._asdict() for row in proportions(found, strata, report.settings.thresholds)]
        if corpus is not None:
            best = gate.best(scores, corpus.pmids)
            strata = {"all": np.ones(len(best), dtype=bool), "gated": ~np.isnan(best)}
            strata |= strata_of([decade(year) for year in corpus.years])
            fires += [run | row._asdict() for row in proportions(best, strata, report.settings.thresholds)]
    report.add(
        "recall",
        "Recall of frozen truth",
        "Share of asserted pairs that pass, with Wilson's interval: of all, of those whose article has a candidate, of "
        "those in scope, and by source. A pair outside the gate is missed.",
        recall,
    )
    report.add(
        "fire_rate",
        "Fire rate",
        "Share of sampled abstracts in which a candidate passes, with Wilson's interval. “all” and the decades count "
        "abstracts without candidates, too.",
        fires,
    )
    if truth is not None and corpus is not None:
        report.add(
            "threshold",
            "Choice of a threshold",
            "The highest threshold whose F0.5 is within a seed's standard deviation of the best, before the recall "
            "lost per avoided fire departs from its slope between 0.5 and 0.9 (a ratio of 2).",
            [row for model in report.models for row in _operating_point(report, model, truth, corpus, gate)],
        )


def _operating_point(report: Evaluation, model: str, truth: Truth, corpus: Corpus, gate: Gate) -> list[Row]:
    """Choose a model's threshold, put it among the facts, and return the analysis."""
    in_scope = truth.in_scope if truth.in_scope is not None else np.zeros(len(truth.pmids), dtype=bool)
    rows = gate_analysis(
        [
            deployed(
                truth.pmids,
                gate.lookup(scores, truth.pmids, truth.g2p_ids),
                in_scope,
                gate.best(scores, corpus.pmids),
                report.settings.grid,
            )
            for scores in report.models[model]
        ]
    )
    choice = choose_threshold(rows)
    report.facts |= {
        f"threshold of {model}": choice.threshold,
        f"plateau of {model}": f"{min(choice.plateau)}–{max(choice.plateau)}",
        f"price departs at, of {model}": choice.departs_at,
    }
    return [
        {
            "model": model,
            "threshold": row.threshold,
            **row.means,
            **{f"{name}_sd": sd for name, sd in row.sds.items()},
            "marginal_recall_loss_per_avoided_fire": row.marginal_recall_loss_per_avoided_fire,
            "slope_ratio": row.slope_ratio,
            "chosen": row.threshold == choice.threshold,
        }
        for row in rows
    ]
