"""From a `names` artifact to an `embeddings` artifact, part by part; every function here is one task's work.

Files of an `embeddings` artifact, which needs no other beside it::

    names/part-00000.parquet       the (concept, name) rows, sorted by name_id, concept_id, name, …
    strings/part-00000.parquet     their distinct normalised strings, sorted by name_id
    embeddings/part-00000.parquet  one vector per string, in the same order

A part is a range of name_ids: with 2^b parts, part p holds the ids whose first b bits (of 63) are p.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from biomodels import schemas, shuffle, storage
from biomodels.artifacts import Artifact, ArtifactBuilder, FileEntry
from biomodels.errors import InputError
from biomodels.inference.text_encoder import TextEncoder
from biomodels.terminology.hashing import hash_strings
from biomodels.terminology.normalise import Normaliser

KIND = "embeddings"
MOST_BITS = 16
_ORDER = ("name_id", "concept_id", "name", "language", "source", "term_type", "preferred")


def names_part(part: int) -> str:
    """Return the path of a part's (concept, name) rows."""
    return f"names/part-{part:05d}.parquet"


def strings_part(part: int) -> str:
    """Return the path of a part's distinct strings."""
    return f"strings/part-{part:05d}.parquet"


def embeddings_part(part: int) -> str:
    """Return the path of a part's vectors."""
    return f"embeddings/part-{part:05d}.parquet"


def spill_names(builder: ArtifactBuilder, tables: Iterable[pa.Table], file: int, bits: int) -> list[str]:
    """Cut the rows of one file of names by part, into spill files in the work area; those that are there are kept.

    Args:
        builder: the embeddings artifact.
        tables: the file's rows (schema NAMES), cut the same way each time.
        file: its number.
        bits: the binary logarithm of the number of parts.

    Returns:
        The URIs of the spill files.
    """
    uris = []
    for number, table in enumerate(tables):
        uri = builder.work("spill", f"{file:05d}-{number:05d}.arrow")
        uris.append(uri)
        if not storage.exists(uri):
            ids = table["name_id"].to_numpy().astype(np.uint64) << np.uint64(1)
            shuffle.spill(table, shuffle.bucket_of(ids, bits), bits, uri)
    return uris


def write_strings(
    builder: ArtifactBuilder, part: int, spills: Sequence[str], normaliser: Normaliser, *, once: bool = False
) -> tuple[FileEntry, FileEntry]:
    """Publish a part's rows and its distinct strings.

    Args:
        builder: the embeddings artifact.
        part: number of the part.
        spills: where the rows are, by part.
        normaliser: the one that the rows' ids were made with.
        once: keep one row of each string, for names that belong to no concept.

    Raises:
        InputError: two strings have one name_id, or an id was not made with this normaliser.
    """
    table = shuffle.gather(spills, part, part + 1, schemas.NAMES)
    table = table.sort_by([(column, "ascending") for column in _ORDER])
    strings = distinct_strings(table, normaliser)
    if once:
        ids = table["name_id"].to_numpy()
        table = table.take(pa.array(np.unique(ids, return_index=True)[1]))
    return builder.publish_table(names_part(part), table), builder.publish_table(strings_part(part), strings)


def distinct_strings(table: pa.Table, normaliser: Normaliser) -> pa.Table:
    """Return the STRINGS rows of NAMES rows that are sorted by name_id.

    Raises:
        InputError: two strings have one name_id, or an id was not made with this normaliser.
    """
    ids = table["name_id"].to_numpy()
    texts = normaliser.column(table["name"])
    fresh = np.r_[True, ids[1:] != ids[:-1]] if len(ids) else np.empty(0, dtype=bool)
    firsts = texts.take(pa.array(np.flatnonzero(fresh)))
    differing = pc.not_equal(texts, firsts.take(pa.array(np.cumsum(fresh) - 1)))
    if len(rows := np.flatnonzero(differing.to_numpy(zero_copy_only=False))):
        row = int(rows[0])
        one = firsts[int(np.cumsum(fresh)[row]) - 1].as_py()
        raise InputError(f"name_id {ids[row]}: two strings have it, {one!r} and {texts[row].as_py()!r}; drop one")
    ids = ids[fresh]
    if len(rows := np.flatnonzero(hash_strings(firsts.to_pylist()) != ids)):
        text = firsts[int(rows[0])].as_py()
        raise InputError(
            f"name_id {ids[rows[0]]}: is not the identity of {text!r} under normaliser {normaliser.name!r}; "
            "make the names again with `shard terminology`"
        )
    return pa.table([pa.array(ids), firsts], schema=schemas.STRINGS)


