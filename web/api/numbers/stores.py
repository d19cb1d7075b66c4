"""The routes for the list of stores, and for the calendar and the sensors of one."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo

from fastapi import FastAPI, Path, Query, Request, Response
from msgspec import Meta, field
from pydantic import Field

from runtime.http.answers import Shape, json_response
from runtime.http.work_pools import ANSWERS
from schemas.metric import Grain
from serving.answer import Query as FamilyQuery
from serving.cells import cells
from serving.cells.coverage import SensorName, SensorSeconds
from serving.questions import catalogue
from serving.questions.question import (
    MAX_ENTRIES,
    MetricQuestion,
    StoreSlots,
    cut_slots,
    parse_day_span,
)
from serving.questions.stores import DescribedDay, StoreCalendar, store_calendar
from tally.errors import BadQuery
from tally.time.instants import format_instant
from web.api.numbers.pages import FROM_MEANING, Pages, format_span
from web.api.requests import shared
from web.api.requests.shared import NO_STORE, Instant, JsonFields, Next, Parameters, declare, means


class ListedStore(Shape):
    """One store."""

    store_id: Annotated[str, means("`operation_id` of its receipts")]
    name: Annotated[str, means("name for people; the id where the stores file has none")]
    tz: Annotated[str, means("IANA time zone")]
    currency: Annotated[str, means("ISO 4217")]
    first_day: Annotated[date | None, means("first UTC day with events; null: none yet")]
    last_day: Annotated[date | None, means("last UTC day with events")]


class StoreList(Shape):
    """A page of stores, by id ascending."""

    stores: Annotated[list[ListedStore], means("at most `limit`")]
    next: Next


class OpenHours(Shape):
    """From when to when the store is open."""

    opens: Annotated[Instant, means("inclusive, in the store's zone")]
    closes: Annotated[Instant, means("exclusive; may be on the next day")]


class FiscalPlace(Shape):
    """Where a day lies in the 4-5-4 calendar."""

    year: Annotated[int, means("the one in which the fiscal year begins")]
    quarter: Annotated[int, Meta(ge=1, le=4, description="of 13 weeks; the last may have 14")]
    period: Annotated[int, Meta(ge=1, le=12, description="of 4, 5 and 4 weeks in each quarter")]
    week: Annotated[int, Meta(ge=1, le=53, description="from Sunday to Saturday")]


class CalendarDay(Shape):
    """One local day of the store."""

    # The field is not called `date`, because that name would hide the type.
    day: Annotated[date, means("by the store's clock")] = field(name="date")
    start: Annotated[Instant, means("inclusive, in the store's zone")]
    end: Annotated[Instant, means("exclusive, in the store's zone")]
    quarter_hours: Annotated[int, means("96; where clocks change 92 or 100")]
    open: Annotated[
        list[OpenHours] | None, means("spans that begin on the day; empty: closed; null: not known")
    ]
    holiday: Annotated[str | None, means("in English, `; ` between several; null: an ordinary day")]
    fiscal: Annotated[FiscalPlace, means("of the National Retail Federation")]
    like_for_like: Annotated[
        date | None, means("day of the year before to compare with; null: none is alike")
    ]
    because: Annotated[str, means("why that day, or none, as a sentence")]


class CalendarAnswer(Shape):
    """The local days of one store."""

    store: Annotated[str, means("its id")]
    from_: Annotated[date, means("inclusive")] = field(name="from")
    to: Annotated[date, means("exclusive")]
    tz: Annotated[str, means("IANA time zone of the store")]
    day_starts: Annotated[str, means("when its days begin, by its clock: HH:MM")]
    country: Annotated[str | None, means("ISO 3166-1, on the first day")]
    subdivision: Annotated[str | None, means("part of the country, on the first day")]
    holidays_unknown: Annotated[
        str | None, means("why days may lack their holidays; null: they do not")
    ]
    days: Annotated[list[CalendarDay], means("ascending")]


class CalendarQuery(Parameters):
    """Parameters of a store's calendar."""

    from_: Annotated[
        str, Field(alias="from", max_length=1_000, description="first local day: YYYY-MM-DD")
    ]
    to: Annotated[
        str,
        Field(max_length=1_000, description="day after the last one, at most 400 on: YYYY-MM-DD"),
    ]


PathStore = Annotated[str, Path(description="its id")]


def add_store_routes(app: FastAPI, pages: Pages) -> None:
    """Add the routes for the list of stores, and for the days of one."""

    @app.get(
        "/v1/stores",
        summary="Stores with events, and those of the stores file",
        responses=declare("a page of stores", StoreList),
    )
    async def stores(query: Annotated[shared.PageQuery, Query()], request: Request) -> Response:
        entries = {entry["store_id"]: entry for entry in await pages.stores.entries()}
        ids, following = shared.cut_list(entries, query, request)
        return json_response({"stores": [entries[name] for name in ids], "next": following})

    @app.get(
        "/v1/stores/{store}/calendar",
        summary="Local days of a store: hours, holidays, fiscal weeks, and what each is like",
        responses=declare("each of the days, ascending", CalendarAnswer, unknown=NO_STORE),
    )
    async def calendar(store: PathStore, query: Annotated[CalendarQuery, Query()]) -> Response:
        first, end = parse_day_span(query.from_, query.to)
        await pages.stores.check([store])
        # Run in a thread, because the first query about a country loads its holidays.
        store_days = await ANSWERS.run(store_calendar, pages.registry.store(store), first, end)
        return json_response(_answer(store_days))


