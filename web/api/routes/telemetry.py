"""The counters of the API's requests in Prometheus' text format."""

import time
from collections import Counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Telemetry:
    """Middleware that counts requests and seconds by route and status.

    It wraps the application without a task of its own.
    """

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
            self._counts.add(route, status, time.perf_counter() - started)


class RequestCounts:
    """The request counts and seconds since the start."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, float] = {}

    def add(self, route: str, status: int, seconds: float) -> None:
        """Count one more answer."""
        self._requests[route, status] += 1
        self._seconds[route] = self._seconds.get(route, 0.0) + seconds

    def text(self) -> str:
        """The counters as Prometheus exposition text."""
        request_counts, seconds_by_route = (
            sorted(self._requests.items()),
            sorted(self._seconds.items()),
        )
        requests = [
            f'tally_api_requests_total{{route="{route}",status="{status}"}} {n}'
            for (route, status), n in request_counts
        ]
        seconds = [
            f'tally_api_request_seconds_total{{route="{route}"}} {total:.6f}'
            for route, total in seconds_by_route
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
