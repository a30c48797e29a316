"""Relations of trade names, and the names that concepts borrow by them."""

import random

import pyarrow as pa

from biomodels.terminology.blocks import Block
from biomodels.terminology.normalise import name_id
from biomodels.terminology.records import RELATIONS
from biomodels.terminology.tradenames import BORROWED, NAME_COLUMNS, MrrelFormat, borrow, chosen


def relation(head, rela, tail):
    return f"{head}|A1|AUI|RO|{tail}|A2|AUI|{rela}|R1||RXNORM|RXNORM|||N||"


LINES = [
    relation("C1", "has_tradename", "C2"),
    relation("C2", "tradename_of", "C1"),
    relation("C2", "isa", "C1"),
    relation("C2", "", "C1"),
    relation("C2", "tradename_of", "C3"),
    relation("C2", "tradename_of", "C9"),  # which has no names
    relation("", "tradename_of", "C9"),
    "C1|short|",
    relation("C8", "has_tradename", "C3"),
    relation("C2", "tradename_of", "C1"),
    relation("C2", "tradename_of", "C9"),
]


def names(*rows):
    columns = [(c, name_id(n), n, language, "S") for c, n, language in rows]
    return pa.table(list(map(list, zip(*columns, strict=True))), names=list(NAME_COLUMNS))


NAMES = names(("C1", "ibuprofen", "en"), ("C1", "ibuprofène", "fr"), ("C2", "advil", "en"), ("C3", "nurofen", "en"))


def test_only_relations_of_trade_names_are_taken():
    parsed = MrrelFormat().parse(Block(3, 101, "\n".join(LINES).encode()), "MRREL.RRF")
    assert parsed.relations.to_pylist() == [
        {"concept_id": tail, "head": head, "line": 101 + line}
        for line, head, tail in [
            *((0, "C1", "C2"), (1, "C2", "C1"), (4, "C2", "C3"), (5, "C2", "C9")),
            *((8, "C8", "C3"), (9, "C2", "C1"), (10, "C2", "C9")),
        ]
    ]
    assert [(item.line, item.reason) for item in sorted(parsed.rejects)] == [
        (107, "has an empty first concept id (CUI1)"),
        (108, "has 2 columns where 16 are needed"),
    ]
    assert parsed.rows == len(LINES) and parsed.passed_over == 2


def borrowed(mode, relations, parts=1):
    by_part = [borrow(NAMES.take(list(range(part, 4, parts))), relations) for part in range(parts)]
    rows = chosen(pa.concat_tables([BORROWED.empty_table(), *by_part]), mode).to_pylist()
    return sorted((row["concept_id"], row["name"], row["language"]) for row in rows)


def test_the_last_tail_with_names_counts_or_all():
    relations = MrrelFormat().parse(Block(0, 1, "\n".join(LINES).encode()), "MRREL.RRF").relations
    last = [("C1", "advil", "en"), ("C2", "ibuprofen", "en"), ("C2", "ibuprofène", "fr"), ("C8", "nurofen", "en")]
    everything = sorted([*last, ("C2", "nurofen", "en")])
    shuffled = relations.take(random.Random(5).sample(range(len(relations)), len(relations)))
    for table in (relations, shuffled):
        assert borrowed("last", table) == borrowed("last", table, parts=3) == last
        assert borrowed("all", table) == borrowed("all", table, parts=3) == everything
    assert borrow(NAMES, shuffled).equals(borrow(NAMES, relations))
    assert borrowed("last", RELATIONS.empty_table()) == []
