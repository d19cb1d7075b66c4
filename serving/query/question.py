"""A question to the API, checked: what is asked of which stores, over which stretches of time."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field

from serving.query import grains
from serving.query.instants import format_instant
from serving.query.stores import StoreRegistry
from tally.errors import BadQuery, RejectedEvent
from tally.instants import parse_instant
from tally.windows import utc_days

LONGEST_DAYS = {"15m": 400, "1h": 1_600, "1d": 10_000, "1w": 10_000}
MOST_STORES = 1_000
# Stores, metrics or rows of one page.
MOST_ENTRIES = 10_000
STORE_ZONE = "store"
EARLIEST, LATEST = datetime(1971, 1, 2, tzinfo=UTC), datetime(2169, 11, 13, tzinfo=UTC)
# \Z and not $, which lets an end of line pass; ASCII, for \d knows the digits of all scripts.
_DATE = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)
# An offset's + that was not escaped in the address arrives as a space.
_UNESCAPED_OFFSET = re.compile(r"(?<=\d) (\d\d:\d\d)\Z", re.ASCII)


class PageQuery(BaseModel):
    """Parameters of a list."""

    model_config = ConfigDict(extra="forbid")
    limit: Annotated[
        int, Field(1_000, ge=1, le=MOST_ENTRIES, description="most entries of one answer")
    ]
    after: Annotated[
        str,
        Field(
            "",
            max_length=1_000,
            description="cursor of a page; taken from `next`, and nothing else is one",
        ),
    ]


class MetricQuery(PageQuery):
    """Parameters of a metric's values; any other is refused."""

    store: Annotated[list[str], Field(description="store ids, repeated or with commas, or `all`")]
    from_: Annotated[
        str,
        Field(
            alias="from",
            description="inclusive: instant with offset, or YYYY-MM-DD for midnight in tz",
        ),
    ]
    to: Annotated[str, Field(description="exclusive, as `from`")]
    grain: Annotated[
        Literal["15m", "1h", "1d", "1w"],
        Field("15m", description="length of a row's stretch; weeks begin on Monday"),
    ]
    tz: Annotated[
        str,
        Field("UTC", max_length=64, description="IANA time zone, or `store` for each store's own"),
    ]
    by: Annotated[list[str], Field([], description="dimensions, comma between; see /v1/metrics")]
    as_of: Annotated[
        str | None, Field(None, description="instant with offset: what was published then")
    ]


@dataclass(frozen=True)
class StoreSlots:
    """One store, its zone, and the stretches that are asked of it.

    Also how many rows of the answer each stretch is.
    """

    store_id: str
    zone: ZoneInfo
    slots: tuple[grains.Slot, ...]
    rows_each: int = 1


def days_of(store: StoreSlots) -> list[date]:
    """The UTC days that a store's stretches touch."""
    return utc_days(store.slots[0][0], store.slots[-1][1])


def store_ids(query: MetricQuery) -> list[str] | None:
    """The stores asked for, in their order and once each; None for all.

    Raises BadQuery for none, or more than MOST_STORES.
    """
    asked = list(
        dict.fromkeys(part for text in query.store for part in text.split(",") if part),
    )
    if not asked or len(asked) > MOST_STORES:
        raise BadQuery(
            "store", f"store: expected 1 to {MOST_STORES} store ids or `all`, got {len(asked)}"
        )
    return None if asked == ["all"] else asked


def dimensions(query: MetricQuery, allowed: Sequence[str]) -> list[str]:
    """The dimensions asked for, as they were named.

    Raises BadQuery for one that the metric does not have.
    """
    asked = [part for text in query.by for part in text.split(",") if part]
    for name in asked:
        if name not in allowed:
            raise BadQuery(
                "by",
                f"by: {name[:64]!r} is no dimension of this metric;"
                f" it has {', '.join(allowed) or 'none'}",
                tuple(allowed),
            )
    return asked


