"""The gateway's HTTP application (contracts: Gateway)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, Gauge, generate_latest
from starlette.exceptions import HTTPException

from ingest.contract.vendor import Greeting, VendorBody
from ingest.gateway import described
from ingest.gateway.async_producer import AsyncProducer
from ingest.gateway.background import LoopLag, destroy_keys
from ingest.gateway.backlog import BacklogMonitor
from ingest.gateway.submission import MAX_BYTES, BodyChecker, CheckedLines, Endpoint, endpoints
from ingest.installation.arrival import Rules
from runtime.http.answers import DocumentedApp, Responses, problem_response
from tally.errors import BodyTooLarge, Busy, Forbidden, KeysUnreachable, NotStored, RejectedEvent

_JSON, _NDJSON = "application/json", "application/x-ndjson"
_RETRY_AFTER = {"Retry-After": "1"}
# The backlog of unread messages does not shrink within a second.
_RETRY_LATER = {"Retry-After": "30"}


class HttpRefusal(HTTPException):
    """Raised to answer with a problem document (RFC 9457)."""


@dataclass(frozen=True)
class Gateway:
    """The dependencies that all routes share."""

    async_producer: AsyncProducer
    rules: Rules
    backlog: BacklogMonitor
    lag: LoopLag
    telemetry: CollectorRegistry
    checker: BodyChecker

    async def check_request(self, request: Request, endpoint: Endpoint) -> CheckedLines:
        """Return the request's lines, checked as the normaliser does it. Raises HttpRefusal."""
        is_ndjson = _is_ndjson(request) if endpoint.messages is None else _is_plain(request)
        if reason := self.backlog.refusal_reason():
            detail = f"nothing is taken now: {reason}; nothing was stored, send again later"
            raise HttpRefusal(503, detail, _RETRY_LATER)
        body = await _body(request)
        try:
            sent = VendorBody(body, datetime.now(UTC), self.rules, dict(request.query_params))
            result = await self.checker.check(sent, endpoint, is_ndjson)
        except BodyTooLarge as error:
            raise HttpRefusal(413, str(error)) from error
        except Forbidden as error:
            raise HttpRefusal(403, str(error)) from error
        except KeysUnreachable as error:
            detail = f"{error}; nothing was stored, send again later"
            raise HttpRefusal(503, detail, _RETRY_LATER) from error
        except RejectedEvent as error:
            # Only a vendor's body as a whole is refused here; an event's error has its number.
            raise HttpRefusal(400, error.message) from error
        if not is_ndjson:
            _refuse_unreadable(result)
        return result


def build_app(
    async_producer: AsyncProducer,
    rules: Rules,
    backlog: BacklogMonitor,
    served: Iterable[Endpoint] | None = None,
    checker: BodyChecker | None = None,
) -> FastAPI:
    """Build the application with these endpoints, by default all. Raises BadSource."""
    registry, checks = CollectorRegistry(), checker or BodyChecker()
    gauge = partial(Gauge, namespace="tally_gateway", registry=registry)
    unread = gauge("unread_messages", "Messages that wait to be normalised")
    unread.set_function(lambda: backlog.waiting.messages)
    age = gauge("check_seconds", "How long the check under way has run")
    age.set_function(lambda: checks.age_seconds)
    gateway = Gateway(async_producer, rules, backlog, LoopLag(registry), registry, checks)
    app = DocumentedApp(
        title="Tally gateway",
        summary="Takes what happens in stores, checks it and stores it.",
        version="1",
        openapi_version="3.1.0",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan(gateway),
    )
    for endpoint in endpoints() if served is None else served:
        is_ours = endpoint.messages is None
        app.post(
            endpoint.path,
            status_code=202,
            summary=endpoint.schema.get("title", endpoint.path),
            responses=_responses(endpoint),
            openapi_extra=described.describe_request(endpoint.schema, is_ours),
        )(_receiver(endpoint, gateway))
        if endpoint.greeting is not None:
            _add_greeting(app, endpoint.path, endpoint.greeting, gateway)
    app.add_exception_handler(HTTPException, _answer_refusal)
    app.add_exception_handler(Exception, _answer_error)
    _add_state(app, gateway)
    return app


def _add_greeting(app: FastAPI, path: str, greeting: Greeting, gateway: Gateway) -> None:
    async def greet() -> PlainTextResponse:
        """What the vendor's cloud reads here before it sends.

        Raises HttpRefusal when it is not set.
        """
        validator = greeting(gateway.rules)
        if validator is None:
            raise HttpRefusal(404, "no answer is set for this address: TALLY_VENDOR_SECRETS")
        return PlainTextResponse(validator)

    greet.__name__ = f"greet_{path.rpartition('/')[2]}"
    app.get(
        path,
        summary="What the vendor's cloud reads here before it sends",
        response_class=PlainTextResponse,
        responses=described.GREETING,
    )(greet)


def _lifespan(gateway: Gateway) -> Callable[[FastAPI], Any]:
    @asynccontextmanager
    async def alive(_app: FastAPI) -> AsyncIterator[None]:
        coroutines = gateway.lag.measure(), destroy_keys(gateway.rules.devices.keys)
        tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
        yield
        for task in tasks:
            task.cancel()
        gateway.checker.close()

    return alive


