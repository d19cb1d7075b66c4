"""The route that streams alerts as they are published."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, cast

import structlog
from fastapi import FastAPI, Header, HTTPException, Query, Request, Response
from pydantic import Field
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from alerting.queries.alerts import AlertFilter, AlertQueryService
from alerting.stream.feed import POSITION_SECONDS, Feed, FeedEvent, listen
from alerting.stream.place import (
    MEDIA_TYPE,
    RETRY_BLOCK,
    alert_block,
    gap_block,
    parse_position,
    position_block,
    snapshot_block,
)
from runtime.http.answers import problem_entry
from runtime.http.server import MORE_TIME
from serving.questions.known_stores import KnownStores
from serving.questions.question import split_names
from tally.alerts.message import decode_alert_or_none, encode_alert
from tally.errors import ViewsUnreachable
from web.api.alerts.alerts import RuleIds, SeverityNames
from web.api.requests import shared
from web.api.requests.problems import RETRY
from web.api.requests.shared import NO_STORE, REFUSALS, NameList, Parameters, check_stores

# Each stream costs a connection and a task, and its memory does not grow.
MAX_STREAMS = 256
# Proxies must neither cache nor buffer the stream, because its events have to arrive at once.
_STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

log = structlog.get_logger()


class StreamQuery(Parameters):
    """Parameters of the stream of alerts; any other is refused."""

    store: Annotated[
        NameList, Field(["all"], description="store ids, repeated or with commas; default `all`")
    ]
    rule: RuleIds
    severity: SeverityNames

    @property
    def alert_filter(self) -> AlertFilter:
        """The filter on alerts, apart from their stores."""
        return AlertFilter(frozenset(split_names(self.rule)), frozenset(split_names(self.severity)))


@dataclass
class AlertStreams:
    """The parts that the route works with; `open_streams`: how many are open now."""

    alert_queries: AlertQueryService
    stores: KnownStores
    feed: Feed
    open_streams: int = 0

    async def blocks(
        self, events: AsyncIterator[FeedEvent], query: StreamQuery
    ) -> AsyncIterator[bytes]:
        """The stream's events as blocks to send; it ends if the open alerts cannot be read."""
        try:
            yield RETRY_BLOCK
            async for event in events:
                if event.lost_position is not None:
                    yield gap_block(event.lost_position, event.position)
                    yield snapshot_block(event.position, await self._read_open(query))
                elif event.message is not None:
                    yield alert_block(event.position, event.message)
                else:
                    yield position_block(event.position)
        except ViewsUnreachable as error:
            # The client reconnects from its last place, and then gets the gap block again.
            log.warning("views unreachable", path="stream", reason=str(error.__cause__ or error))

    @contextmanager
    def reserve_stream(self) -> Iterator[None]:
        """Take one of MAX_STREAMS places for the block. Raises HTTPException if none is free."""
        if self.open_streams >= MAX_STREAMS:
            raise HTTPException(503, f"{MAX_STREAMS} streams are open; ask again later", RETRY)
        self.open_streams += 1
        try:
            yield
        finally:
            self.open_streams -= 1

    async def _read_open(self, query: StreamQuery) -> list[bytes]:
        store_ids = await shared.list_stores(self.stores, query.store)
        alerts = await self.alert_queries.views.alerts.read_open(store_ids)
        return [encode_alert(alert) for alert in alerts if query.alert_filter.matches(alert)]


class EventStream(StreamingResponse):
    """A response of blocks, each of which restarts the connection's time limit.

    A client that reads nothing is disconnected when its time is over (runtime/http/server.py):
    the next block is fetched only after the previous one has been sent.
    """

    media_type = MEDIA_TYPE
    _resources: ExitStack

    @classmethod
    def from_blocks(
        cls, request: Request, event_blocks: AsyncIterator[bytes], resources: ExitStack
    ) -> "EventStream":
        """The answer to this request; `resources` is closed when it has ended, sent or not."""
        # Another server that runs the application has no such extension.
        extension = request.scope.get("extensions", {}).get(MORE_TIME, {})
        ask = cast("Callable[[], None]", extension.get("ask", lambda: None))
        answer = cls(_extend_time(event_blocks, ask), headers=_STREAM_HEADERS)
        answer._resources = resources
        return answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the blocks until they end or the client disconnects."""
        # Not closed in a `finally` of the blocks: a client may leave before the first block.
        with self._resources:
            await super().__call__(scope, receive, send)


def add_stream_route(app: FastAPI, streams: AlertStreams) -> None:
    """Add the route for the stream; before that for one alert, which takes every other name."""

    @app.get(
        "/v1/alerts/stream",
        summary="Alerts as they are published, as server-sent events",
        responses={
            **REFUSALS,
            404: problem_entry(NO_STORE),
            503: problem_entry(
                "the topic cannot be read, or too many streams are open; `Retry-After` says when"
            ),
        },
        response_class=EventStream,
        response_description=(
            "`alert` with a message of the topic, `gap` and then `snapshot` with what is open where"
            " the place is gone; every `id` is a place to resume at"
        ),
    )
    async def stream(
        query: Annotated[StreamQuery, Query()],
        request: Request,
        last_event_id: Annotated[
            str,
            Header(max_length=4_000, description="place to resume at; without it it begins now"),
        ] = "",
    ) -> Response:
        store_ids = await check_stores(streams.stores, query.store)
        place = parse_position(last_event_id) if last_event_id else None
        with ExitStack() as resources:
            # Taken after the checks, so that an invalid request gets its error even if all places
            # are in use.
            resources.enter_context(streams.reserve_stream())
            # Awaited even if the client names a place, because a stream makes no sense while the
            # topic cannot be read.
            here = await streams.feed.current_position()
            named = None if store_ids is None else frozenset(store_ids)
            is_wanted = partial(_is_wanted, query.alert_filter, named)
            events = listen(streams.feed, place or here, is_wanted, POSITION_SECONDS)
            # From here on the answer owns the stream's place and releases it however it ends.
            return EventStream.from_blocks(
                request, streams.blocks(events, query), resources.pop_all()
            )


def _is_wanted(alert_filter: AlertFilter, store_ids: frozenset[str] | None, message: bytes) -> bool:
    alert = decode_alert_or_none(message)
    # An unreadable message is logged once, by the projector.
    if alert is None or (store_ids is not None and alert.store_id not in store_ids):
        return False
    return alert_filter.matches(alert)


async def _extend_time(
    event_blocks: AsyncIterator[bytes], ask: Callable[[], None]
) -> AsyncIterator[bytes]:
    async for block in event_blocks:
        # The previous block has been sent by now.
        ask()
        yield block