def all_stretches(
    query: MetricQuery, store_ids: Sequence[str], registry: StoreRegistry
) -> list[StoreSlots]:
    """The stretches of each store; of every zone once. Raises BadQuery as `stretches`."""
    by_zone: dict[str, StoreSlots] = {}
    found = []
    for store_id in store_ids:
        key = registry.store(store_id).tz if query.tz == STORE_ZONE else query.tz
        # A thousand stores are of few zones, and a calendar of ten years costs the same for each.
        if key not in by_zone:
            by_zone[key] = stretches(query, store_id, registry)
        found.append(replace(by_zone[key], store_id=store_id))
    return found


def stretches(query: MetricQuery, store_id: str, registry: StoreRegistry) -> StoreSlots:
    """The stretches of one store.

    Raises BadQuery: unknown zone, unreadable or off-grid instant, from not before to, too long.
    """
    zone = _zone(registry.store(store_id).tz if query.tz == STORE_ZONE else query.tz)
    start, end = check_span(query, zone)
    return StoreSlots(store_id, zone, grains.slots(start, end, query.grain, zone))


def check_span(query: MetricQuery, zone: ZoneInfo) -> grains.Slot:
    """From and to in UTC, on the grain's grid. Raises BadQuery."""
    start, end = instant(query.from_, "from", zone), instant(query.to, "to", zone)
    if start >= end:
        raise BadQuery("from", f"from: {query.from_} is not before to: {query.to}")
    if end - start > timedelta(days=LONGEST_DAYS[query.grain]):
        raise BadQuery(
            "to",
            f"to: at most {LONGEST_DAYS[query.grain]} days of {query.grain};"
            " ask for less, or for a coarser grain",
        )
    for field, value in (("from", start), ("to", end)):
        _check_grid(field, value, query.grain, zone)
    return start, end


def instant(text: str, field: str, zone: ZoneInfo) -> datetime:
    """The instant in UTC of a date (midnight in the zone) or of a text with offset.

    Raises BadQuery.
    """
    try:
        if _DATE.match(text):
            return grains.midnight(datetime.fromisoformat(text), zone)
        return parse_instant(_UNESCAPED_OFFSET.sub(r"+\1", text), field)
    # OverflowError: the midnight of a zone that lies before the year 1, or after 9999.
    except (RejectedEvent, ValueError, OverflowError) as error:
        raise BadQuery(
            field,
            f"{field}: {text[:40]!r}:"
            f" expected YYYY-MM-DD or an instant as 2017-09-19T22:45:00Z ({error})",
        ) from error


def as_of_instant(query: MetricQuery) -> datetime | None:
    """The instant whose answer is wanted, None for now.

    Raises BadQuery, also for one that has not come: its answer is not known.
    """
    if query.as_of is None:
        return None
    asked = instant(query.as_of, "as_of", ZoneInfo("UTC"))
    if asked > datetime.now(UTC):
        raise BadQuery(
            "as_of",
            f"as_of: {query.as_of[:40]} has not come yet; leave it out for the answer of now",
        )
    return asked


def check_years(field: str, value: datetime) -> None:
    """Raise BadQuery for an instant that lies outside of the years that can be asked for."""
    if not EARLIEST < value < LATEST:
        raise BadQuery(field, f"{field}: {value.isoformat()} lies outside of 1971 to 2169")


def _check_grid(field: str, value: datetime, grain: str, zone: ZoneInfo) -> None:
    check_years(field, value)
    if not grains.on_grid(value, grain, zone):
        nearest = tuple(format_instant(near, zone) for near in grains.nearest(value, grain, zone))
        detail = (
            f"{field}: {format_instant(value, zone)} is off the {grain} grid of {zone.key};"
            f" nearest {' and '.join(nearest)}"
        )
        raise BadQuery(field, detail, nearest)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadQuery(
            "tz", f"tz: {name!r} is no IANA time zone, e.g. Europe/Rome, nor `store`"
        ) from error
