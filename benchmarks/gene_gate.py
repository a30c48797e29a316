"""The gene gate: speed, pass rate on a PubMed file against truth in the gate, and recall on corpora with gold genes.

    python benchmarks/gene_gate.py --xml pubmed21n1298.xml.gz --threads G2P_DD.csv --genes hgnc.tsv \\
        --pairs labelled_pairs.jsonl --gold NLMgene_Train.PubTator,GNormPlus_Train.PubTator --plot gene_gate.png

`--pairs` has JSON lines with `title`, `abstract`, `g2p_id`, `label` and `label_source`. The filters learn from the
English abstracts of `--xml`, which also give the pass rate. Truth in the gate is the share of labelled positives whose
entry is among the candidates.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from biomodels.literature.articles import ENGLISH, Article, article_text
from biomodels.literature.g2p import read_g2p
from biomodels.literature.gate import ACRONYM, DEFINITION, FREQUENCY, Evidence, Gate, Judge, Settings, Statistics
from biomodels.literature.genes import read_genes
from biomodels.literature.lexicon import ALIAS, NAME, PREVIOUS, SYMBOL, Lexicon
from biomodels.literature.pubmed import read_pubmed
from biomodels.literature.pubtator import Document, read_documents

TIER_SETS = ((SYMBOL,), (SYMBOL, NAME), (SYMBOL, NAME, PREVIOUS), (SYMBOL, NAME, PREVIOUS, ALIAS))
FILTER_SETS = {
    "none (plain)": (),
    "definition": (DEFINITION,),
    "definition, acronym": (DEFINITION, ACRONYM),
    "definition, frequency": (DEFINITION, FREQUENCY),
    "all (default)": (DEFINITION, ACRONYM, FREQUENCY),
}
SHARES = (1e-4, 3e-4, 1e-3, 3e-3)
SHOWN = 25


class Setup:
    """The gate of a panel, and what it finds in the PubMed file."""

    def __init__(self, threads: str, tables: list[str], xml: str) -> None:
        entries = read_g2p(threads)
        genes = read_genes(tables)
        previous, diseases = defaultdict(list), defaultdict(list)
        for entry in entries:
            symbols = (entry.values["previous_gene_symbols"] or "").split(";")
            previous[entry.values["hgnc_id"]] += [text for item in symbols if (text := item.strip())]
            diseases[entry.values["hgnc_id"]].append(entry.values["disease_name"])
        names = [name for found in diseases.values() for name in found]
        self.lexicon = Lexicon.of(genes, previous, names)
        self.gate = Gate.of(self.lexicon, genes, diseases)
        self.gene_of = {entry.g2p_id: entry.values["hgnc_id"] for entry in entries}
        self.of_entrez = {genes[hgnc].entrez_id: hgnc for hgnc in previous if genes[hgnc].entrez_id}
        self.symbols = {hgnc: genes[hgnc].symbol for hgnc in previous}
        self.texts = [
            article_text(record.title, record.abstract)
            for record in read_pubmed(xml)
            if isinstance(record, Article) and record.languages == ENGLISH and record.sections
        ]
        self.gate.evidence("warm")
        start = time.process_time()
        self.evidence = [self.gate.evidence(text) for text in self.texts]
        self.seconds = time.process_time() - start
        self.learned: dict[tuple[int, str], Statistics] = {}
        for found in self.evidence:
            for item in found:
                self.learned.setdefault((item.string, item.gene), Statistics()).add(item)

    def accept(
        self, filters: tuple[str, ...], tiers: Iterable[str] = TIER_SETS[-1], share: float = 1e-3
    ) -> Callable[[list[Evidence]], list[Evidence]]:
        """Return the function that keeps what counts."""
        judge = Judge(self.lexicon, Settings(filters, share), self.learned, len(self.texts))
        doubt, chosen = cache(judge.doubt), set(tiers)
        strings = self.lexicon.strings

        def accepted(evidence: list[Evidence]) -> list[Evidence]:
            mine = [item for item in evidence if chosen & set(strings[item.string].genes[item.gene])]
            return judge.accepted(mine, doubt)

        return accepted


def speed(setup: Setup) -> None:
    """Print abstracts per second, and where the time goes."""
    count = len(setup.texts)
    print(f"{count:,} English abstracts: {count / setup.seconds:,.0f} abstracts/s/core\n")
    profile = cProfile.Profile()
    profile.enable()
    for text in setup.texts[:3000]:
        setup.gate.evidence(text)
    profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(12)


def curve(setup: Setup, pairs: str, plot: str | None) -> None:
    """Print and plot pass rate against truth in the gate."""
    rows = [json.loads(line) for line in Path(pairs).read_text().splitlines()]
    positives = [row for row in rows if row["label"] == 1]
    found = [setup.gate.evidence(article_text(row["title"], row["abstract"])) for row in positives]
    sources = sorted({row["label_source"] for row in positives})
    sizes = Counter(row["label_source"] for row in positives)
    print(
        f"| tiers | filters | share | pass rate | all {len(positives)} | "
        + " | ".join(f"{source} {sizes[source]}" for source in sources)
        + " |"
    )
    print("|---" * (5 + len(sources)) + "|")
    points = defaultdict(list)
    for tiers in TIER_SETS:
        for name, filters in FILTER_SETS.items():
            for share in SHARES if FREQUENCY in filters and tiers == TIER_SETS[-1] else (1e-3,):
                accepted = setup.accept(filters, tiers, share)
                passing = sum(bool(accepted(evidence)) for evidence in setup.evidence) / len(setup.texts)
                hits = Counter(
                    row["label_source"]
                    for row, evidence in zip(positives, found, strict=True)
                    if setup.gene_of[row["g2p_id"]] in {item.gene for item in accepted(evidence)}
                )
                points[name].append((passing, hits.total() / len(positives), tiers, share))
                print(
                    f"| {', '.join(tiers)} | {name} | {share if FREQUENCY in filters else ''} | {passing:.2%} | "
                    f"{hits.total()} ({hits.total() / len(positives):.1%}) | "
                    + " | ".join(f"{hits[source]} ({hits[source] / sizes[source]:.1%})" for source in sources)
                    + " |"
                )
    if plot:
        draw(points, plot)


def draw(points: dict[str, list], plot: str) -> None:
    """Draw the curve."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), dpi=120)
    for (name, found), marker in zip(points.items(), "os^vD", strict=True):
        ordered = sorted(found)
        axes.plot(
            [100 * point[0] for point in ordered],
            [100 * point[1] for point in ordered],
            marker=marker,
            markersize=5,
            linewidth=1,
            label=name,
        )
    axes.set_xlabel("pass rate on English abstracts of an update file (%)")
    axes.set_ylabel("truth in the gate, labelled positives (%)")
    axes.grid(alpha=0.3)
    axes.legend(title="filters (points: tiers, shares)", fontsize=8, title_fontsize=8)
    figure.tight_layout()
    Path(plot).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(plot, metadata={"Software": None})


