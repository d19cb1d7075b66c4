"""The routes that say how the API is: whether it answers, whether it is ready, and its counters."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import structlog
from fastapi import FastAPI, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, Counter, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from alerting.health.service import UnevaluatedCounter
from alerting.health.watch import (
    AlertFactSource,
    AlertGauge,
    build_alert_gauges,
    build_fact_gauges,
)
from alerting.queries.alerts import AlertFilter, AlertQueryService, AlertSearch
from runtime.http.answers import Health, Readiness, json_response, response_entry
from runtime.http.work_pools import LOOKUPS
from runtime.registry.sources import FAMILIES
from serving.questions.known_stores import KnownStores
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tally.errors import ViewsUnreachable
from tally.time.instants import format_instant
from web.api.requests.shared import REFUSALS

log = structlog.get_logger()
READY_SECONDS = 5.0  # half of a statement's timeout, because the prober has a deadline too
# A scrape reads the open alerts of every store, at most this often however many clients scrape.
OPEN_SECONDS = 10.0
# The reads have a time limit because a scraper has a deadline too.
_READ_TIMEOUT_SECONDS = 5.0


class Telemetry:
    """Middleware without a task of its own: counts requests and seconds by route and status."""

    def __init__(self, app: ASGIApp, counts: "RequestCounts") -> None:
        self._app, self._counts = app, counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and count its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # If the application does not start an answer, the server sends a 500.
        started, status = time.perf_counter(), 500

        async def send_counted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, send_counted)
        finally:
            # Counted by route instead of address, because callers choose addresses freely and each
            # would become a time series.
            route = getattr(scope.get("route"), "path", "other")
            self._counts.requests.labels(route, status).inc()
            self._counts.seconds.labels(route).inc(time.perf_counter() - started)


class RequestCounts:
    """The request counts and seconds since the start."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        register = partial(Counter, registry=self._registry)
        self.requests = register("tally_api_requests", "Answers", ["route", "status"])
        meaning = "Seconds until they were complete"
        self.seconds = register("tally_api_request_seconds", meaning, ["route"])

    def text(self) -> str:
        """The counters as Prometheus exposition text."""
        return generate_latest(self._registry).decode()


@dataclass
class AlertCounters:
    """Gauges of the open alerts, from the tables, and of the alert services, from the watch.

    Without facts from the brokers, every rule would be counted as not evaluated, so a source of
    facts and a counter of such rules are both there, or neither is.
    """

    alert_queries: AlertQueryService
    stores: KnownStores
    fact_source: AlertFactSource | None
    unevaluated: UnevaluatedCounter | None
    _open: Sequence[AlertGauge] = ()
    _read_at: float = float("-inf")
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def text(self) -> str:
        """Prometheus exposition text; values that cannot be read now are left out."""
        machinery: Sequence[AlertGauge] = ()
        if self.fact_source is not None:
            facts = await LOOKUPS.run(self.fact_source.facts)
            machinery = build_fact_gauges(facts, int(time.time() * 1_000))
        gauges = "".join(gauge.text for gauge in (*machinery, *await self._open_gauges()))
        return gauges + (self.unevaluated.to_text() if self.unevaluated else "")

    async def _open_gauges(self) -> Sequence[AlertGauge]:
        async with self._lock:
            if time.monotonic() - self._read_at < OPEN_SECONDS:
                return self._open
            try:
                self._open = await asyncio.wait_for(self._read_open_gauges(), _READ_TIMEOUT_SECONDS)
            except (ViewsUnreachable, TimeoutError) as error:
                # The old numbers are dropped, because they would look current.
                self._open = ()
                log.warning("views unreachable", path="/metrics", reason=str(error))
            self._read_at = time.monotonic()
            return self._open

    async def _read_open_gauges(self) -> list[AlertGauge]:
        question = AlertSearch(await self.stores.all_ids(), AlertFilter())
        return build_alert_gauges(await self.alert_queries.read_open(question))


def add_state_routes(
    app: FastAPI,
    views: ViewReader,
    settings: Settings,
    requests: RequestCounts,
    alerts: AlertCounters,
) -> None:
    """Add the routes for probes and for Prometheus."""

    @app.get(
        "/healthz",
        summary="The process answers",
        responses={200: response_entry("the process answers", Health)},
    )
    async def healthz() -> Response:
        return json_response({"status": "ok"})

    @app.get(
        "/readyz",
        summary="The views can be read",
        responses={
            200: response_entry("the views can be read", Readiness),
            500: REFUSALS[500],
            # Not a problem document: a probe reads the same checks whether they pass or not.
            503: response_entry("they cannot", Readiness),
        },
    )
    async def readyz() -> Response:
        state = await read_readiness(views, settings)
        return json_response(state, 200 if state["ready"] else 503)

    @app.get(
        "/metrics",
        summary="Counters for Prometheus",
        response_class=PlainTextResponse,
        response_description="the counters as text",
    )
    async def metrics() -> Response:
        text = requests.text() + await alerts.text()
        return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)


async def read_readiness(views: ViewReader, settings: Settings) -> dict[str, Any]:
    """The readiness of the API: `ready`, and each check by name with its result.

    A master that is behind only makes answers provisional, so it does not change `ready`.
    """
    try:
        current = await asyncio.wait_for(_master_current(views), READY_SECONDS)
    except (ViewsUnreachable, TimeoutError) as error:
        # A TimeoutError has no text of its own.
        detail = str(error) or f"no answer within {READY_SECONDS:.0f} s"
        log.warning("views unreachable", path="/readyz", reason=str(error.__cause__ or detail))
        return {"ready": False, "checks": {"views": {"ok": False, "detail": detail}}}
    views_check = {"ok": True, "detail": "tables and pointers can be read"}
    checks = {"views": views_check, "master": _check_master(current, settings)}
    return {"ready": True, "checks": checks}


async def _master_current(views: ViewReader) -> datetime | None:
    """The last instant at which every family's master was current; None without any."""
    await views.check()
    instants = await asyncio.gather(*(views.master_current(family) for family in FAMILIES.values()))
    return min((at for at in instants if at is not None), default=None)


def _check_master(current_at: datetime | None, settings: Settings) -> dict[str, Any]:
    if current_at is None:
        detail = "the master ingest has never said how far it is; no answer is final"
        return {"ok": False, "detail": detail}
    patience = timedelta(seconds=settings.final_patience_seconds)
    is_behind = datetime.now(UTC) - current_at > patience
    effect = "; no answer is final" if is_behind else ""
    detail = f"had read everything at {format_instant(current_at)}{effect}"
    return {"ok": not is_behind, "detail": detail}
