"""The shapes of a store's calendar, as OpenAPI publishes them."""

from datetime import date
from typing import Annotated

from msgspec import Meta, field

from runtime.http.openapi import Shape
from web.api.answers.answers import Instant


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
