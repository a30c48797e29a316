"""The HTTP interface, apart from how it is deployed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from fastapi import Depends, FastAPI
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse

import biomodels
from biomodels.errors import UsageError
from biomodels.index.filters import NameFilter
from biomodels.linking.linker import Candidate
from serving.config import Settings
from serving.problems import PROBLEMS, BodyLimit, install, page_headers, require_json
from serving.schemas import Health, Info, LinkAnswer, LinkRequest
from serving.search import Searcher, add_search

PAGE = Path(__file__).with_name("index.html")


class Service(Protocol):
    """What answers."""

    async def link(self, mentions: list[str], k: int, where: NameFilter | None) -> list[list[Candidate]]:
        """Return the k best concepts of every mention, by names that may answer.

        Raises:
            BiomodelsError: the request is bad.
            TimeoutError: there is no answer in time.
        """

    def info(self) -> dict[str, Any]:
        """Return the fields of `Info`."""


def create_app(service: Service | None, settings: Settings, searcher: Searcher | None = None) -> FastAPI:
    """Return the application: the linker, the sentence search, or both.

    Args:
        service: the linker: `/v1/link`, `/v1/info` and a page at `/`.
        settings: limits.
        searcher: the sentence search: `/v1/search`, `/v1/corpora` and a page at `/search`.
    """
    app = FastAPI(
        title="Biomedical text mining",
        description="Links mentions of biomedical concepts to a terminology, and searches sentences by meaning.",
        version=biomodels.__version__,
        redoc_url=None,
    )
    install(app)
    app.add_middleware(BodyLimit, limit=settings.max_body_bytes)
    if searcher is not None:
        add_search(app, searcher, settings)
    if service is not None:
        _add_linker(app, service, settings)
    else:
        app.add_api_route("/", lambda: RedirectResponse("search"), include_in_schema=False)

    @app.get("/healthz")
    async def health() -> Health:
        """Say that the service can answer: its models and indexes are loaded."""
        return Health(status="ok")

    return app


def _add_linker(app: FastAPI, service: Service, settings: Settings) -> None:
    page = PAGE.read_text(encoding="utf-8")
    headers = page_headers(page)
    digests = {"index_digest": service.info()["index"]["digest"], "model_digest": service.info()["model"]["digest"]}

    @app.post("/v1/link", response_model=LinkAnswer, responses=PROBLEMS, dependencies=[Depends(require_json)])
    async def link(request: LinkRequest) -> JSONResponse:
        """Link mentions to concepts, best first."""
        if len(request.mentions) > settings.max_mentions:
            given = len(request.mentions)
            raise UsageError(f"mentions: at most {settings.max_mentions:,} in one request (given: {given:,})")
        if request.k > settings.max_k:
            raise UsageError(f"k: at most {settings.max_k:,} (given: {request.k})")
        where = NameFilter.of(request.languages, request.sources, request.semantic_types)
        answers = await service.link(request.mentions, request.k, where)
        results = [
            {"mention": mention, "candidates": [candidate.as_dict() for candidate in candidates]}
            for mention, candidates in zip(request.mentions, answers, strict=True)
        ]
        return JSONResponse({"results": results, **digests})

    @app.get("/v1/info")
    async def info() -> Info:
        """Say which model and which index answer, and how large they are."""
        return Info(**service.info())

    @app.get("/", include_in_schema=False)
    async def show_page() -> HTMLResponse:
        return HTMLResponse(page, headers=headers)
