"""The alert routes: the list of alerts, one alert, and the stream."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import structlog
from fastapi import FastAPI, Header, HTTPException, Path, Query, Request, Response

from runtime.work_pools import ANSWERS
from serving.alerts.inquiry import AlertInquiry, AlertPlace, AlertQuestion
from serving.alerts.stream import blocks
from serving.alerts.stream.feed import Feed
from serving.alerts.stream.listening import PLACE_SECONDS, HeardEvent, listen
from serving.alerts.stream.place import place_of
from serving.api import cursor, described
from serving.api.alert_parameters import AlertQuery, NoQuery, StreamQuery
from serving.api.event_stream import EventStream
from serving.query.known_stores import KnownStores
from serving.query.question import named_stores
from tally.alerts.message import alert_or_none, message_of
from tally.errors import ViewsUnreachable

# Each stream costs a connection and a task, and its memory does not grow.
MOST_STREAMS = 256
_RETRY = {"Retry-After": "5"}

log = structlog.get_logger()


@dataclass
class AlertRoutes:
    """The parts that the alert routes work with; `streams`: how many are open now."""

    inquiry: AlertInquiry
    stores: KnownStores
    feed: Feed
    streams: int = 0

    async def page(self, query: AlertQuery, request: Request) -> dict[str, Any]:
        """One page of the list, by field. Raises BadQuery, UnknownName, ViewsUnreachable."""
        # An invalid query is refused before any store is looked up.
        span, last = query.span, cursor.cursor_of(query.after, cursor.AlertEntry)
        after = AlertPlace(last.raised, last.alert) if last else None
        store_ids = await self.asked_stores(query.store)
        question = AlertQuestion(store_ids, query.wanted, span, query.open)
        alerts, end = await self.inquiry.page(question, after, query.limit)
        parameters = request.query_params.multi_items()
        following = cursor.AlertEntry(*end) if end else None
        address = cursor.address(request.url.path, parameters, following) if following else None
        return {"alerts": alerts, "next": address}

    async def asked_stores(self, texts: Sequence[str]) -> list[str]:
        """The ids of the requested stores. Raises BadQuery, UnknownName, ViewsUnreachable."""
        named = named_stores(texts)
        if named is not None:
            await self.stores.check(named)
        return await self.stores.all_ids() if named is None else named

    async def blocks(
        self, heard: AsyncIterator[HeardEvent], query: StreamQuery
    ) -> AsyncIterator[bytes]:
        """The stream's events as blocks to send; it ends if the open alerts cannot be read."""
        try:
            yield blocks.RETRY_BLOCK
            async for event in heard:
                if event.lost is not None:
                    yield blocks.gap_block(event.lost, event.place)
                    yield blocks.snapshot_block(event.place, await self._open(query))
                elif event.message is not None:
                    yield blocks.alert_block(event.place, event.message)
                else:
                    yield blocks.place_block(event.place)
        except ViewsUnreachable as error:
            # The client reconnects from its last place, and then gets the gap block again.
            log.warning("views unreachable", path="stream", reason=str(error.__cause__ or error))

    @contextmanager
    def stream_place(self) -> Iterator[None]:
        """Take one of the MOST_STREAMS places for the block, and release it at the block's end.

        Raises HTTPException when no place is free.
        """
        if self.streams >= MOST_STREAMS:
            raise HTTPException(503, f"{MOST_STREAMS} streams are open; ask again later", _RETRY)
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1

    async def _open(self, query: StreamQuery) -> list[bytes]:
        store_ids = await self.asked_stores(query.store)
        alerts = await self.inquiry.views.alerts.open(store_ids)
        return [message_of(alert) for alert in alerts if query.wanted.passes(alert)]


def add_alert_routes(app: FastAPI, routes: AlertRoutes) -> None:
    """Add the routes for the list of alerts, one alert, and the stream."""

    @app.get("/v1/alerts", summary="Alerts, newest first", responses=described.ALERTS)
    async def alerts(query: Annotated[AlertQuery, Query()], request: Request) -> Response:
        return await ANSWERS.run(_json, await routes.page(query, request))

    @app.get(
        "/v1/alerts/stream",
        summary="Alerts as they are told, as server-sent events",
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
        store_ids = None if query.store == ["all"] else await routes.asked_stores(query.store)
        place = place_of(last_event_id) if last_event_id else None
        with ExitStack() as resources:
            # Taken after the checks, so that an invalid request gets its error even if all places
            # are in use.
            resources.enter_context(routes.stream_place())
            # Awaited even if the client names a place, because a stream makes no sense while the
            # topic cannot be read.
            here = await routes.feed.here()
            is_wanted = _Wanted(query, None if store_ids is None else frozenset(store_ids))
            events = listen(routes.feed, place or here, is_wanted, PLACE_SECONDS)
            # From here on the answer owns the stream's place and releases it however it ends.
            return EventStream.of(request, routes.blocks(events, query), resources.pop_all())

    @app.get("/v1/alerts/{alert_id}", summary="One alert and its life", responses=described.ALERT)
    async def alert(
        alert_id: Annotated[str, Path(description="`alert_id` of its messages")],
        _query: Annotated[NoQuery, Query()],
    ) -> Response:
        life = await routes.inquiry.life(alert_id)
        episode, states, ends = life.episode, life.states, life.ends
        return _json({"alert": life.last, "episode": episode, "states": states, "ends": ends})


@dataclass(frozen=True)
class _Wanted:
    query: StreamQuery
    store_ids: frozenset[str] | None

    def __call__(self, message: bytes) -> bool:
        alert = alert_or_none(message)
        if alert is None:
            # An unreadable message is logged once, by the projector.
            return False
        is_of_store = self.store_ids is None or alert.store_id in self.store_ids
        return is_of_store and self.query.wanted.passes(alert)


def _json(body: Any) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")
