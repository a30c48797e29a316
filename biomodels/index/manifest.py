"""The manifest of an index: checked once, when it is opened, so that readers meet no surprise later.

An index directory may hold several versions. A version is a manifest: `manifest.json` is the current one, and those
before it lie in `versions/`. No file of data is ever changed, so an old version stays readable beside the new one.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from biomodels import storage
from biomodels.artifacts import Artifact
from biomodels.errors import ArtifactError
from biomodels.models.spec import EncoderSpec, Pooling
from biomodels.terminology.normalise import Normaliser

KIND = "index"
SCHEMA_VERSION = 2


def _known_normaliser(name: str) -> str:
    Normaliser.from_name(name)
    return name


class _Spec(EncoderSpec):
    """The encoder of an index, of which nothing is left to a default but the prefix."""

    pooling: Pooling
    max_length: int = Field(ge=3)
    normalise: bool


class IndexFacts(BaseModel):
    """The facts of an index that its readers need; it may record more.

    Attributes:
        model_digest, spec: the model that made the vectors.
        dimension, metric, factory, lists, shards, concept_bits: how it was built.
        nprobe: lists that a search visits by default.
        normaliser: what names went through before they were encoded.
        strings, names, concepts: counts of what the current version answers from.
        languages, sources, semantic_types: the values that its names have, sorted.
        base: folder of the files that the version was built with, "" or one that ends in a slash.
        delta: folder of what an update lays over them, or None.
        origin: digest of the version that has the base alone, or None if it is this one.
    """

    model_config = ConfigDict(frozen=True, strict=True)

    model_digest: str = Field(min_length=1)
    spec: _Spec
    dimension: int = Field(ge=1)
    metric: Literal["cosine", "ip"]
    factory: str = Field(min_length=1)
    lists: int = Field(ge=1)
    nprobe: int = Field(ge=1)
    shards: int = Field(ge=1)
    concept_bits: int = Field(ge=0)
    normaliser: Annotated[str, AfterValidator(_known_normaliser)]
    strings: int = Field(ge=1)
    names: int = Field(ge=1)
    concepts: int = Field(ge=1)
    languages: list[str]
    sources: list[str]
    semantic_types: list[str]
    base: str
    delta: str | None
    origin: str | None


def bounds(shard: int, shards: int) -> tuple[int, int]:
    """Return the first and last possible name_id of one of so many shards: equal ranges of 63-bit numbers."""
    first, after = (-(-(edge << 63) // shards) for edge in (shard, shard + 1))
    return first, after - 1


def shard_file(folder: str, shard: int) -> str:
    """Return the path of a shard's vectors."""
    return f"{folder}shards/shard-{shard:03d}.faiss"


def names_file(folder: str, shard: int) -> str:
    """Return the path of a shard's names."""
    return f"{folder}names/shard-{shard:03d}.arrow"


def removed_file(folder: str, shard: int) -> str:
    """Return the path of the name_ids that an update took from a shard."""
    return f"{folder}removed/shard-{shard:03d}.arrow"


def concepts_file(folder: str, bucket: int) -> str:
    """Return the path of a bucket's concepts; an update has but one."""
    return f"{folder}concepts/bucket-{bucket:03d}.arrow"


def template_file(folder: str) -> str:
    """Return the path of the trained index without vectors."""
    return f"{folder}template.faiss"


def open_index(uri: str) -> tuple[Artifact, IndexFacts]:
    """Open an index's manifest and check what it records; no other file is read.

    Args:
        uri: the directory, for its current version, or `DIRECTORY@DIGEST` with the first digits of a version's digest.

    Raises:
        ArtifactError: it is missing, unfinished, of another kind or schema, or a fact is missing or cannot be.
    """
    artifact = _version(uri)
    place = f"{uri}: its manifest"
    version = artifact.manifest.schema_version
    if version != SCHEMA_VERSION:
        raise ArtifactError(
            f"{place} has schema_version {version}, where this version of biomodels reads {SCHEMA_VERSION}; "
            "make the index again, or read it with the version that made it"
        )
    try:
        facts = IndexFacts.model_validate(artifact.facts)
    except ValidationError as error:
        problem = error.errors()[0]
        field = ".".join(map(str, ("facts", *problem["loc"])))
        given = "" if problem["type"] == "missing" else f" (given: {problem['input']!r})"
        raise ArtifactError(f"{place} is damaged: {field}: {problem['msg']}{given}; make the index again") from error
    layers = [(facts.base, 1 << min(facts.concept_bits, 63))]
    if facts.delta is not None:
        layers.append((facts.delta, 1))
    for folder, buckets in layers:
        for field, kind, count in (
            ("shards", "shards/", facts.shards),
            ("shards", "names/", facts.shards),
            ("shards", "removed/", facts.shards if folder == facts.delta else 0),
            ("concept_bits", "concepts/", buckets),
        ):
            found = len(artifact.files(folder + kind))
            if found != count:
                raise ArtifactError(
                    f"{place} is damaged: facts.{field} stands for {count} files of {folder}{kind}, "
                    f"but it lists {found}; make the index again"
                )
    return artifact, facts


def _version(uri: str) -> Artifact:
    directory, at, wanted = uri.rpartition("@")
    if not at or not re.fullmatch(r"[0-9a-f]{4,32}", wanted) or storage.exists(uri):
        return Artifact.open(uri, KIND)
    found = [artifact for artifact in Artifact.versions(directory, KIND) if artifact.digest.startswith(wanted)]
    if len(found) != 1:
        problem = "has no such version" if not found else f"has {len(found)} versions that begin so"
        known = ", ".join(artifact.digest[:12] for artifact in Artifact.versions(directory, KIND))
        raise ArtifactError(f"{uri}: {problem}; its versions are {known}")
    return found[0]
