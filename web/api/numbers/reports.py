"""The routes for the list of reports, and for one report."""

from datetime import timedelta
from typing import Annotated, Literal

from fastapi import FastAPI, Path, Query, Response
from msgspec import UNSET, UnsetType, field
from pydantic import Field

from runtime.http.answers import Shape, json_response, response_entry
from runtime.http.work_pools import ANSWERS
from schemas import loader
from schemas.metric import ReportShape
from serving.questions.question import MetricQuestion, cut_slots
from serving.reports.comparison import StoreSpan, like_span
from serving.reports.report import ReportEngine, report_answer
from serving.reports.series import ItemQuestion
from tally.errors import BadQuery, UnknownName
from tally.time.windows import TimeRange
from web.api.numbers.pages import Pages
from web.api.requests.shared import REFUSALS, Complete, Instant, Number, Parameters, declare, means

# As many quarter hours as in any other answer; the same number before them is read too.
MAX_DAYS = 400
Suppressed = Annotated[
    str | UnsetType, means("why the value is withheld: of too few devices, or not settled")
]


class ListedReport(Shape):
    """One report."""

    id: Annotated[str, means("its name in addresses")]
    title: Annotated[str, means("name for people")]
    data_source: Annotated[str, means("the sensors that it is from")]
    metric: Annotated[str, means("id of the metric that it shows")]
    pivot: Annotated[
        Literal["day", "hour_of_week", "stay_time", "item"], means("what `series` is cut by")
    ]
    how_to_read: Annotated[str, means("a sentence for people")]
    beside: Annotated[str | None, means("id of a metric that says what the value is worth")]


class ReportList(Shape):
    """Every report, by id ascending."""

    reports: Annotated[list[ListedReport], means("all of them")]


class SpanBefore(Shape):
    """As many local days: just before, or those that the days are like, as asked."""

    from_: Annotated[Instant, means("inclusive")] = field(name="from")
    to: Annotated[Instant, means("exclusive")]
    value: Annotated[Number, means("in the unit; null: not known, or suppressed")]
    unexplained_minor: Annotated[
        int | UnsetType | None, means("of a report by item: as of the days themselves")
    ] = UNSET
    suppressed: Suppressed = UNSET


class SeriesEntry(Shape):
    """One day, one hour of the week, one bin of stay times, or one article or category."""

    value: Annotated[Number, means("in the unit; null: not known")]
    previous: Annotated[
        Number | UnsetType, means("of days: of the earlier one; of items: before")
    ] = UNSET
    start: Annotated[Instant | UnsetType, means("of days, inclusive")] = UNSET
    end: Annotated[Instant | UnsetType, means("of days, exclusive")] = UNSET
    weekday: Annotated[int | UnsetType, means("of hours: Monday is 1")] = UNSET
    hour: Annotated[int | UnsetType, means("of hours: of the local clock")] = UNSET
    complete: Annotated[
        bool | UnsetType, means("of days, of hours: whether all of it is known")
    ] = UNSET
    from_minutes: Annotated[int | UnsetType, means("of bins, inclusive")] = UNSET
    to_minutes: Annotated[
        int | UnsetType | None, means("of bins, exclusive; null: the last has no end")
    ] = UNSET
    item_id: Annotated[
        str | UnsetType | None, means("of items: the article; null of the others")
    ] = UNSET
    item: Annotated[
        str | UnsetType | None,
        means("of items: as the newest receipt prints it; null of the others"),
    ] = UNSET
    category: Annotated[
        str | UnsetType | None, means("of items, as the newest receipt has it; null: none is named")
    ] = UNSET
    others: Annotated[int | UnsetType, means("of items: how many the last entry sums up")] = UNSET
    units: Annotated[Number | UnsetType, means("of items: sold less taken back")] = UNSET
    receipts: Annotated[
        Number | UnsetType,
        means("of items: receipts that sold it; null of the others, which share some"),
    ] = UNSET
    share: Annotated[
        Number | UnsetType,
        means("of items: of the value, as a fraction; null: that is not above 0"),
    ] = UNSET
    suppressed: Suppressed = UNSET
    previous_suppressed: Annotated[
        str | UnsetType, means("why the value of the earlier day is withheld")
    ] = UNSET


class ReportBeside(Shape):
    """A metric of the same days, of the same sensors."""

    metric: Annotated[str, means("its id")]
    name: Annotated[str, means("its name")]
    unit: Annotated[str, means("of its value")]
    value: Annotated[Number, means("null: not known, or suppressed")]
    suppressed: Suppressed = UNSET