def _answer(calendar: StoreCalendar) -> JsonFields:
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


def _day(day: DescribedDay, zone: ZoneInfo) -> JsonFields:
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
        "open": spans
        and [{"opens": text(opens), "closes": text(closes)} for opens, closes in spans],
        "holiday": "; ".join(day.holidays) or None,
        "fiscal": day.fiscal._asdict(),
        "like_for_like": day.like.day,
        "because": day.like.reason,
    }


ExpectedSeconds = Annotated[int, means("seconds of the open hours, of windows with an answer")]
ObservedSeconds = Annotated[int, means("those of them for which it was there")]
Share = Annotated[float | None, means("observed of expected; null: none is expected")]


class SensorStretch(Shape):
    """One stretch of time of one sensor."""

    start: Annotated[Instant, means("inclusive")]
    end: Annotated[Instant, means("exclusive")]
    expected_seconds: ExpectedSeconds
    observed_seconds: ObservedSeconds
    coverage: Share


class SensorCoverage(Shape):
    """One sensor: a people counter or an access point."""

    family: Annotated[str, means("view family that it tells of")]
    sensor: Annotated[str, means("its name in records")]
    expected_seconds: ExpectedSeconds
    observed_seconds: ObservedSeconds
    coverage: Share
    rows: Annotated[list[SensorStretch], means("by time ascending")]


class SensorAnswer(Shape):
    """For how long each sensor of a store was there, beside how long it should have been."""

    store: Annotated[str, means("its id")]
    from_: Annotated[Instant, means("inclusive")] = field(name="from")
    to: Annotated[Instant, means("exclusive")]
    tz: Annotated[str, means("IANA time zone of the instants")]
    grain: Annotated[str, means("length of a stretch")]
    threshold: Annotated[float, means("the share from which on a number is complete")]
    sensors: Annotated[list[SensorCoverage], means("by family and name")]


class SensorQuery(Parameters):
    """Parameters of what a store's sensors saw."""

    from_: Annotated[str, Field(alias="from", max_length=1_000, description=FROM_MEANING)]
    to: Annotated[str, Field(max_length=1_000, description="exclusive, as `from`")]
    grain: Annotated[Grain, Field("1d", description="length of a stretch")]
    tz: Annotated[
        str, Field("store", max_length=64, description="IANA time zone, or `store` for its own")
    ]


def add_sensor_routes(app: FastAPI, pages: Pages) -> None:
    """Add the route for the sensors of a store."""

    @app.get(
        "/v1/stores/{store}/sensors",
        summary="For how long each sensor of a store was there, beside how long it was expected",
        responses=declare(
            "each sensor of the stores file, by family and name", SensorAnswer, unknown=NO_STORE
        ),
    )
    async def sensors(store: PathStore, query: Annotated[SensorQuery, Query()]) -> Response:
        await pages.stores.check([store])
        question = MetricQuestion([store], query.from_, query.to, query.grain, query.tz)
        store_slots = await ANSWERS.run(cut_slots, question, store, pages.registry)
        body = {
            "store": store,
            **format_span(store_slots),
            "tz": store_slots.tz,
            "grain": query.grain,
            "threshold": pages.query_engine.reader.coverage.threshold,
            "sensors": await _sensors(store_slots, pages),
        }
        return json_response(body)


async def _sensors(store_slots: StoreSlots, pages: Pages) -> list[JsonFields]:
    # Any metric of a family reads the windows of that family.
    metrics = catalogue.single_family_metrics()
    families = [metric.families[0] for metric in metrics.values()]
    roster = pages.query_engine.reader.roster(pages.registry.store(store_slots.store_id), families)
    rows = len(store_slots.slots) * sum(map(len, roster.values()))
    if rows > MAX_ENTRIES:
        problem = f"{rows:,} stretches of sensors are more than {MAX_ENTRIES:,}"
        raise BadQuery("grain", f"grain: {problem}; ask for less time, or for a coarser grain")
    sensors: list[JsonFields] = []
    for family, listed in sorted(roster.items()):
        question = FamilyQuery(metrics[family], [store_slots], (), None)
        (answer,) = await pages.query_engine.read(question)
        # A sensor that was removed and listed again counts as one.
        for name in sorted({sensor.name for sensor in listed}):
            sensors.append(_sensor(name, answer.result_cells, store_slots.zone))
    return sensors


def _sensor(name: SensorName, served_cells: Sequence[cells.Cell], zone: ZoneInfo) -> JsonFields:
    whole, rows = SensorSeconds(), []
    for cell in served_cells:
        seconds = cell.sensor_coverage.sensors.get(name, SensorSeconds())
        whole = whole.plus(seconds)
        # Each boundary is in the same time zone as the answer's own.
        start, end = (format_instant(instant, zone) for instant in cell.slot)
        rows.append({"start": start, "end": end, **_coverage_fields(seconds)})
    return {"family": name.family, "sensor": name.sensor, **_coverage_fields(whole), "rows": rows}


def _coverage_fields(seconds: SensorSeconds) -> JsonFields:
    return {
        "expected_seconds": seconds.expected,
        "observed_seconds": seconds.observed,
        "coverage": seconds.share,
    }
