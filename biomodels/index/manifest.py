"""The manifest of an index: checked once, when it is opened, so that readers meet no surprise later."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from biomodels.artifacts import Artifact
from biomodels.errors import ArtifactError
from biomodels.models.spec import EncoderSpec, Pooling
from biomodels.terminology.normalise import Normaliser

KIND = "index"
SCHEMA_VERSION = 1


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
        dimension, metric, factory, shards, concept_bits: how it was built.
        nprobe: lists that a search visits by default.
        normaliser: what names went through before they were encoded.
        strings, names, concepts: counts.
    """

    model_config = ConfigDict(frozen=True, strict=True)

    model_digest: str = Field(min_length=1)
    spec: _Spec
    dimension: int = Field(ge=1)
    metric: Literal["cosine", "ip"]
    factory: str = Field(min_length=1)
    nprobe: int = Field(ge=1)
    shards: int = Field(ge=1)
    concept_bits: int = Field(ge=0)
    normaliser: Annotated[str, AfterValidator(_known_normaliser)]
    strings: int = Field(ge=1)
    names: int = Field(ge=1)
    concepts: int = Field(ge=1)


def open_index(uri: str) -> tuple[Artifact, IndexFacts]:
    """Open an index's manifest and check what it records; no other file is read.

    Raises:
        ArtifactError: it is missing, unfinished, of another kind or schema, or a fact is missing or cannot be.
    """
    artifact = Artifact.open(uri, KIND)
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
    for field, folder, count in (
        ("shards", "shards/", facts.shards),
        ("shards", "names/", facts.shards),
        ("concept_bits", "concepts/", 1 << min(facts.concept_bits, 63)),
    ):
        if len(artifact.files(folder)) != count:
            raise ArtifactError(
                f"{place} is damaged: facts.{field} stands for {count} files of {folder}, "
                f"but it lists {len(artifact.files(folder))}; make the index again"
            )
    return artifact, facts