def gold(setup: Setup, path: str) -> None:
    """Print recall and false hits by tier on a PubTator file with NCBI gene ids."""
    documents = [found for found in read_documents(path) if isinstance(found, Document)]
    truth = {
        (document.pmid, setup.of_entrez[number])
        for document in documents
        for mention in document.annotations
        if mention.kind == "Gene"
        for number in mention.identifiers
        if number in setup.of_entrez
    }
    print(f"\n{Path(path).name}: {len(documents)} documents, {len(truth)} (document, gene of the panel) pairs\n")
    print("| filters | tier | found | recall | false | precision |\n|---|---|---|---|---|---|")
    evidence = {document.pmid: setup.gate.evidence(document.text) for document in documents}
    for name in ("none (plain)", "all (default)"):
        accepted = setup.accept(FILTER_SETS[name])
        pairs, false = defaultdict(set), Counter()
        for pmid, found in evidence.items():
            for item in accepted(found):
                known = setup.lexicon.strings[item.string]
                for tier in (*known.genes[item.gene], "any"):
                    pairs[tier].add((pmid, item.gene))
                if (pmid, item.gene) not in truth:
                    false[f"{known.text} ({setup.symbols[item.gene]})"] += 1
        for tier in (SYMBOL, NAME, ALIAS, PREVIOUS, "any"):
            right = len(pairs[tier] & truth)
            share = right / max(1, len(pairs[tier]))
            print(
                f"| {name} | {tier} | {right} | {right / len(truth):.1%} | {len(pairs[tier]) - right} | {share:.1%} |"
            )
        worst = ", ".join(f"{text} {count}" for text, count in false.most_common(SHOWN))
        print(f"\nmost false hits, {name}: {worst}\n")


def strings(setup: Setup) -> None:
    """Print the strings that pass most abstracts, without and with the filters."""
    for name in ("none (plain)", "all (default)"):
        accepted = setup.accept(FILTER_SETS[name])
        counts = Counter((item.string, item.gene) for evidence in setup.evidence for item in accepted(evidence))
        shown = (
            f"{setup.lexicon.strings[string].text} ({setup.symbols[gene]}) {count}"
            for (string, gene), count in counts.most_common(SHOWN)
        )
        print(f"\nmost abstracts, {name}: {', '.join(shown)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--xml", "--threads", "--genes", "--pairs"):
        parser.add_argument(name, required=True)
    parser.add_argument("--gold", default="")
    parser.add_argument("--plot")
    arguments = parser.parse_args()
    setup = Setup(arguments.threads, arguments.genes.split(","), arguments.xml)
    speed(setup)
    curve(setup, arguments.pairs, arguments.plot)
    strings(setup)
    for path in filter(None, arguments.gold.split(",")):
        gold(setup, path)


if __name__ == "__main__":
    main()