class EncodedPart(NamedTuple):
    """A part whose vectors are published, and how many of them were taken from elsewhere."""

    entry: FileEntry
    reused: int


def encode_parts(
    builder: ArtifactBuilder,
    numbers: Sequence[int],
    encoder: Callable[[], TextEncoder],
    float_type: str,
    reuse: Artifact | None = None,
) -> list[EncodedPart]:
    """Encode the strings of some parts together and publish the vectors, as the model gives them.

    Args:
        builder: the embeddings artifact; the parts' strings are there.
        numbers: of the parts.
        encoder: gives the model; with `reuse`, called only if there is a string to encode.
        float_type: "float16" or "float32", how vectors are stored.
        reuse: an artifact of the same model, precision and `float_type`: its vectors are taken, not made again.

    Raises:
        InputError: a vector is not finite in that type.
    """
    tables = [_read_strings(builder, part) for part in numbers]
    ids = np.concatenate([table["name_id"].to_numpy() for table in tables])
    dimension = encoder().dimension if reuse is None else int(reuse.facts["dimension"])
    E_ND = np.empty((len(ids), dimension), dtype=float_type)
    known = np.zeros(len(ids), dtype=bool)
    bounds = np.cumsum([0, *(table.num_rows for table in tables)]).tolist()
    spans = [slice(*span) for span in pairwise(bounds)]
    if reuse is not None:
        for span in spans:
            known[span] = _take_known(reuse, ids[span], E_ND[span])
    new = pa.array(~known)
    texts: list[str] = pa.chunked_array([table["text"].combine_chunks() for table in tables]).filter(new).to_pylist()
    if texts:
        with np.errstate(over="ignore"):
            vectors = encoder().encode(texts).astype(float_type)
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            text = texts[int(np.argmin(finite))]
            raise InputError(
                f"the model's vector of {text!r} is not finite in {float_type}; try --storage float32 or check it"
            )
        E_ND[~known] = vectors
    schema = schemas.embeddings_schema(dimension, float_type)
    done = []
    for part, span in zip(numbers, spans, strict=True):
        table = pa.table([pa.array(ids[span]), fixed_size_list(E_ND[span])], schema=schema)
        done.append(EncodedPart(builder.publish_table(embeddings_part(part), table), int(known[span].sum())))
    return done


def _read_strings(builder: ArtifactBuilder, part: int) -> pa.Table:
    files, path = storage.filesystem(storage.join(builder.uri, strings_part(part)))
    return pq.read_table(path, filesystem=files, use_threads=False)


def check_reusable(old: Artifact, wanted: dict[str, Any]) -> None:
    """Make sure that an artifact's vectors are those that would be made.

    Args:
        old: an `embeddings` artifact.
        wanted: the facts that must agree, such as the model's digest.

    Raises:
        InputError: naming what differs.
    """
    differing = [
        f"{key} {old.facts.get(key)!r}, not {value!r}" for key, value in wanted.items() if old.facts.get(key) != value
    ]
    if differing:
        raise InputError(f"{old.uri}: its vectors cannot be reused: it has {', '.join(differing)}; leave out --reuse")


def _take_known(old: Artifact, ids: NDArray[np.int64], E_ND: NDArray[Any]) -> NDArray[np.bool_]:
    """Fill in the vectors that another artifact has of these (sorted) name_ids; return which those are."""
    known = np.zeros(len(ids), dtype=bool)
    if not len(ids):
        return known
    shift = 63 - (int(old.facts["parts"]).bit_length() - 1)
    for part in range(int(ids[0]) >> shift, (int(ids[-1]) >> shift) + 1):
        table = old.read_table(old.entry(embeddings_part(part)))
        theirs = table["name_id"].to_numpy()
        if not len(theirs):
            continue
        place = np.minimum(np.searchsorted(theirs, ids), len(theirs) - 1)
        found = theirs[place] == ids
        E_ND[found] = _matrix(table["embedding"], E_ND.shape[1])[place[found]]
        known |= found
    return known


def fixed_size_list(E_ND: NDArray[Any]) -> pa.FixedSizeListArray:
    """Return vectors as an Arrow column."""
    return pa.FixedSizeListArray.from_arrays(pa.array(E_ND.reshape(-1)), E_ND.shape[1])


def vectors(column: pa.ChunkedArray, dimension: int) -> NDArray[np.float32]:
    """Return an embedding column as E_ND, float32."""
    return np.asarray(_matrix(column, dimension), dtype=np.float32)


def _matrix(column: pa.ChunkedArray, dimension: int) -> NDArray[Any]:
    """Return an embedding column as E_ND, in the type in which it is stored."""
    matrix: NDArray[Any] = pc.list_flatten(column).to_numpy().reshape(-1, dimension)
    return matrix
