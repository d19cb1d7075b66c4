"""A report as its file describes it: a metric, a stretch next to the one before, and a pivot."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from schemas.family import Words

ReportId = Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$")]
# The axis by which the series is cut: days, hours of the week, bins of the length of visits, or
# articles (which no view holds: the receipts do).
Pivot = Literal["day", "hour_of_week", "stay_time", "item"]


class ReportShape(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The content of a report's file."""

    id: ReportId
    title: Words
    # The common name of the sensors, e.g. "POS, people counter".
    data_source: Words
    metric: ReportId
    pivot: Pivot
    how_to_read: Words
    # A metric of the same family that shows how reliable the number is.
    beside: ReportId | None = None
