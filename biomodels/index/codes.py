"""Take vectors from FAISS files as the codes they are: nothing is encoded again, so that no answer changes.

Vectors are put in the order of name_id inside each list, as a build puts them: whatever an index went through, equal
content gives equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from biomodels.index.engine import load_faiss, read_index
from biomodels.index.factory import codes_of, ivf_of
from biomodels.index.shards import Ids, Scores


class Source(NamedTuple):
    """A FAISS file, and the name_ids in it that are no more, sorted."""

    path: Path
    removed: Ids


class Codes(NamedTuple):
    """Ids, codes as uint8 rows, and the inverted list that they lie in (0 where there are none)."""

    ids: Ids
    codes: NDArray[np.uint8]
    number: int


def stored(index: Any) -> Iterator[Codes]:
    """Yield what an index holds, list by list; the arrays are views of its memory."""
    faiss = load_faiss()
    ivf = ivf_of(index)
    if ivf is None:
        flat = codes_of(index)
        ids = np.asarray(faiss.vector_to_array(index.id_map))
        codes = faiss.rev_swig_ptr(flat.codes.data(), len(ids) * flat.code_size) if len(ids) else b""
        yield Codes(ids, np.frombuffer(codes, dtype=np.uint8).reshape(len(ids), flat.code_size), 0)
        return
    lists = ivf.invlists
    for number in range(ivf.nlist):
        size = lists.list_size(number)
        if size:
            codes = faiss.rev_swig_ptr(lists.get_codes(number), size * lists.code_size)
            yield Codes(faiss.rev_swig_ptr(lists.get_ids(number), size), codes.reshape(size, -1), number)


def collect(template: Path, sources: Sequence[Source], first: int, last: int) -> Any:
    """Return an index with the vectors of several, those whose name_id lies between two, both included.

    Args:
        template: the trained index without vectors that all of them started from.
        sources: where the vectors are; a name_id lies in one of them only.
        first, last: bounds of name_id.
    """
    faiss = load_faiss()
    target = read_index(template, mapped=False)
    ivf = ivf_of(target)
    opened = [(read_index(source.path), source.removed) for source in sources]
    found: dict[int, list[tuple[Ids, NDArray[np.uint8]]]] = {}
    for index, removed in opened:
        for ids, codes, number in stored(index):
            kept = (ids >= first) & (ids <= last)
            if len(removed):
                kept &= ~np.isin(ids, removed)
            if kept.any():
                found.setdefault(number, []).append((ids[kept], codes[kept]))
    total = 0
    for number in sorted(found):
        ids = np.concatenate([piece[0] for piece in found[number]])
        codes = np.concatenate([piece[1] for piece in found.pop(number)])
        order = np.argsort(ids, kind="stable")
        ids, codes = np.ascontiguousarray(ids[order]), np.ascontiguousarray(codes[order])
        total += len(ids)
        if ivf is None:
            target.add_sa_codes(codes, ids)
        else:
            ivf.invlists.add_entries(number, len(ids), faiss.swig_ptr(ids), faiss.swig_ptr(codes))
    if ivf is not None:
        ivf.ntotal = total
        target.ntotal = total
    return target


def decoded(index: Any, rows: Codes) -> Scores:
    """Return the vectors that codes stand for, in the space of the queries."""
    codes = rows.codes
    ivf = ivf_of(index)
    if ivf is None:
        return np.asarray(codes_of(index).sa_decode(np.ascontiguousarray(codes)))
    width = ivf.coarse_code_size()
    number = np.frombuffer(int(rows.number).to_bytes(8, "little"), dtype=np.uint8)[:width]
    prefixed = np.concatenate([np.broadcast_to(number, (len(codes), width)), codes], axis=1)
    return np.asarray(load_faiss().downcast_index(index).sa_decode(np.ascontiguousarray(prefixed)))
