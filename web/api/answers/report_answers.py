"""The shapes of the reports' answers, as OpenAPI publishes them."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, field

from runtime.http.openapi import Shape
from web.api.answers.answers import Complete, Instant, Number

Suppressed = Annotated[
    str | UnsetType,
    Meta(description="why the value is withheld: of too few devices, or not settled"),
]


class ListedReport(Shape):
    """One report."""

    id: Annotated[str, Meta(description="its name in addresses")]
    title: Annotated[str, Meta(description="name for people")]
    data_source: Annotated[str, Meta(description="the sensors that it is from")]
    metric: Annotated[str, Meta(description="id of the metric that it shows")]
    pivot: Annotated[
        Literal["day", "hour_of_week", "stay_time", "item"],
        Meta(description="what `series` is cut by"),
    ]
    how_to_read: Annotated[str, Meta(description="a sentence for people")]
    beside: Annotated[
        str | None, Meta(description="id of a metric that says what the value is worth")
    ]


class ReportList(Shape):
    """Every report, by id ascending."""

    reports: Annotated[list[ListedReport], Meta(description="all of them")]


class SpanBefore(Shape):
    """As many local days: just before, or those that the days are like, as asked."""

    from_: Annotated[Instant, Meta(description="inclusive")] = field(name="from")
    to: Annotated[Instant, Meta(description="exclusive")]
    value: Annotated[Number, Meta(description="in the unit; null: not known, or suppressed")]
    unexplained_minor: Annotated[
        int | UnsetType | None, Meta(description="of a report by item: as of the days themselves")
    ] = UNSET
    suppressed: Suppressed = UNSET


class SeriesEntry(Shape):
    """One day, one hour of the week, one bin of stay times, or one article or category."""

    value: Annotated[Number, Meta(description="in the unit; null: not known")]
    previous: Annotated[
        Number | UnsetType, Meta(description="of days: of the earlier one; of items: before")
    ] = UNSET
    start: Annotated[Instant | UnsetType, Meta(description="of days, inclusive")] = UNSET
    end: Annotated[Instant | UnsetType, Meta(description="of days, exclusive")] = UNSET
    weekday: Annotated[int | UnsetType, Meta(description="of hours: Monday is 1")] = UNSET
    hour: Annotated[int | UnsetType, Meta(description="of hours: of the local clock")] = UNSET
    complete: Annotated[
        bool | UnsetType, Meta(description="of days, of hours: whether all of it is known")
    ] = UNSET
    from_minutes: Annotated[int | UnsetType, Meta(description="of bins, inclusive")] = UNSET
    to_minutes: Annotated[
        int | UnsetType | None, Meta(description="of bins, exclusive; null: the last has no end")
    ] = UNSET
    item_id: Annotated[
        str | UnsetType | None, Meta(description="of items: the article; null of the others")
    ] = UNSET
    item: Annotated[
        str | UnsetType | None,
        Meta(description="of items: as the newest receipt prints it; null of the others"),
    ] = UNSET
    category: Annotated[
        str | UnsetType | None,
        Meta(description="of items, as the newest receipt has it; null: none is named"),
    ] = UNSET
    others: Annotated[
        int | UnsetType, Meta(description="of items: how many the last entry sums up")
    ] = UNSET
    units: Annotated[Number | UnsetType, Meta(description="of items: sold less taken back")] = UNSET
    receipts: Annotated[
        Number | UnsetType,
        Meta(description="of items: receipts that sold it; null of the others, which share some"),
    ] = UNSET
    share: Annotated[
        Number | UnsetType,
        Meta(description="of items: of the value, as a fraction; null: that is not above 0"),
    ] = UNSET
    suppressed: Suppressed = UNSET
    previous_suppressed: Annotated[
        str | UnsetType, Meta(description="why the value of the earlier day is withheld")
    ] = UNSET


class ReportBeside(Shape):
    """A metric of the same days, of the same sensors."""

    metric: Annotated[str, Meta(description="its id")]
    name: Annotated[str, Meta(description="its name")]
    unit: Annotated[str, Meta(description="of its value")]
    value: Annotated[Number, Meta(description="null: not known, or suppressed")]
    suppressed: Suppressed = UNSET


class ReportAnswer(Shape):
    """A metric of one store over some days, beside as many earlier days."""

    report: Annotated[str, Meta(description="id of the report")]
    title: Annotated[str, Meta(description="name for people")]
    data_source: Annotated[str, Meta(description="the sensors that it is from")]
    how_to_read: Annotated[str, Meta(description="a sentence for people")]
    store: Annotated[str, Meta(description="its id")]
    from_: Annotated[Instant, Meta(description="inclusive")] = field(name="from")
    to: Annotated[Instant, Meta(description="exclusive")]
    tz: Annotated[str, Meta(description="IANA time zone of the days")]
    value: Annotated[Number, Meta(description="of all days together; null: not known")]
    unit: Annotated[str, Meta(description="unit of each value")]
    currency: Annotated[str | None, Meta(description="ISO 4217, of money")]
    previous: Annotated[SpanBefore, Meta(description="what the change is against")]
    change_percent: Annotated[
        float | None,
        Meta(
            description=(
                "of the value against the one before; null: it is 0 or not known, or something of"
                " either days is missing"
            )
        ),
    ]
    coverage: Annotated[float, Meta(description="share of the days' quarter hours that are known")]
    complete: Complete
    through: Annotated[Instant | None, Meta(description="all that had arrived by then is counted")]
    series: Annotated[
        list[SeriesEntry],
        Meta(description="by time or by length, ascending; of items by value, descending"),
    ]
    suppressed: Suppressed = UNSET
    beside: Annotated[
        ReportBeside | UnsetType, Meta(description="a metric that says what the value is worth")
    ] = UNSET
    unexplained_minor: Annotated[
        int | UnsetType | None,
        Meta(
            description=(
                "of a report by item: what of the value is on none of the receipts that are read;"
                " null: the value is not known. Where it is not 0 the answer is not complete"
            )
        ),
    ] = UNSET
