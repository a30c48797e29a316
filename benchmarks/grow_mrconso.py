"""Make a MRCONSO.RRF of any size from a smaller one, by seeded variation: new concepts, new ids, new names.

Each copy of the source's rows gets concept, atom and string ids of its own and, from the second copy on, names that
end in a code made of the old name and the copy's number. So sizes of concepts, languages, sources and homonyms stay as
they are. One name in sixteen is left as it was, and so becomes a homonym of all copies, as acronyms do in large
terminologies.

    python benchmarks/grow_mrconso.py MRCONSO.RRF.gz big.RRF --rows 15000000
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import zlib
from collections.abc import Iterator

CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"
ID_COLUMNS = {0: 7, 3: 7, 5: 7, 7: 8}
"""Columns of CUI, LUI, SUI and AUI, with the digits of their numbers."""


def lines(source: str) -> Iterator[bytes]:
    """Yield the lines of a plain or gzip file."""
    with (gzip.open if source.endswith(".gz") else open)(source, "rb") as stream:
        yield from stream


def varied(name: bytes, copy: int, seed: int) -> bytes:
    """Return the name in a copy. Equal names stay equal, in whatever case."""
    key = zlib.crc32(name.lower(), zlib.crc32(b"%d/%d" % (seed, copy)))
    if zlib.crc32(name.lower(), seed) % 16 == 0:
        return name
    code = ""
    for _ in range(3):
        key, consonant = divmod(key, len(CONSONANTS))
        key, vowel = divmod(key, len(VOWELS))
        code += CONSONANTS[consonant] + VOWELS[vowel]
    return name + b" " + code.encode()


def grow(source: str, rows: int, seed: int) -> Iterator[bytes]:
    """Yield `rows` lines, copy after copy of the source."""
    highest = dict.fromkeys(ID_COLUMNS, 0)
    offsets = dict.fromkeys(ID_COLUMNS, 0)
    made = 0
    for copy in itertools.count():
        for line in lines(source):
            if made == rows:
                return
            fields = line.split(b"|")
            for column, digits in ID_COLUMNS.items():
                number = int(fields[column][1:])
                if copy == 0:
                    highest[column] = max(highest[column], number)
                fields[column] = fields[column][:1] + b"%0*d" % (digits, number + offsets[column])
            if copy:
                fields[14] = varied(fields[14], copy, seed)
            yield b"|".join(fields)
            made += 1
        offsets = {column: (copy + 1) * (highest[column] + 1) for column in ID_COLUMNS}


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="MRCONSO.RRF, plain or gzip")
    parser.add_argument("out", help="plain file to write")
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--seed", type=int, default=13)
    options = parser.parse_args()
    with open(options.out, "wb") as sink:
        for line in grow(options.source, options.rows, options.seed):
            sink.write(line)


if __name__ == "__main__":
    main()
