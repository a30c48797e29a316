"""Requests and answers of the HTTP interface; `/docs` shows them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class LinkRequest(BaseModel):
    """Mentions to link."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"example": {"mentions": ["heart attack", "short stature"], "k": 5}},
    )

    mentions: list[str] = Field(min_length=1, description="phrases as they stand in the text")
    k: int = Field(default=5, ge=1, description="concepts per mention")
    languages: list[str] | None = Field(default=None, min_length=1, description="only names in these, ISO 639 codes")
    sources: list[str] | None = Field(default=None, min_length=1, description="only names from these vocabularies")
    semantic_types: list[str] | None = Field(default=None, min_length=1, description="only concepts of these TUIs")


class Candidate(BaseModel):
    """One concept, and the name by which it was found."""

    rank: int
    concept_id: str
    preferred_name: str
    matched_name: str
    score: float = Field(description="similarity of the mention and the matched name, rounded to 1e-5")
    source: str
    language: str
    semantic_types: list[str]


class MentionAnswer(BaseModel):
    """The ranked concepts of one mention."""

    mention: str
    candidates: list[Candidate]


class LinkAnswer(BaseModel):
    """One answer per mention, in the order of the request."""

    results: list[MentionAnswer]
    index_digest: str
    model_digest: str


class Info(BaseModel):
    """What this service answers from."""

    model: dict[str, Any] = Field(description="digest, pooling, maximal length, normalisation, prefix, dimension")
    index: dict[str, Any] = Field(description="digest, sizes, factory, nprobe, shards, metric, normaliser")
    limits: dict[str, Any] = Field(description="what a request may ask for")
    layout: str
    search: bool = Field(default=False, description="whether sentences are searched too, at /search")
    versions: dict[str, str]


class Health(BaseModel):
    """Sent when the service can answer."""

    status: str


class Problem(BaseModel):
    """An error, as RFC 9457 defines it; sent as application/problem+json."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    instance: str = Field(description="path of the request")