def _responses(endpoint: Endpoint) -> Responses:
    if endpoint.messages is None:
        return described.RECEIVED
    # A vendor that reads a greeting first must also name a secret in its bodies.
    greeted = endpoint.greeting is not None
    return described.RECEIVED_WITH_SECRET if greeted else described.RECEIVED_FROM_DEVICES


def _receiver(endpoint: Endpoint, gateway: Gateway) -> Callable[[Request], Awaitable[Response]]:
    async def receive(request: Request) -> Response:
        """Take one JSON object, or NDJSON; answers once every good line is stored."""
        result = await gateway.check_request(request, endpoint)
        if messages := [*result.accepted, *result.letters]:
            await _store(gateway.async_producer.store(endpoint.topic, messages))
        return _answer(request, result)

    tail = endpoint.path.removeprefix("/v1/events/")
    receive.__name__ = f"receive_{tail.replace('/', '_').replace('-', '_')}"
    return receive


def _is_ndjson(request: Request) -> bool:
    content_type = request.headers.get("content-type", "")
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type not in (_JSON, _NDJSON):
        taken = f"{_JSON} (one object) or {_NDJSON} (one object a line)"
        raise HttpRefusal(415, f"send {taken}, not {media_type[:60] or 'nothing'}")
    return _is_plain(request) and media_type == _NDJSON


def _is_plain(request: Request) -> bool:
    """True. Raises HttpRefusal for a compressed body."""
    if request.headers.get("content-encoding", "identity") != "identity":
        raise HttpRefusal(415, "send the body without Content-Encoding")
    return True


async def _body(request: Request) -> bytes:
    """Return the body, read no further than the limit."""
    too_large = HttpRefusal(413, f"the body is larger than {MAX_BYTES:,} bytes; send it in parts")
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced[:20]) > MAX_BYTES:
        raise too_large
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BYTES:
            raise too_large
    if not body.strip():
        raise HttpRefusal(400, "the body is empty")
    return bytes(body)


def _refuse_unreadable(result: CheckedLines) -> None:
    for _, error in result.rejected:
        if error.reason in ("not_json", "not_utf8"):
            raise HttpRefusal(400, error.message)
        if error.reason == "too_large":
            raise HttpRefusal(413, error.message)


async def _store(stored: Coroutine[Any, Any, None]) -> None:
    try:
        # A client that hangs up must not cancel this: the producer counts the messages in flight.
        await asyncio.shield(stored)
    except Busy as error:
        raise HttpRefusal(429, f"{error}; send again later", _RETRY_AFTER) from error
    except NotStored as error:
        detail = f"{error}; send everything again, what was stored already counts once"
        raise HttpRefusal(503, detail, _RETRY_AFTER) from error


def _answer(request: Request, result: CheckedLines) -> Response:
    if result.accepted or result.letters:
        return JSONResponse(result.outcome(), 202)
    if not result.rejected:
        # The device tests its connection, or had nothing to report.
        return JSONResponse(result.outcome(), 200)
    detail = "no line follows the contract; nothing was stored"
    return problem_response(request.url.path, 422, detail, **result.outcome())


async def _answer_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path, headers = request.url.path, error.headers
    return problem_response(path, error.status_code, error.detail, headers=headers)


async def _answer_error(request: Request, _error: Exception) -> Response:
    # The server logs the exception, without the values that our own traceback would show.
    detail = "the request was not handled; the gateway's log has the reason"
    return problem_response(request.url.path, 500, detail)


def _add_state(app: FastAPI, gateway: Gateway) -> None:
    @app.get("/healthz", summary="The process answers", responses=described.HEALTH)
    async def healthz() -> JSONResponse:
        """The process answers and can send; 503 in the moments before it ends by itself."""
        fatal = gateway.async_producer.fatal
        return JSONResponse({"status": "failed" if fatal else "ok"}, 503 if fatal else 200)

    @app.get("/readyz", summary="Messages would be stored", responses=described.READINESS)
    async def readyz() -> JSONResponse:
        """Whether messages would be stored now."""
        reachable, detail = gateway.backlog.kafka_state()
        fatal, refused = gateway.async_producer.fatal, gateway.backlog.refusal_reason()
        waiting = f"{gateway.backlog.waiting.messages:,} messages wait to be read"
        checks = {
            "check": gateway.checker.readiness(),
            "kafka": {"ok": reachable and fatal is None, "detail": fatal or detail},
            "backlog": {"ok": refused is None, "detail": refused or waiting},
        }
        ready = all(check["ok"] for check in checks.values())
        return JSONResponse({"ready": ready, "checks": checks}, 200 if ready else 503)

    @app.get(
        "/metrics",
        summary="Counters for Prometheus",
        response_class=PlainTextResponse,
        response_description="the counters as text",
    )
    async def metrics() -> PlainTextResponse:
        """Counters for Prometheus."""
        text = generate_latest(gateway.telemetry)
        return PlainTextResponse(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)
