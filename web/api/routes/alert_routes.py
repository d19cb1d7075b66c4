"""The alert routes: the list of alerts, one alert, and the stream."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import structlog
from fastapi import FastAPI, Header, HTTPException, Path, Query, Request, Response

from alerting.queries.alerts import AlertPosition, AlertQueryService, AlertSearch
from alerting.stream import blocks
from alerting.stream.feed import Feed
from alerting.stream.listening import POSITION_SECONDS, FeedEvent, listen
from alerting.stream.place import parse_position
from runtime.http.work_pools import ANSWERS
from serving.questions.known_stores import KnownStores
from serving.questions.question import parse_stores
from tally.alerts.message import decode_alert_or_none, encode_alert
from tally.errors import ViewsUnreachable
from web.api.answers import described
from web.api.requests import cursor
from web.api.requests.alert_parameters import AlertQuery, NoQuery, StreamQuery
from web.api.requests.event_stream import EventStream

# Each stream costs a connection and a task, and its memory does not grow.
MAX_STREAMS = 256
_RETRY = {"Retry-After": "5"}

log = structlog.get_logger()


@dataclass
class AlertRoutes:
    """The parts that the alert routes work with; `streams`: how many are open now."""

    alert_queries: AlertQueryService
    stores: KnownStores
    feed: Feed
    streams: int = 0

    async def page(self, query: AlertQuery, request: Request) -> dict[str, Any]:
        """One page of the list, by field. Raises BadQuery, UnknownName, ViewsUnreachable."""
        # An invalid query is refused before any store is looked up.
        span, last = query.span, cursor.decode(query.after, cursor.AlertCursor)
        after = AlertPosition(last.raised, last.alert) if last else None
        store_ids = await self.resolve_store_ids(query.store)
        question = AlertSearch(store_ids, query.alert_filter, span, query.open)
        alerts, end = await self.alert_queries.read_page(question, after, query.limit)
        parameters = request.query_params.multi_items()
        following = cursor.AlertCursor(*end) if end else None
        address = cursor.address(request.url.path, parameters, following) if following else None
        return {"alerts": alerts, "next": address}

    async def resolve_store_ids(self, texts: Sequence[str]) -> list[str]:
        """The ids of the requested stores. Raises BadQuery, UnknownName, ViewsUnreachable."""
        named = parse_stores(texts)
        if named is not None:
            await self.stores.check(named)
        return await self.stores.all_ids() if named is None else named

    async def blocks(
        self, heard: AsyncIterator[FeedEvent], query: StreamQuery
    ) -> AsyncIterator[bytes]:
        """The stream's events as blocks to send; it ends if the open alerts cannot be read."""
        try:
            yield blocks.RETRY_BLOCK
            async for event in heard:
                if event.lost_position is not None:
                    yield blocks.gap_block(event.lost_position, event.position)
                    yield blocks.snapshot_block(event.position, await self._open(query))
                elif event.message is not None:
                    yield blocks.alert_block(event.position, event.message)
                else:
                    yield blocks.position_block(event.position)
        except ViewsUnreachable as error:
            # The client reconnects from its last place, and then gets the gap block again.
            log.warning("views unreachable", path="stream", reason=str(error.__cause__ or error))

    @contextmanager
    def reserve_stream(self) -> Iterator[None]:
        """Take one of the MAX_STREAMS places for the block, and release it at the block's end.

        Raises HTTPException when no place is free.
        """
        if self.streams >= MAX_STREAMS:
            raise HTTPException(503, f"{MAX_STREAMS} streams are open; ask again later", _RETRY)
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1

    async def _open(self, query: StreamQuery) -> list[bytes]:
        store_ids = await self.resolve_store_ids(query.store)
        alerts = await self.alert_queries.views.alerts.read_open(store_ids)
        return [encode_alert(alert) for alert in alerts if query.alert_filter.matches(alert)]


def add_alert_routes(app: FastAPI, routes: AlertRoutes) -> None:
    """Add the routes for the list of alerts, one alert, and the stream."""

    @app.get("/v1/alerts", summary="Alerts, newest first", responses=described.ALERTS)
    async def alerts(query: Annotated[AlertQuery, Query()], request: Request) -> Response:
        return await ANSWERS.run(_json, await routes.page(query, request))

    @app.get(
        "/v1/alerts/stream",
        summary="Alerts as they are published, as server-sent events",
        responses=described.ALERT_STREAM,
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
        store_ids = None if query.store == ["all"] else await routes.resolve_store_ids(query.store)
        place = parse_position(last_event_id) if last_event_id else None
        with ExitStack() as resources:
            # Taken after the checks, so that an invalid request gets its error even if all places
            # are in use.
            resources.enter_context(routes.reserve_stream())
            # Awaited even if the client names a place, because a stream makes no sense while the
            # topic cannot be read.
            here = await routes.feed.current_position()
            is_wanted = _StreamFilter(query, None if store_ids is None else frozenset(store_ids))
            events = listen(routes.feed, place or here, is_wanted, POSITION_SECONDS)
            # From here on the answer owns the stream's place and releases it however it ends.
            return EventStream.from_blocks(
                request, routes.blocks(events, query), resources.pop_all()
            )

    @app.get("/v1/alerts/{alert_id}", summary="One alert and its life", responses=described.ALERT)
    async def alert(
        alert_id: Annotated[str, Path(description="`alert_id` of its messages")],
        _query: Annotated[NoQuery, Query()],
    ) -> Response:
        life = await routes.alert_queries.read_life(alert_id)
        episode, states, ends = life.episode, life.states, life.ends
        return _json({"alert": life.last, "episode": episode, "states": states, "ends": ends})


@dataclass(frozen=True)
class _StreamFilter:
    query: StreamQuery
    store_ids: frozenset[str] | None

    def __call__(self, message: bytes) -> bool:
        alert = decode_alert_or_none(message)
        if alert is None:
            # An unreadable message is logged once, by the projector.
            return False
        is_of_store = self.store_ids is None or alert.store_id in self.store_ids
        return is_of_store and self.query.alert_filter.matches(alert)


def _json(body: Any) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")
