"""Reading PubMed XML: this library beside `pubmed_parser`, one process each, and the text that the peer loses.

Both read the same file (gzip) to the end, one after the other, several times in turn. The peer runs in a virtual
environment of its own. A record counts as losing text where the peer's title or abstract, without white space and
section labels, is not what the XML's text content is.

    python benchmarks/pubmed_xml.py pubmed21n1298.xml.gz [--peer PYTHON] [--rounds 3]
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

PEER = "pubmed_parser==0.5.1"

PEER_PROGRAM = """
import json, sys, time
import pubmed_parser
start = time.process_time()
records = list(pubmed_parser.parse_medline_xml(sys.argv[1]))
seconds = time.process_time() - start
if len(sys.argv) > 2:
    with open(sys.argv[2], "w") as sink:
        for record in records:
            sink.write(json.dumps([record[name] for name in ("pmid", "title", "abstract", "delete")]) + "\\n")
print(json.dumps([len(records), seconds]))
"""


def ours(path: str) -> tuple[int, float]:
    """Return how many records there are, and the CPU seconds of making Arrow tables of them."""
    from biomodels.literature.articles import events_table, in_batches
    from biomodels.literature.pubmed import read_pubmed

    start, count = time.process_time(), 0
    for batch in in_batches(read_pubmed(path), 1000):
        count += events_table(batch, "x").num_rows
    return count, time.process_time() - start


def peer(python: str, path: str, *out: str) -> tuple[int, float]:
    """Do the same with the peer."""
    command = [python, "-c", PEER_PROGRAM, path, *out]
    count, seconds = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return count, seconds


def make_peer(folder: str) -> str:
    """Make the peer's virtual environment; return its Python."""
    venv.create(folder, with_pip=True)
    python = str(Path(folder, "bin", "python"))
    subprocess.run([python, "-m", "pip", "install", "--quiet", PEER], check=True)
    return python


def true_texts(path: str) -> dict[str, tuple[str, str]]:
    """Return title and abstract of each PMID's last record as the XML's own text, read as one tree."""
    from lxml import etree

    def text(element) -> str:
        return "" if element is None else etree.tostring(element, method="text", encoding="unicode", with_tail=False)

    found = {}
    with gzip.open(path) as stream:
        for citation in etree.parse(stream).iterfind("PubmedArticle/MedlineCitation"):
            parts = [text(part) for part in citation.iterfind("Article/Abstract/AbstractText")]
            found[citation.findtext("PMID")] = text(citation.find("Article/ArticleTitle")), " ".join(parts)
    return found


def compare(path: str, python: str) -> None:
    """Print what the peer loses, and that this library loses nothing."""
    from biomodels.literature.articles import Article
    from biomodels.literature.pubmed import read_pubmed

    def letters(text: str) -> str:
        return re.sub(r"\s+", "", text)

    truth = {pmid: tuple(map(letters, texts)) for pmid, texts in true_texts(path).items()}
    mine = {
        str(record.pmid): (letters(record.title), letters("".join(section.text for section in record.sections)))
        for record in read_pubmed(path)
        if isinstance(record, Article)
    }
    print(f"this library: {sum(mine[pmid] != texts for pmid, texts in truth.items())} of {len(truth)} PMIDs lose text")
    with tempfile.NamedTemporaryFile() as sink:
        peer(python, path, sink.name)
        rows = [json.loads(line) for line in Path(sink.name).read_text().splitlines()]
    theirs = {pmid: (letters(title), letters(abstract)) for pmid, title, abstract, _ in rows}
    print(f"{PEER}: {sum(bool(row[3]) for row in rows)} deletions")
    titles = [pmid for pmid, texts in truth.items() if theirs[pmid][0] != texts[0]]
    print(f"  titles that lose text: {len(titles)}: {', '.join(titles)}")
    losses = {pmid: 1 - len(theirs[pmid][1]) / len(texts[1]) for pmid, texts in truth.items() if texts[1]}
    shorter = sorted((loss, pmid) for pmid, loss in losses.items() if loss > 0)
    shown = ", ".join(f"{pmid} ({loss:.0%})" for loss, pmid in reversed(shorter))
    print(f"  abstracts shorter than the XML's text: {len(shorter)}: {shown}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--peer", help=f"Python of an environment with {PEER}; by default one is made")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        python = arguments.peer or make_peer(folder)
        speeds: dict[str, list[float]] = {"this library": [], PEER: []}
        for _ in range(arguments.rounds):
            for name, (count, seconds) in (
                ("this library", ours(arguments.file)),
                (PEER, peer(python, arguments.file)),
            ):
                speeds[name].append(count / seconds)
        for name, found in speeds.items():
            print(
                f"{name:22}{statistics.median(found):8,.0f} records/s/core (median of {len(found)}: "
                f"{', '.join(f'{speed:,.0f}' for speed in found)})"
            )
        ratio = statistics.median(speeds["this library"]) / statistics.median(speeds[PEER])
        print(f"{ratio:.2f} times the peer's speed\n")
        compare(arguments.file, python)


if __name__ == "__main__":
    sys.exit(main())
