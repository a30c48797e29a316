"""From a `names` artifact to an `embeddings` artifact, part by part; every function here is one task's work.

Files of an `embeddings` artifact, which needs no other beside it::

    names/part-00000.parquet       the (concept, name) rows, sorted by name_id, concept_id, name, …
    strings/part-00000.parquet     their distinct normalised strings, sorted by name_id
    embeddings/part-00000.parquet  one vector per string, in the same order

A part is a range of name_ids: with 2^b parts, part p holds the ids whose first b bits (of 63) are p.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from biomodels import schemas, shuffle, storage
from biomodels.artifacts import Artifact, ArtifactBuilder, FileEntry
from biomodels.errors import ArtifactError, InputError
from biomodels.inference.text_encoder import TextEncoder
from biomodels.terminology.normalise import Normaliser, name_id

KIND = "embeddings"
MOST_BITS = 16
SPILL_ROWS = 1 << 17
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


def name_files(names: Artifact) -> list[FileEntry]:
    """Return the Parquet files of (concept, name) rows in a `names` artifact."""
    return [entry for entry in names.files() if entry.path.endswith(".parquet") and "rejects" not in entry.path]


def normaliser_of(names: Artifact) -> Normaliser:
    """Return the normaliser that a `names` artifact records in its facts or its config.

    Raises:
        ArtifactError: it records none, or one that we do not have.
    """
    recorded = names.facts.get("normaliser", names.manifest.config.get("normaliser"))
    try:
        return Normaliser.from_name(str(recorded))
    except ValueError as error:
        raise ArtifactError(f"{names.uri}: {error}; make the names again with `shard terminology`") from error


def spill_names(builder: ArtifactBuilder, names: Artifact, file: int, bits: int) -> list[str]:
    """Cut one file of names by part, into spill files in the work area; those that are there already are kept.

    Returns:
        The URIs of the spill files.
    """
    entry = name_files(names)[file]
    uris = []
    for number, table in enumerate(_tables(names, entry)):
        uri = builder.work("spill", f"{file:05d}-{number:05d}.arrow")
        uris.append(uri)
        if not storage.exists(uri):
            ids = table["name_id"].to_numpy().astype(np.uint64) << np.uint64(1)
            shuffle.spill(table, shuffle.bucket_of(ids, bits), bits, uri)
    return uris


def write_strings(
    builder: ArtifactBuilder, part: int, spills: Sequence[str], normaliser: Normaliser
) -> tuple[FileEntry, FileEntry]:
    """Publish a part's rows and its distinct strings.

    Raises:
        InputError: two strings have one name_id, or an id was not made with this normaliser.
    """
    table = shuffle.gather(spills, part, part + 1, schemas.NAMES)
    table = table.sort_by([(column, "ascending") for column in _ORDER])
    strings = distinct_strings(table, normaliser)
    return builder.publish_table(names_part(part), table), builder.publish_table(strings_part(part), strings)


def distinct_strings(table: pa.Table, normaliser: Normaliser) -> pa.Table:
    """Return the STRINGS rows of NAMES rows that are sorted by name_id.

    Raises:
        InputError: two strings have one name_id, or an id was not made with this normaliser.
    """
    ids: list[int] = []
    texts: list[str] = []
    for identity, name in zip(table["name_id"].to_pylist(), table["name"].to_pylist(), strict=True):
        text = normaliser(name)
        if not ids or ids[-1] != identity:
            ids.append(identity)
            texts.append(text)
        elif texts[-1] != text:
            raise InputError(f"name_id {identity}: two strings have it, {texts[-1]!r} and {text!r}; drop one of them")
    for identity, text in zip(ids, texts, strict=True):
        if name_id(text) != identity:
            raise InputError(
                f"name_id {identity}: is not the identity of {text!r} under normaliser {normaliser.name!r}; "
                "make the names again with `shard terminology`"
            )
    return pa.table({"name_id": ids, "text": texts}, schema=schemas.STRINGS)


def encode_part(builder: ArtifactBuilder, part: int, encoder: TextEncoder, float_type: str) -> FileEntry:
    """Encode a part's strings and publish the vectors, as the model gives them.

    Args:
        builder: the embeddings artifact; the part's strings are there.
        part: number of the part.
        encoder: the model.
        float_type: "float16" or "float32", how vectors are stored.

    Raises:
        InputError: a vector is not finite in that type.
    """
    files, path = storage.filesystem(storage.join(builder.uri, strings_part(part)))
    strings = pq.read_table(path, filesystem=files)
    texts: list[str] = strings["text"].to_pylist()
    with np.errstate(over="ignore"):
        E_ND = encoder.encode(texts).astype(float_type)
    finite = np.isfinite(E_ND).all(axis=1)
    if not finite.all():
        text = texts[int(np.argmin(finite))]
        raise InputError(
            f"the model's vector of {text!r} is not finite in {float_type}; try --storage float32 or check it"
        )
    table = pa.table(
        [strings["name_id"], fixed_size_list(E_ND)], schema=schemas.embeddings_schema(encoder.dimension, float_type)
    )
    return builder.publish_table(embeddings_part(part), table)


def fixed_size_list(E_ND: NDArray[Any]) -> pa.FixedSizeListArray:
    """Return vectors as an Arrow column."""
    return pa.FixedSizeListArray.from_arrays(pa.array(E_ND.reshape(-1)), E_ND.shape[1])


def vectors(column: pa.ChunkedArray, dimension: int) -> NDArray[np.float32]:
    """Return an embedding column as E_ND, float32."""
    flat = pc.list_flatten(column).to_numpy()
    return np.asarray(flat, dtype=np.float32).reshape(-1, dimension)


def _tables(names: Artifact, entry: FileEntry) -> Iterator[pa.Table]:
    files, path = storage.filesystem(names.file_uri(entry))
    with files.open_input_file(path) as handle:
        for batch in pq.ParquetFile(handle).iter_batches(batch_size=SPILL_ROWS, columns=schemas.NAMES.names):
            yield pa.Table.from_batches([batch]).cast(schemas.NAMES)
