"""The shapes of the reports' answers, as OpenAPI publishes them."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, field

from runtime.openapi import Shape
from serving.api.answers import Complete, Instant, Number


class ListedReport(Shape):
    """One report."""

    id: Annotated[str, Meta(description="its name in addresses")]
    title: Annotated[str, Meta(description="name for people")]
    data_source: Annotated[str, Meta(description="the sensors that it is from")]
    metric: Annotated[str, Meta(description="id of the metric that it shows")]
    pivot: Annotated[
        Literal["day", "hour_of_week", "stay_time"], Meta(description="what `series` is cut by")
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
    value: Annotated[Number, Meta(description="in the unit; null: not known")]


class SeriesEntry(Shape):
    """One day, one hour of the week, or one bin of stay times."""

    value: Annotated[Number, Meta(description="in the unit; null: not known")]
    previous: Annotated[Number | UnsetType, Meta(description="of days: of the earlier one")] = UNSET
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


class ReportBeside(Shape):
    """A metric of the same days, of the same sensors."""

    metric: Annotated[str, Meta(description="its id")]
    name: Annotated[str, Meta(description="its name")]
    unit: Annotated[str, Meta(description="of its value")]
    value: Annotated[Number, Meta(description="null: not known")]


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
    series: Annotated[list[SeriesEntry], Meta(description="by time, or by length, ascending")]
    beside: Annotated[
        ReportBeside | UnsetType, Meta(description="a metric that says what the value is worth")
    ] = UNSET
