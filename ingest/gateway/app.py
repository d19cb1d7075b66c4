"""The gateway's HTTP application (contracts: Gateway)."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from ingest.gateway.outbox import Busy, NotStored, Outbox
from ingest.gateway.submission import ENTRANCES, MOST_BYTES, MOST_LINES, Checked, Entrance, checked, lines_of
from ingest.normaliser.arrival import Arrival, Rules
from schemas import loader

_JSON, _NDJSON, _PROBLEM = "application/json", "application/x-ndjson", "application/problem+json"
_RETRY_AFTER = {"Retry-After": "1"}
# From this many lines on the check is made beside the event loop.
_FEW_LINES = 20

Reachable = Callable[[], tuple[bool, str]]


class Problem(HTTPException):
    """Raised to answer with a problem document (RFC 9457)."""


def build_app(outbox: Outbox, rules: Rules, reachable: Reachable) -> FastAPI:
    """The application over an outbox; `reachable` tells whether Kafka is."""
    app = FastAPI(title="Tally gateway", version="1", openapi_version="3.1.0")
    for entrance in ENTRANCES:
        app.post(entrance.path, status_code=202, openapi_extra=_documented(entrance))(_receiver(entrance, outbox, rules))
    app.add_exception_handler(HTTPException, _problem)
    _add_health(app, outbox, reachable)
    return app


def _receiver(entrance: Entrance, outbox: Outbox, rules: Rules) -> Callable[[Request], Awaitable[JSONResponse]]:
    async def receive(request: Request) -> JSONResponse:
        """Take one JSON object, or NDJSON; answers once every good line is stored."""
        found = await _checked(request, entrance, rules)
        if found.good:
            await _stored(outbox, entrance.topic, found.good)
        return _answer(request, found)

    receive.__name__ = f"receive_{entrance.schema.replace('-', '_')}"
    return receive


async def _checked(request: Request, entrance: Entrance, rules: Rules) -> Checked:
    is_ndjson = _is_ndjson(request)
    lines = lines_of(await _body(request), is_ndjson)
    if len(lines) > MOST_LINES:
        raise Problem(413, f"the body has {len(lines):,} lines; at most {MOST_LINES:,} are taken at once")
    arrival = Arrival(datetime.now(UTC), 0, 0)
    if len(lines) <= _FEW_LINES:
        found = checked(lines, entrance, arrival, rules)
    else:
        found = await asyncio.to_thread(checked, lines, entrance, arrival, rules)
    if not is_ndjson:
        _refuse_unreadable(found)
    return found


def _is_ndjson(request: Request) -> bool:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in (_JSON, _NDJSON):
        raise Problem(415, f"send {_JSON} (one object) or {_NDJSON} (one object a line), not {media_type[:60] or 'nothing'}")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Problem(415, "send the body without Content-Encoding")
    return media_type == _NDJSON


async def _body(request: Request) -> bytes:
    """The body, read no further than the limit."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise Problem(413, f"the body is larger than {MOST_BYTES:,} bytes; send it in parts")
    if not body.strip():
        raise Problem(400, "the body is empty")
    return bytes(body)


def _refuse_unreadable(found: Checked) -> None:
    for _, error in found.rejected:
        if error.reason in ("not_json", "not_utf8"):
            raise Problem(400, error.message)
        if error.reason == "too_large":
            raise Problem(413, error.message)


async def _stored(outbox: Outbox, topic: str, messages: list[tuple[str, bytes]]) -> None:
    try:
        # A client that hangs up must not undo the count of what is under way.
        await asyncio.shield(outbox.store(topic, messages))
    except Busy as error:
        raise Problem(429, f"{error}; send again later", _RETRY_AFTER) from error
    except NotStored as error:
        raise Problem(503, f"{error}; send everything again, what was stored already counts once", _RETRY_AFTER) from error


def _answer(request: Request, found: Checked) -> JSONResponse:
    outcome = {"accepted": len(found.good), "rejected": found.rejections()}
    if found.good:
        return JSONResponse(outcome, 202)
    detail = "no line follows the contract; nothing was stored"
    return JSONResponse(_document(request, 422, detail) | outcome, 422, media_type=_PROBLEM)


async def _problem(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HTTPException):
        raise error
    return JSONResponse(_document(request, error.status_code, error.detail), error.status_code, error.headers, _PROBLEM)


def _document(request: Request, status: int, detail: str) -> dict[str, Any]:
    title = HTTPException(status).detail
    return {"type": "about:blank", "title": title, "status": status, "detail": detail, "instance": request.url.path, "errors": []}


def _add_health(app: FastAPI, outbox: Outbox, reachable: Reachable) -> None:
    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """The process answers."""
        return {"status": "ok"}

    @app.get("/readyz")
    async def readyz() -> JSONResponse:
        """Whether messages would be stored now."""
        ok, detail = await asyncio.to_thread(reachable)
        ready = ok and outbox.fatal is None
        return JSONResponse({"ready": ready, "checks": {"kafka": {"ok": ready, "detail": outbox.fatal or detail}}}, 200 if ready else 503)


def _documented(entrance: Entrance) -> dict[str, Any]:
    schema = loader.event_schema(entrance.schema)
    return {"requestBody": {"required": True, "content": {_JSON: {"schema": schema}, _NDJSON: {"schema": {"type": "string"}}}}}
