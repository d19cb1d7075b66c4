"""The route for a store's calendar."""

from datetime import datetime, timedelta
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
from fastapi import FastAPI, Path, Query, Response

from runtime.http.work_pools import ANSWERS
from serving.questions.store_calendar import (
    DescribedDay,
    StoreCalendar,
    parse_day_span,
    store_calendar,
)
from tally.time.instants import format_instant
from web.api.answers import described
from web.api.requests.pages import Pages
from web.api.requests.parameters import CalendarQuery


def add_calendar_routes(app: FastAPI, pages: Pages) -> None:
    """Add the route for the days of a store."""

    @app.get(
        "/v1/stores/{store}/calendar",
        summary="Local days of a store: hours, holidays, fiscal weeks, and what each is like",
        responses=described.CALENDAR,
    )
    async def calendar(
        store: Annotated[str, Path(description="its id")],
        query: Annotated[CalendarQuery, Query()],
    ) -> Response:
        first, end = parse_day_span(query.from_, query.to)
        await pages.stores.check([store])
        # Run in a thread, because the first query about a country loads its holidays.
        store_days = await ANSWERS.run(store_calendar, pages.registry.store(store), first, end)
        return Response(msgspec.json.encode(_answer(store_days)), media_type="application/json")


def _answer(calendar: StoreCalendar) -> dict[str, Any]:
    store = calendar.store
    # Zone and day start are those in force on the last day; each day has its own UTC offset.
    last = calendar.end - timedelta(days=1)
    clock = store.clock.on(last)
    return {
        "store": store.store_id,
        "from": calendar.first,
        "to": calendar.end,
        "tz": clock.zone.key,
        "day_starts": f"{clock.day_starts:%H:%M}",
        "country": calendar.country,
        "subdivision": calendar.subdivision,
        "holidays_unknown": calendar.holidays_unknown,
        "days": [_day(day, store.zone) for day in calendar.days],
    }


def _day(day: DescribedDay, zone: ZoneInfo) -> dict[str, Any]:
    spans = day.spans

    def text(instant: datetime) -> str:
        return format_instant(instant, zone)

    # Instants use the store's zone, because days of another zone would begin within these days.
    return {
        "date": day.local.day,
        "start": text(day.local.start),
        "end": text(day.local.end),
        "quarter_hours": day.local.quarter_hours,
        # Unknown hours are null, because an empty list means that the store is closed.
        "open": None
        if spans is None
        else [{"opens": text(opens), "closes": text(closes)} for opens, closes in spans],
        "holiday": "; ".join(day.holidays) or None,
        "fiscal": day.fiscal._asdict(),
        "like_for_like": day.like.day,
        "because": day.like.reason,
    }
