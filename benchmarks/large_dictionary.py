"""Make a large dictionary out of a small one by seeded variation of its names: input for measurements at scale.

Writes the TSV that `shard terminology --tsv` reads. The names of the MRCONSO file come first, under their own concepts;
then variations of them (a qualifier, another order of words, a typing error), each with its synonyms under a new
concept, until there are `--count` distinct names. With `--changed 0.01`, one name in a hundred is another: a new
version of the same dictionary.

    python benchmarks/large_dictionary.py --mrconso MRCONSO.RRF.gz --count 2000000 --out names.tsv
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm

from biomodels.terminology.mrconso import MrconsoFormat
from biomodels.terminology.records import read

QUALIFIERS = (
    *("acute", "chronic", "recurrent", "congenital", "acquired", "severe", "mild", "bilateral", "left", "right"),
    *("idiopathic", "secondary", "primary", "familial", "juvenile", "atypical", "suspected", "early", "late", "other"),
)
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def vary(name: str, draw: random.Random) -> str:
    """Return a variation of a name."""
    words = name.split()
    kind = draw.random()
    if kind < 0.6 or len(words) < 3:
        return f"{draw.choice(QUALIFIERS)} {name}" if draw.random() < 0.7 else f"{name}, type {draw.randint(1, 99)}"
    if kind < 0.8:
        cut = draw.randint(1, len(words) - 1)
        return " ".join(words[cut:] + words[:cut])
    place = draw.randrange(len(name))
    return name[:place] + draw.choice(LETTERS) + name[place + 1 :]


def dictionary(mrconso: str, count: int, seed: int) -> Iterator[tuple[str, str, str]]:
    """Yield (concept id, name, language) until there are `count` distinct names."""
    rows = [
        row
        for parsed in read(mrconso, MrconsoFormat())
        for row in zip(*(parsed.records[key].to_pylist() for key in ("concept_id", "name", "language")), strict=True)
    ]
    seen: set[str] = set()
    generation = 0
    while True:
        for concept, name, language in rows:
            draw = random.Random(f"{seed}/{generation}/{concept}/{name}")
            made = vary(name, draw) if generation else name
            if made.lower() not in seen:
                seen.add(made.lower())
                yield (f"{concept}-{generation}" if generation else concept), made, language
                if len(seen) == count:
                    return
        generation += 1


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mrconso", required=True, help="MRCONSO.RRF, plain or gzip")
    parser.add_argument("--count", type=int, default=2_000_000, help="distinct names (default: %(default)s)")
    parser.add_argument("--changed", type=float, default=0.0, help="share of the names to replace (default: none)")
    parser.add_argument("--seed", type=int, default=13, help="of all choices (default: %(default)s)")
    parser.add_argument("--out", required=True, type=Path, help="TSV file")
    given = parser.parse_args()
    with given.out.open("w", encoding="utf-8") as file:
        file.write("concept_id\tname\tlanguage\n")
        names = dictionary(given.mrconso, given.count, given.seed)
        for concept, name, language in tqdm(names, total=given.count, unit="names"):
            draw = random.Random(f"changed/{given.seed}/{name}")
            shown = f"{name} (revised)" if draw.random() < given.changed else name
            file.write(f"{concept}\t{shown}\t{language}\n")


if __name__ == "__main__":
    main()
