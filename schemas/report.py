"""A report as its file describes it: one metric, its stretch beside the one before, and a pivot."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from schemas.family import Words

ReportId = Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$")]
# By what the series is cut: days, hours of the week, bins of how long visits lasted, or articles
# (which no view holds: the receipts do).
Pivot = Literal["day", "hour_of_week", "stay_time", "item"]


class ReportShape(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the file of a report says."""

    id: ReportId
    title: Words
    # As people call the sensors, e.g. "POS, people counter".
    data_source: Words
    metric: ReportId
    pivot: Pivot
    how_to_read: Words
    # A metric of the same family that says what the number is worth.
    beside: ReportId | None = None
