"""Sentence search: its HTTP interface, the page at `/search`, and the replica that does the work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fastapi import Depends, FastAPI
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from serving.config import Settings
from serving.corpora import DEFAULT
from serving.problems import PROBLEMS, page_headers, require_json

if TYPE_CHECKING:
    from ray.serve.handle import DeploymentHandle

    from serving.corpora import Corpora

PAGE = Path(__file__).with_name("search.html")
MAX_TOP_K = 1000


class Searcher(Protocol):
    """What answers: `Corpora`, in this process or another."""

    async def describe(self) -> dict[str, Any]:
        """See `Corpora.describe`."""

    async def load(self, sentences: Sequence[str], name: str | None) -> dict[str, Any]:
        """See `Corpora.load`."""

    async def size(self, name: str) -> dict[str, Any]:
        """See `Corpora.size`."""

    async def search(self, query: str, top_k: int, threshold: float, name: str) -> list[dict[str, Any]]:
        """See `Corpora.search`; returns the fields of `SentenceHit`."""


class SearchRequest(BaseModel):
    """A sentence to look for."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"query": "The drug lowers blood pressure.", "top_k": 5}}
    )

    query: str = Field(strict=True, description="a sentence")
    top_k: int = Field(default=5, ge=1, le=MAX_TOP_K, strict=True, description="most sentences to return")
    threshold: float = Field(default=0.6, ge=-1, le=1, allow_inf_nan=False, description="least cosine similarity")
    corpus: str = Field(default=DEFAULT, strict=True, description="name of a corpus that was loaded")


class SentenceHit(BaseModel):
    """A sentence that was found."""

    rank: int
    id: str
    sentence: str
    score: float = Field(description="cosine similarity")
    metadata: Any = None


class SearchAnswer(BaseModel):
    """The sentences nearest to the query, best first."""

    results: list[SentenceHit]
    corpus: str
    seconds: float = Field(description="spent on embedding and searching")


class CorpusRequest(BaseModel):
    """Sentences to search among."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"example": {"sentences": ["One.", "Two."]}}
    )

    sentences: list[str] = Field(description="blank ones are passed over")


class CorpusAnswer(BaseModel):
    """A corpus."""

    corpus: str = Field(description="its name, for the field `corpus` of a search")
    sentences: int


class SearchInfo(BaseModel):
    """What is searched, and with what."""

    pooler: str
    sentences: int = Field(description="in the default corpus")
    max_sentences: int = Field(description="in a corpus that is loaded")
    max_body_bytes: int
    max_top_k: int = MAX_TOP_K


def add_search(app: FastAPI, searcher: Searcher, settings: Settings) -> None:
    """Add `/v1/search`, `/v1/corpora` and the page at `/search` to an application."""
    page = PAGE.read_text(encoding="utf-8")
    headers = page_headers(page)
    # The three ignores below: mypy cannot match ** of a mixed dict with FastAPI's arguments.
    checked = {"responses": PROBLEMS, "dependencies": [Depends(require_json)]}

    @app.post("/v1/search", response_model=SearchAnswer, **checked)  # type: ignore[arg-type]
    async def search(request: SearchRequest) -> JSONResponse:
        """Find the sentences of a corpus nearest to a sentence."""
        start = time.perf_counter()
        async with asyncio.timeout(settings.timeout_s):
            hits = await searcher.search(request.query, request.top_k, request.threshold, request.corpus)
        results = [{"rank": rank, **hit} for rank, hit in enumerate(hits, start=1)]
        seconds = round(time.perf_counter() - start, 4)
        return JSONResponse({"results": results, "corpus": request.corpus, "seconds": seconds})

    @app.get("/v1/search")
    async def info() -> SearchInfo:
        """Say what is searched, and the limits."""
        return SearchInfo(**await searcher.describe(), max_body_bytes=settings.max_body_bytes)

    @app.post("/v1/corpora", status_code=201, **checked)  # type: ignore[arg-type]
    async def load(request: CorpusRequest) -> CorpusAnswer:
        """Load a corpus. It is kept in memory, under a name that nobody else is told, until others take its place."""
        return CorpusAnswer(**await searcher.load(request.sentences, None))

    @app.post("/v1/corpora/{name}", **checked)  # type: ignore[arg-type]
    async def add(name: str, request: CorpusRequest) -> CorpusAnswer:
        """Add sentences to a corpus that was loaded."""
        return CorpusAnswer(**await searcher.load(request.sentences, name))

    @app.get("/v1/corpora/{name}", responses={404: PROBLEMS[400]})
    async def size(name: str) -> CorpusAnswer:
        """Say how large a corpus is."""
        return CorpusAnswer(**await searcher.size(name))

    @app.get("/search", include_in_schema=False)
    async def show_page() -> HTMLResponse:
        return HTMLResponse(page, headers=headers)


class LocalSearcher:
    """Corpora of this process; the work is done in threads, so that the event loop stays free."""

    def __init__(self, corpora: Corpora) -> None:
        self._corpora = corpora

    async def describe(self) -> dict[str, Any]:
        """See `Searcher`."""
        return self._corpora.describe()

    async def load(self, sentences: Sequence[str], name: str | None) -> dict[str, Any]:
        """See `Searcher`."""
        return await asyncio.to_thread(self._corpora.load, sentences, name)

    async def size(self, name: str) -> dict[str, Any]:
        """See `Searcher`."""
        return self._corpora.size(name)

    async def search(self, query: str, top_k: int, threshold: float, name: str) -> list[dict[str, Any]]:
        """See `Searcher`."""
        hits = await asyncio.to_thread(self._corpora.search, query, top_k, threshold, name)
        return [hit._asdict() for hit in hits]


class SearchReplica(LocalSearcher):
    """The deployment: one replica, since the corpora that people load are in its memory."""

    def __init__(self, settings: Settings) -> None:
        from biomodels.simcse import SimCSE
        from serving.corpora import Corpora

        model = SimCSE(str(settings.sentence_model), pooler=settings.pooler)
        super().__init__(Corpora(model, settings.sentences, max_sentences=settings.max_sentences))


class RemoteSearcher:
    """The deployment, as the HTTP interface sees it."""

    def __init__(self, handle: DeploymentHandle) -> None:
        self._handle = handle

    async def describe(self) -> dict[str, Any]:
        """See `Searcher`."""
        found: dict[str, Any] = await self._call("describe")
        return found

    async def load(self, sentences: Sequence[str], name: str | None) -> dict[str, Any]:
        """See `Searcher`."""
        found: dict[str, Any] = await self._call("load", list(sentences), name)
        return found

    async def size(self, name: str) -> dict[str, Any]:
        """See `Searcher`."""
        found: dict[str, Any] = await self._call("size", name)
        return found

    async def search(self, query: str, top_k: int, threshold: float, name: str) -> list[dict[str, Any]]:
        """See `Searcher`."""
        found: list[dict[str, Any]] = await self._call("search", query, top_k, threshold, name)
        return found

    async def _call(self, method: str, *arguments: Any) -> Any:
        from ray.exceptions import RayActorError, RayTaskError
        from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError

        from biomodels.errors import BiomodelsError
        from serving.problems import UnavailableError

        try:
            return await getattr(self._handle, method).remote(*arguments)
        except RayTaskError as error:
            if isinstance(error.cause, BiomodelsError):
                raise error.cause from None
            raise
        except (RayActorError, BackPressureError, DeploymentUnavailableError) as error:
            raise UnavailableError(
                "the sentence search is restarting or overloaded; try again in some seconds"
            ) from error