class ReportAnswer(Shape):
    """A metric of one store over some days, beside as many earlier days."""

    report: Annotated[str, means("id of the report")]
    title: Annotated[str, means("name for people")]
    data_source: Annotated[str, means("the sensors that it is from")]
    how_to_read: Annotated[str, means("a sentence for people")]
    store: Annotated[str, means("its id")]
    from_: Annotated[Instant, means("inclusive")] = field(name="from")
    to: Annotated[Instant, means("exclusive")]
    tz: Annotated[str, means("IANA time zone of the days")]
    value: Annotated[Number, means("of all days together; null: not known")]
    unit: Annotated[str, means("unit of each value")]
    currency: Annotated[str | None, means("ISO 4217, of money")]
    previous: Annotated[SpanBefore, means("what the change is against")]
    change_percent: Annotated[
        float | None,
        means(
            "of the value against the one before; null: it is 0 or not known, or"
            " something of either days is missing"
        ),
    ]
    coverage: Annotated[float, means("share of the days' quarter hours that are known")]
    complete: Complete
    through: Annotated[Instant | None, means("all that had arrived by then is counted")]
    series: Annotated[
        list[SeriesEntry], means("by time or by length, ascending; of items by value, descending")
    ]
    suppressed: Suppressed = UNSET
    beside: Annotated[
        ReportBeside | UnsetType, means("a metric that says what the value is worth")
    ] = UNSET
    unexplained_minor: Annotated[
        int | UnsetType | None,
        means(
            "of a report by item: what of the value is on none of the receipts that are"
            " read; null: the value is not known. Where it is not 0 the answer is not complete"
        ),
    ] = UNSET


class ReportQuery(Parameters):
    """Parameters of a report."""

    store: Annotated[str, Field(max_length=1_000, description="one store id")]
    from_: Annotated[str, Field(alias="from", description="first day, inclusive: YYYY-MM-DD in tz")]
    to: Annotated[str, Field(description="day after the last one: YYYY-MM-DD in tz")]
    tz: Annotated[
        str, Field("store", max_length=64, description="IANA time zone, or `store` for its own")
    ]
    # The default does not depend on the days, so that an address always means the same query.
    compare: Annotated[
        Literal["before", "like_for_like"],
        Field(
            "before",
            description="what `previous` is of: as many days just before, or the days of the year"
            " before that these are like, where those follow each other",
        ),
    ]
    by: Annotated[
        Literal["item", "category"] | None,
        Field(None, description="what `series` is of, of a report by item alone; default item"),
    ]
    top: Annotated[
        int | None,
        Field(
            None,
            ge=1,
            le=1_000,
            description="entries before the others are one, of a report by item; default 20",
        ),
    ]


def add_report_routes(app: FastAPI, pages: Pages) -> None:
    """Add the routes for the list of reports and for one report."""
    engine = ReportEngine(pages.query_engine)

    @app.get(
        "/v1/reports",
        summary="The reports",
        responses={200: response_entry("every report", ReportList), 422: REFUSALS[422]},
    )
    async def report_list() -> Response:
        return json_response({"reports": [*loader.reports().values()]})

    @app.get(
        "/v1/reports/{report_id}",
        summary="A metric of one store over some days, beside as many earlier days",
        responses=declare("the report", ReportAnswer, unknown="there is no such report or store"),
    )
    async def report(
        report_id: Annotated[str, Path(description="id of the report")],
        query: Annotated[ReportQuery, Query()],
    ) -> Response:
        shape = _shape(report_id)
        await pages.stores.check([query.store])
        items = _items(query, shape)
        span = await ANSWERS.run(_span, query, pages)
        return json_response(report_answer(await engine.report(shape, span, items)))


def _span(query: ReportQuery, pages: Pages) -> StoreSpan:
    question = MetricQuestion([query.store], query.from_, query.to, "1d", query.tz)
    store_slots = cut_slots(question, query.store, pages.registry)
    span = TimeRange(store_slots.slots[0].start, store_slots.slots[-1].end)
    if span.end - span.start > timedelta(days=MAX_DAYS):
        raise BadQuery("to", f"to: at most {MAX_DAYS} days; ask for less")
    like = None
    if query.compare != "before":
        like = like_span(pages.registry.store(query.store), store_slots)
    store_span = StoreSpan(query.store, store_slots.clock, span, like)
    if store_span.before.start >= store_span.before.end:
        reason = "the zone has left out the day before; ask from one day earlier on"
        raise BadQuery("from", f"from: {reason}")
    return store_span


def _items(query: ReportQuery, shape: ReportShape) -> ItemQuestion:
    if shape.pivot != "item":
        # If the parameter were ignored, the answer would be to another query than the client meant.
        for name, value in (("by", query.by), ("top", query.top)):
            if value is not None:
                raise BadQuery(name, f"{name}: {shape.id} is no report by item; leave it out")
    defaults = ItemQuestion()
    return ItemQuestion(query.by or defaults.by, query.top or defaults.top)


def _shape(report_id: str) -> ReportShape:
    shape = loader.reports().get(report_id)
    if shape is None:
        known = f"there are {', '.join(loader.reports())} (GET /v1/reports)"
        raise UnknownName("report", f"there is no report {report_id[:64]!r}; {known}")
    return shape
