"""The route of a store's calendar."""

from datetime import timedelta
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
from fastapi import FastAPI, Path, Query, Response

from runtime.work_pools import ANSWERS
from serving.api import described
from serving.api.pages import Pages
from serving.api.parameters import CalendarQuery
from serving.query.instants import format_instant
from serving.query.store_calendar import DescribedDay, StoreCalendar, asked_days, store_calendar


def add_calendar_routes(app: FastAPI, pages: Pages) -> None:
    """The days of a store."""

    @app.get(
        "/v1/stores/{store}/calendar",
        summary="Local days of a store: hours, holidays, fiscal weeks, and what each is like",
        responses=described.CALENDAR,
    )
    async def calendar(
        store: Annotated[str, Path(description="its id")],
        query: Annotated[CalendarQuery, Query()],
    ) -> Response:
        first, end = asked_days(query.from_, query.to)
        await pages.stores.check([store])
        # In a thread: the first question about a country reads in its holidays.
        found = await ANSWERS.run(store_calendar, pages.registry.store(store), first, end)
        return Response(msgspec.json.encode(_answer(found)), media_type="application/json")


def _answer(found: StoreCalendar) -> dict[str, Any]:
    store = found.store
    # As they are in the end, as the offsets of the days tell.
    last = found.end - timedelta(days=1)
    clock = store.clock.on(last)
    return {
        "store": store.store_id,
        "from": found.first,
        "to": found.end,
        "tz": clock.zone.key,
        "day_starts": f"{clock.day_starts:%H:%M}",
        "country": found.country,
        "subdivision": found.subdivision,
        "holidays_unknown": found.holidays_unknown,
        "days": [_day(one, store.zone) for one in found.days],
    }


def _day(day: DescribedDay, zone: ZoneInfo) -> dict[str, Any]:
    spans = day.spans
    # By the clock of the store, whose days they are: another zone's would begin within them.
    return {
        "date": day.local.day,
        "start": format_instant(day.local.start, zone),
        "end": format_instant(day.local.end, zone),
        "quarter_hours": day.local.quarter_hours,
        # Not known is no empty list: that one says that the store is closed.
        "open": None if spans is None else [_told(one._asdict(), zone) for one in spans],
        "holiday": "; ".join(day.holidays) or None,
        "fiscal": day.fiscal._asdict(),
        "like_for_like": day.like.day,
        "because": day.like.because,
    }


def _told(instants: dict[str, Any], zone: ZoneInfo) -> dict[str, str]:
    return {name: format_instant(instant, zone) for name, instant in instants.items()}
