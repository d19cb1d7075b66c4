"""Counters of the API in Prometheus' text format."""

import time
from collections import Counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Telemetry:
    """Requests and seconds by route and status; wraps the application.

    It is a middleware without a task of its own.
    """

    def __init__(self, app: ASGIApp, counts: "RequestCounts") -> None:
        self._app, self._counts = app, counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on and counts its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # Where the application begins no answer the server sends a 500.
        started, status = time.perf_counter(), 500

        async def counted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, counted)
        finally:
            # The route, not the address: an address is the caller's to choose, and each would be a
            # series.
            route = getattr(scope.get("route"), "path", "other")
            self._counts.add(route, status, time.perf_counter() - started)


class RequestCounts:
    """What has been counted since the start."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, float] = {}

    def add(self, route: str, status: int, seconds: float) -> None:
        """One more answer."""
        self._requests[route, status] += 1
        self._seconds[route] = self._seconds.get(route, 0.0) + seconds

    def text(self) -> str:
        """Prometheus exposition text."""
        counted, timed = sorted(self._requests.items()), sorted(self._seconds.items())
        requests = [
            f'tally_api_requests_total{{route="{route}",status="{status}"}} {n}'
            for (route, status), n in counted
        ]
        seconds = [
            f'tally_api_request_seconds_total{{route="{route}"}} {total:.6f}'
            for route, total in timed
        ]
        return "\n".join(
            [
                "# TYPE tally_api_requests_total counter",
                *requests,
                "# TYPE tally_api_request_seconds_total counter",
                *seconds,
                "",
            ]
        )
