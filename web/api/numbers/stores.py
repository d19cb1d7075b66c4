"""The routes for the list of stores, and for the calendar of one."""

from datetime import date, datetime, timedelta
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from fastapi import FastAPI, Path, Query, Request, Response
from msgspec import Meta, field
from pydantic import Field

from runtime.http.openapi import Shape, response_entry
from runtime.http.problem import json_response
from runtime.http.work_pools import ANSWERS
from serving.questions.store_calendar import (
    DescribedDay,
    StoreCalendar,
    parse_day_span,
    store_calendar,
)
from tally.time.instants import format_instant
from web.api.numbers.pages import Pages
from web.api.requests.cursor import cut_list
from web.api.requests.shared import NO_STORE, REFUSALS, Instant, Next, PageQuery, Parameters


class ListedStore(Shape):
    """One store."""

    store_id: Annotated[str, Meta(description="`operation_id` of its receipts")]
    name: Annotated[str, Meta(description="name for people; the id where the stores file has none")]
    tz: Annotated[str, Meta(description="IANA time zone")]
    currency: Annotated[str, Meta(description="ISO 4217")]
    first_day: Annotated[date | None, Meta(description="first UTC day with events; null: none yet")]
    last_day: Annotated[date | None, Meta(description="last UTC day with events")]


class StoreList(Shape):
    """A page of stores, by id ascending."""

    stores: Annotated[list[ListedStore], Meta(description="at most `limit`")]
    next: Next


class OpenHours(Shape):
    """From when to when the store is open."""

    opens: Annotated[Instant, Meta(description="inclusive, in the store's zone")]
    closes: Annotated[Instant, Meta(description="exclusive; may be on the next day")]


class FiscalPlace(Shape):
    """Where a day lies in the 4-5-4 calendar."""

    year: Annotated[int, Meta(description="the one in which the fiscal year begins")]
    quarter: Annotated[int, Meta(ge=1, le=4, description="of 13 weeks; the last may have 14")]
    period: Annotated[int, Meta(ge=1, le=12, description="of 4, 5 and 4 weeks in each quarter")]
    week: Annotated[int, Meta(ge=1, le=53, description="from Sunday to Saturday")]


class CalendarDay(Shape):
    """One local day of the store."""

    # The field is not called `date`, because that name would hide the type.
    day: Annotated[date, Meta(description="by the store's clock")] = field(name="date")
    start: Annotated[Instant, Meta(description="inclusive, in the store's zone")]
    end: Annotated[Instant, Meta(description="exclusive, in the store's zone")]
    quarter_hours: Annotated[int, Meta(description="96; where clocks change 92 or 100")]
    open: Annotated[
        list[OpenHours] | None,
        Meta(description="spans that begin on the day; empty: closed; null: not known"),
    ]
    holiday: Annotated[
        str | None, Meta(description="in English, `; ` between several; null: an ordinary day")
    ]
    fiscal: Annotated[FiscalPlace, Meta(description="of the National Retail Federation")]
    like_for_like: Annotated[
        date | None, Meta(description="day of the year before to compare with; null: none is alike")
    ]
    because: Annotated[str, Meta(description="why that day, or none, as a sentence")]


class CalendarAnswer(Shape):
    """The local days of one store."""

    store: Annotated[str, Meta(description="its id")]
    from_: Annotated[date, Meta(description="inclusive")] = field(name="from")
    to: Annotated[date, Meta(description="exclusive")]
    tz: Annotated[str, Meta(description="IANA time zone of the store")]
    day_starts: Annotated[str, Meta(description="when its days begin, by its clock: HH:MM")]
    country: Annotated[str | None, Meta(description="ISO 3166-1, on the first day")]
    subdivision: Annotated[str | None, Meta(description="part of the country, on the first day")]
    holidays_unknown: Annotated[
        str | None, Meta(description="why days may lack their holidays; null: they do not")
    ]
    days: Annotated[list[CalendarDay], Meta(description="ascending")]


class CalendarQuery(Parameters):
    """Parameters of a store's calendar."""

    from_: Annotated[
        str, Field(alias="from", max_length=1_000, description="first local day: YYYY-MM-DD")
    ]
    to: Annotated[
        str,
        Field(max_length=1_000, description="day after the last one, at most 400 on: YYYY-MM-DD"),
    ]


def add_store_routes(app: FastAPI, pages: Pages) -> None:
    """Add the routes for the list of stores, and for the days of one."""

    @app.get(
        "/v1/stores",
        summary="Stores with events, and those of the stores file",
        responses={**REFUSALS, 200: response_entry("a page of stores", StoreList)},
    )
    async def stores(query: Annotated[PageQuery, Query()], request: Request) -> Response:
        entries = {entry["store_id"]: entry for entry in await pages.stores.entries()}
        ids, following = cut_list(entries, query, request)
        return json_response({"stores": [entries[name] for name in ids], "next": following})

    @app.get(
        "/v1/stores/{store}/calendar",
        summary="Local days of a store: hours, holidays, fiscal weeks, and what each is like",
        responses={
            **REFUSALS,
            200: response_entry("each of the days, ascending", CalendarAnswer),
            404: NO_STORE,
        },
    )
    async def calendar(
        store: Annotated[str, Path(description="its id")], query: Annotated[CalendarQuery, Query()]
    ) -> Response:
        first, end = parse_day_span(query.from_, query.to)
        await pages.stores.check([store])
        # Run in a thread, because the first query about a country loads its holidays.
        store_days = await ANSWERS.run(store_calendar, pages.registry.store(store), first, end)
        return json_response(_answer(store_days))


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
