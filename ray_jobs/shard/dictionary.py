"""The dictionary file of a names dataset, `id||name` lines, which `evaluate linking` and other tools read."""

from __future__ import annotations

from collections.abc import Iterator

from biomodels import storage
from biomodels.artifacts import Artifact, ArtifactBuilder
from biomodels.terminology.normalise import Normaliser

FILE = "dictionary.txt"
SEPARATOR = "||"


def export_dictionary(names: Artifact, out: str) -> Artifact:
    """Write each concept's distinct normalised names, in the dataset's order, as an artifact of kind "dictionary".

    A line that would not split into the same id and name again, as where one of them holds `||`, is left out and
    counted in the facts.
    """
    builder = ArtifactBuilder.begin(out, "dictionary", config={}, inputs={"names": names.digest})
    if builder.finished is None:
        left_out = 0

        def write(local: str) -> int:
            nonlocal left_out
            written = 0
            with open(local, "w", encoding="utf-8", newline="\n") as sink:
                for concept_id, name in _distinct(names):
                    line = f"{concept_id}{SEPARATOR}{name}"
                    if line.split(SEPARATOR) != [concept_id, name]:
                        left_out += 1
                        continue
                    sink.write(f"{line}\n")
                    written += 1
            return written

        entry = builder.publish(FILE, write)
        builder.commit({"names": entry.rows, "left_out": left_out})
    return Artifact.open(out, "dictionary")


def path(dictionary: Artifact) -> str:
    """Return the URI of the text file."""
    return storage.join(dictionary.uri, FILE)


def _distinct(names: Artifact) -> Iterator[tuple[str, str]]:
    normaliser = Normaliser.from_name(names.facts["normaliser"])
    for entry in names.files("part-"):
        table = names.read_table(entry, ["concept_id", "name"])
        concept = None
        seen: set[str] = set()
        for concept_id, name in zip(*(column.to_pylist() for column in table.columns), strict=True):
            if concept_id != concept:
                concept, seen = concept_id, set()
            text = normaliser(name)
            if text not in seen:
                seen.add(text)
                yield concept_id, text
