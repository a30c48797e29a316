"""Every error as RFC 9457 problem JSON."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from biomodels.errors import BiomodelsError
from serving.schemas import Problem

MEDIA_TYPE = "application/problem+json"
PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem, "content": {MEDIA_TYPE: {}}} for code in (400, 413, 415, 422, 504)
}
"""The errors that a request with a body may get, for `/docs`."""


class UnavailableError(BiomodelsError):
    """A part of the service is not there just now."""

    status = 503
    title = "Service unavailable"


def problem(request: Request, status: int, title: str, detail: str, headers: Any = None) -> Response:
    """Return the response for an error. What a client sent may be echoed in `detail`, also if it is no valid text."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, "instance": request.url.path}
    return Response(json.dumps(body).encode("ascii"), status, headers=headers, media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Make all errors of an application problem JSON."""

    def ours(request: Request, error: BiomodelsError) -> Response:
        return problem(request, error.status, error.title, str(error))

    def http(request: Request, error: StarletteHTTPException) -> Response:
        title = HTTPStatus(error.status_code).phrase
        return problem(request, error.status_code, title, _detail(request, error), error.headers)

    def validation(request: Request, error: RequestValidationError) -> Response:
        problems = error.errors()
        if any(item["type"] == "json_invalid" for item in problems):
            return problem(request, 400, "Malformed JSON", f"body: {problems[0]['msg']}: {problems[0]['ctx']['error']}")
        detail = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in problems)
        return problem(request, 422, "Bad request body", detail)

    def late(request: Request, error: TimeoutError) -> Response:
        return problem(request, 504, "Gateway Timeout", "the model or a shard did not answer in time; try again")

    def defect(request: Request, error: Exception) -> Response:
        return problem(request, 500, "Internal Server Error", "a defect of the service; its log has the details")

    handlers: dict[type[Exception], Callable[..., Response]] = {
        BiomodelsError: ours,
        StarletteHTTPException: http,
        RequestValidationError: validation,
        TimeoutError: late,
        Exception: defect,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


def require_json(request: Request) -> None:
    """Refuse a body that is not said to be JSON.

    Raises:
        HTTPException: 415.
    """
    media = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if media != "application/json":
        found = f"is {media}" if media else "is missing"
        headers = {"accept": "application/json"}
        raise HTTPException(415, f"content-type {found}: send content-type: application/json", headers)


def _detail(request: Request, error: StarletteHTTPException) -> str:
    hints = {
        404: f"there is nothing at {request.url.path}; see /docs",
        405: f"{request.url.path} does not take {request.method}; see /docs",
    }
    return hints.get(error.status_code, str(error.detail))


def page_headers(page: str) -> dict[str, str]:
    """Return the headers of a page: it may run its own script and style, ask its own server, and nothing else."""
    return {"Content-Security-Policy": content_security_policy(page), "X-Content-Type-Options": "nosniff"}


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


class BodyLimit:
    """Refuses bodies above a size with 413, whether or not the client says how long they are."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self.app = app
        self.limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self.app(scope, self._counted(receive) if scope["type"] == "http" else receive, send)

    def _counted(self, receive: Receive) -> Callable[[], Awaitable[Message]]:
        seen = 0

        async def limited() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.limit:
                raise HTTPException(413, f"body: has more than {self.limit:,} bytes; send fewer mentions at a time")
            return message

        return limited
