"""Files of articles: which format one has, whether it is what NLM published, and in which order files count."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence

from biomodels import storage
from biomodels.errors import InputError, UsageError
from biomodels.literature.articles import Parsed
from biomodels.terminology.blocks import head_lines

MD5_SUFFIX = ".md5"

_NLM_NAME = re.compile(r"pubmed(\d\d)n(\d{4,})\.xml(?:\.gz)?")
_MD5 = re.compile(r"\b[0-9a-fA-F]{32}\b")


def detect_format(uri: str) -> str:
    """Return "xml", "jsonl" or "pubtator", by the first line that is not blank.

    Raises:
        InputError: it is none of them, or the file cannot be read.
    """
    for line in head_lines(uri):
        start = line.lstrip()[:40]
        if not start:
            continue
        if start.startswith(b"<"):
            return "xml"
        if start.startswith(b"{"):
            return "jsonl"
        if re.match(rb"[^|\t]+\|[ta]\|", start):
            return "pubtator"
        raise InputError.at(uri, 1, "is neither PubMed XML nor JSON lines nor PubTator", "give one of those")
    raise InputError.at(uri, 1, "is empty", "give PubMed XML, JSON lines or PubTator")


def reader(form: str) -> Callable[[str], Iterator[Parsed]]:
    """Return the reader of a format."""
    from biomodels.literature.jsonl import read_jsonl
    from biomodels.literature.pubmed import read_pubmed
    from biomodels.literature.pubtator import read_pubtator

    return {"xml": read_pubmed, "jsonl": read_jsonl, "pubtator": read_pubtator}[form]


def check_md5(uri: str, *, needed: bool = False) -> bool:
    """Compare a file with the MD5 that lies beside it as `FILE.md5`.

    Args:
        uri: the file.
        needed: a missing `.md5` is an error.

    Returns:
        Whether there was one.

    Raises:
        InputError: it differs, holds no MD5, or is missing though needed.
    """
    beside = uri + MD5_SUFFIX
    if not storage.is_file(beside):
        if needed:
            raise InputError.at(beside, None, "is missing", "fetch it, or do without --require-md5")
        return False
    stated = _MD5.search(storage.read_bytes(beside).decode("utf-8", errors="replace"))
    if stated is None:
        raise InputError.at(beside, 1, "holds no MD5", "fetch it again")
    digest = hashlib.md5(usedforsecurity=False)
    for piece in storage.chunks(uri):
        digest.update(piece)
    if digest.hexdigest() != stated[0].lower():
        raise InputError.at(
            uri, None, f"has MD5 {digest.hexdigest()}, its .md5 says {stated[0].lower()}", "fetch both again"
        )
    return True


def in_order(uris: Sequence[str]) -> list[str]:
    """Return files in the order in which their records count: the later one wins.

    Files named as NLM names them (`pubmed26n1336.xml.gz`) come in the order of their numbers; they share the places
    that such files have among the given ones. All others stay where they are.

    Raises:
        UsageError: two files have one name.
    """
    names = [os.path.basename(uri) for uri in uris]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"{twice}: is given twice; files are told apart by their names, so rename or drop one")
    numbered = iter(sorted((uri for uri in uris if nlm_number(uri)), key=lambda uri: nlm_number(uri) or (0, 0)))
    return [next(numbered) if nlm_number(uri) else uri for uri in uris]


def nlm_number(uri: str) -> tuple[int, int] | None:
    """Return (year, number) of a file that is named as NLM names its files, else None."""
    found = _NLM_NAME.fullmatch(os.path.basename(uri))
    return (int(found[1]), int(found[2])) if found else None
