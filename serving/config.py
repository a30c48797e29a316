"""Arguments of the application, and how the model of an index is found."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from biomodels import storage
from biomodels.errors import BiomodelsError, UsageError
from biomodels.sentences.poolers import Pooler

Layout = Literal["in-process", "per-shard"]


class Settings(BaseModel):
    """What the application is built from; the `args` of a Serve config file.

    A cluster's Serve file may also set replicas, autoscaling and resources for each deployment by name: `encoder`,
    `linker`, and in the layout per-shard `shard-0`, `shard-1`, ….
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: str = Field(default="", description="directory or URI of an index: serves the linker")
    model: str | None = Field(
        default=None, description="the model that made the index; by default the one that run.json beside it names"
    )
    layout: Layout = Field(
        default="in-process",
        description="in-process: every linker searches all shards; per-shard: one deployment for each shard",
    )
    replicas: int = Field(default=1, ge=1, description="replicas of the encoder, the linker and every shard")
    verify: bool = Field(
        default=True,
        description="read the index once at the start and compare it with its checksums, about a second per GB",
    )
    threads: int | None = Field(default=None, ge=1, description="cores of one encoder replica; by default all")
    max_batch: int = Field(default=64, ge=1, description="texts that the encoder takes at once")
    batch_wait_ms: float = Field(default=4.0, ge=0, description="how long the encoder waits for more texts")
    max_mentions: int = Field(default=256, ge=1, description="mentions in one request")
    max_characters: int = Field(default=1000, ge=1, description="characters in one mention")
    max_k: int = Field(default=1000, ge=1, description="concepts per mention that a request may ask for")
    max_body_bytes: int = Field(default=1 << 21, ge=1024, description="bytes in the body of one request")
    timeout_s: float = Field(default=60.0, gt=0, description="time for one request")
    sentence_model: str | None = Field(
        default=None, description="model directory or Hub name: serves the sentence search, with a page at /search"
    )
    pooler: Pooler | None = Field(default=None, description="of the sentence model, instead of the one it records")
    sentences: str | None = Field(
        default=None,
        description="what is searched at first: a file, one sentence a line, or a saved index of sentences",
    )
    max_sentences: int = Field(default=50_000, ge=1, description="sentences of a corpus that a person loads")

    @model_validator(mode="after")
    def _something_to_serve(self) -> Self:
        if not self.index and self.sentence_model is None:
            raise ValueError("--index is required, or --sentence-model for the sentence search")
        if self.sentence_model is None and (self.sentences or self.pooler):
            raise ValueError("--sentences and --pooler need --sentence-model")
        return self


class ServerSettings(Settings):
    """Options of `python -m serving`."""

    host: str = Field(default="127.0.0.1", description="address to listen on; 0.0.0.0 for all")
    port: int = Field(default=8000, ge=1, le=65535, description="port to listen on")


AnySettings = TypeVar("AnySettings", bound=Settings)


def resolved(settings: AnySettings) -> AnySettings:
    """Return settings whose paths hold in other processes and whose model is known and is the index's.

    Raises:
        BiomodelsError: the index is none, the model is missing, or it did not make the index.
    """
    from biomodels.index.manifest import open_index
    from biomodels.linking.linker import require_same_model

    settings = settings.model_copy(update=_sentence_paths(settings))
    if not settings.index:
        return settings
    artifact = open_index(settings.index)[0]
    facts = artifact.facts
    wanted = str(facts["model_digest"])
    model = _absolute(_model_beside(artifact.uri, facts) if settings.model is None else settings.model)
    require_same_model(wanted, _digest(model, facts))
    index = settings.index if "://" in settings.index else os.path.abspath(os.path.expanduser(settings.index))
    return settings.model_copy(update={"index": index, "model": model})


def _sentence_paths(settings: Settings) -> dict[str, str]:
    """Return the paths of the sentence search in a form that holds in other processes.

    Raises:
        BiomodelsError: the model or the sentences are not there.
    """
    from biomodels.models.spec import resolve_model

    found = {}
    if settings.sentence_model is not None:
        resolve_model(settings.sentence_model)
        found["sentence_model"] = _absolute(settings.sentence_model)
    if settings.sentences is not None:
        path = Path(settings.sentences).expanduser()
        if not path.exists():
            raise UsageError(f"--sentences {settings.sentences}: there is no such file or directory")
        found["sentences"] = str(path.resolve())
    return found


def _model_beside(index: str, facts: dict[str, Any]) -> str:
    """Return the model that the index's `run.json` remembers, if it is still there and the same."""
    wanted = facts["model_digest"]
    remedy = f"give --model, the model with digest {wanted}"
    path = storage.join(index, "run.json")
    record: dict[str, Any] = storage.read_json(path) if storage.exists(path) else {}
    model = record.get("model")
    if not isinstance(model, str):
        raise UsageError(f"{index}: does not record where its model is; {remedy}")
    try:
        found = _digest(model, facts)
    except BiomodelsError as error:
        raise UsageError(f"{index}: its model was at {model}, which cannot be used now ({error}); {remedy}") from error
    if found != wanted:
        raise UsageError(f"{index}: the model at {model} has changed since (its digest is {found}); {remedy}")
    return model


def _digest(model: str, facts: dict[str, Any]) -> str:
    from biomodels.linking.linker import encoder_options
    from biomodels.models.spec import model_digest, read_spec, resolve_model

    directory = resolve_model(model)
    return model_digest(directory, read_spec(directory, **encoder_options(facts)))


def _absolute(model: str) -> str:
    directory = Path(os.path.expanduser(model))
    return str(directory.resolve()) if model.strip() and directory.is_dir() else model
