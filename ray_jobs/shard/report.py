"""What `shard terminology` tells at its end, made of the facts in the manifests, and its text exports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO, Any

from biomodels import storage
from biomodels.artifacts import Artifact

REASONS = {
    "suppressed": "suppressed (SUPPRESS E, Y)",
    "obsolete": "obsolete (SUPPRESS O, is_obsolete)",
    "language": "of other languages",
    "source": "of other sources",
    "term_type": "of other term types",
    "too_short": "too short",
    "too_long": "too long",
    "duplicate": "repeated",
    "held_out": "held out",
}
"""Filters in the order in which they are applied; a row counts for the first that meets it."""


def report(names: Artifact, pairs: Artifact, held_out: Artifact | None) -> str:
    """Return the counts as a table for people."""
    lines = [*_of_names(names.facts), *_of_pairs(pairs.facts, pairs.manifest.config["max_pairs"])]
    if held_out is not None:
        lines.append((f"{held_out.uri}/queries.txt", "held-out synonyms", held_out.facts["queries"]))
    width = max(len(f"{count:,}") for _, _, count in lines)
    return "\n".join(f"{group:9} {count:>{width},}  {what}" for group, what, count in lines)


def export(what: str, uri: str, write: Callable[[IO[bytes]], tuple[int, int]]) -> None:
    """Write a text file, which appears whole, and say how long it is."""
    with storage.writing(uri) as local, open(local, "wb") as sink:
        written, left_out = write(sink)
    print(f"{what}: {written:,} lines in {uri}; left out, since || or line ends stand in them: {left_out:,}")


def _of_names(facts: dict[str, Any]) -> Iterator[tuple[str, str, int]]:
    for role, rows in facts["rows"].items():
        yield "rows", f"read from --{role}", rows
    yield "", "malformed", facts["rejects"]
    for reason, count in facts["removed"].items():
        if count:
            yield "", f"removed: {REASONS[reason]}", count
    yield "names", f"of {facts['concepts']:,} concepts in {len(facts['languages'])} languages", facts["names"]
    yield "", f"distinct (concept, name) as {facts['normaliser']}", facts["entries"]
    homonyms = facts["homonyms"]
    shared = ", ".join(f"{count:,} by {size}" for size, count in homonyms["by_concepts"].items() if count)
    yield "", f"names of several concepts{f' ({shared})' if shared else ''}", homonyms["strings"]
    for found in homonyms["most"][:3]:
        yield "", f"concepts share {found['name']!r}", found["concepts"]


def _of_pairs(facts: dict[str, Any], max_pairs: int) -> Iterator[tuple[str, str, int]]:
    borrowed = facts.get("tradenames")
    if borrowed:
        yield "trade", "relations of trade names", borrowed["relations"]
        yield "", "of these to a concept that has names", borrowed["followed"]
        yield "", "distinct (concept, name) with those borrowed", facts["strings"]
    yield "pairs", f"of {facts['concepts']:,} concepts", facts["pairs"]
    yield "", "concepts of one name, without a pair of two", facts["single"]
    if max_pairs:
        yield "", f"concepts with more than {max_pairs} combinations", facts["capped"]
        yield "", "combinations that the cap left out", facts["combinations"] + facts["equal"] - facts["pairs"]
    if facts["equal"]:
        yield "", "pairs of a name with itself", facts["equal"]
