"""The HTTP interface, apart from how it is deployed."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any, Protocol

from fastapi import Depends, FastAPI
from fastapi.responses import HTMLResponse, JSONResponse

import biomodels
from biomodels.errors import UsageError
from biomodels.index.filters import NameFilter
from biomodels.linking.linker import Candidate
from serving.config import Settings
from serving.problems import BodyLimit, install, require_json
from serving.schemas import Health, Info, LinkAnswer, LinkRequest, Problem

PAGE = Path(__file__).with_name("index.html")
PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem, "content": {"application/problem+json": {}}} for code in (400, 413, 415, 422, 504)
}


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


def create_app(service: Service, settings: Settings) -> FastAPI:
    """Return the application: `/v1/link`, `/v1/info`, `/healthz`, `/docs` and a page at `/`."""
    app = FastAPI(
        title="Biomedical linker",
        description="Links mentions of biomedical concepts to a terminology.",
        version=biomodels.__version__,
        redoc_url=None,
    )
    install(app)
    app.add_middleware(BodyLimit, limit=settings.max_body_bytes)
    page = PAGE.read_text(encoding="utf-8")
    page_headers = {"Content-Security-Policy": content_security_policy(page), "X-Content-Type-Options": "nosniff"}
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

    @app.get("/healthz")
    async def health() -> Health:
        """Say that the service can answer: the model and the index are loaded."""
        return Health(status="ok")

    @app.get("/", include_in_schema=False)
    async def show_page() -> HTMLResponse:
        return HTMLResponse(page, headers=page_headers)

    return app


def content_security_policy(page: str) -> str:
    """Return a policy that lets a page run its own inline script and style, ask its own server, and nothing else."""

    def hashes(tag: str) -> str:
        found = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in found]
        return " ".join(f"'sha256-{digest}'" for digest in digests)

    return (
        f"default-src 'none'; script-src {hashes('script')}; style-src {hashes('style')}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
