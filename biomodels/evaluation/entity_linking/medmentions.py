"""MedMentions: mentions of all UMLS concepts in PubMed abstracts.

Read as published (`corpus_pubtator.txt[.gz]` and the `corpus_pubtator_pmids_{trng,dev,test}.txt` lists) or in BioSyn's
format (`*.concept` or `*.txt` in the folder or in `processed_test`). The dictionary is UMLS, `CUI||name`.
"""

from __future__ import annotations

from collections.abc import Sequence

from biomodels import storage
from biomodels.errors import InputError
from biomodels.evaluation.entity_linking import pubtator
from biomodels.evaluation.entity_linking.benchmark import MEDMENTIONS_LOADER, Benchmark, Mention, Part, seen_mentions
from biomodels.evaluation.entity_linking.biosyn import read_concepts
from biomodels.evaluation.entity_linking.dictionary import one_of, read_dictionary
from biomodels.evaluation.entity_linking.options import ReadOptions
from biomodels.evaluation.entity_linking.text_files import Lines, require_folder

CORPUS = "corpus_pubtator.txt"
LISTS = {"train": "corpus_pubtator_pmids_trng.txt", "dev": "corpus_pubtator_pmids_dev.txt"}
TEST = "corpus_pubtator_pmids_test.txt"


def read(name: str, options: ReadOptions) -> Benchmark:
    """Read the test split."""
    files = require_folder(options.data, name)
    lines = options.lines()
    corpus = next((file for file in files if file.removesuffix(".gz") == CORPUS), None)
    if corpus:
        mentions, seen = _read_pubtator(lines, options, storage.join(options.data, corpus), files)
    else:
        mentions, seen = _read_processed(lines, options.data, files)
    uri = options.dictionary or one_of(options.data, files, r".*dictionary.*\.txt(\.gz)?", "dictionary of UMLS names")
    dictionary = read_dictionary(lines, uri)
    known = seen_mentions(seen)
    part = Part("test", mentions, dictionary, dictionary, MEDMENTIONS_LOADER, known)
    return Benchmark(name, [part], rejects=lines.rejects)


def _read_pubtator(
    lines: Lines, options: ReadOptions, corpus: str, files: Sequence[str]
) -> tuple[list[Mention], list[Mention]]:
    if TEST not in files:
        raise InputError(f"--data {options.data}: has no {TEST}, the list of the test set's PMIDs")
    split_of = {
        pmid: split
        for split, file in {**LISTS, "test": TEST}.items()
        if file in files
        for pmid in lines.parse(storage.join(options.data, file), str.strip)
    }
    found: dict[str, list[Mention]] = {"train": [], "dev": [], "test": []}
    for document in pubtator.documents(corpus, options.encoding or "utf-8"):
        split = split_of.get(document.pmid)
        if split:
            found[split] += [
                Mention(
                    f"{a.start}-{a.end}",
                    document.pmid,
                    a.mention,
                    (frozenset(a.ids),),
                    context=document.text,
                    start=a.start,
                    end=a.end,
                )
                for a in document.annotations
            ]
    return found["test"], found["train"] + found["dev"]


def _read_processed(lines: Lines, folder: str, files: Sequence[str]) -> tuple[list[Mention], list[Mention]]:
    def below(prefix: str) -> list[str]:
        named = [file for file in files if file.startswith(prefix) and "/" not in file.removeprefix(prefix)]
        concepts = [file for file in named if file.endswith((".concept", ".txt")) and "dictionary" not in file]
        return [storage.join(folder, file) for file in concepts]

    tests = below("processed_test/") or below("test/") or below("")
    if not tests:
        raise InputError(f"--data {folder}: has neither {CORPUS} nor *.concept files")
    seen = [uri for split in ("train", "dev") for uri in below(f"processed_{split}/") or below(f"{split}/")]
    # Without splitting, a bar in a mention is a bar.
    whole = [m._replace(gold=(m.ids,)) for m in read_concepts(lines, tests)]
    return whole, read_concepts(lines, seen) if seen else []
