"""A checked question: the stores that it is about, and their stretches of time."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from serving.questions import grains
from serving.questions.catalogue import StockBaseline
from serving.questions.grains import Resets
from serving.questions.stores import StoreRegistry
from tally.errors import BadInstant, BadQuery
from tally.time.day_clock import DayClock, zone_name
from tally.time.instants import UTC_CLOCK, format_instant, parse_instant
from tally.time.windows import TimeRange, day_start, last_utc_day, utc_days

# A whole question is cut before a page is read: one store has at most 38,400 stretches.
LONGEST_DAYS = {"15m": 400, "1h": 1_600, "1d": 10_000, "1w": 10_000}
MAX_STORES = 1_000
# The most stores, metrics or rows of one page.
MAX_ENTRIES = 10_000
STORE_ZONE = "store"
# The most values that one question may list, over all its stores.
MAX_VALUES = 200_000
# The most days of a calendar.
MAX_CALENDAR_DAYS = 400
EARLIEST = datetime(1971, 1, 2, tzinfo=UTC)
LATEST = datetime(2169, 11, 13, tzinfo=UTC)
# \Z and not $, which accepts a trailing newline; ASCII, for \d matches the digits of all scripts.
DATE = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)
# An offset's + that was not escaped in the address arrives as a space.
_UNESCAPED_OFFSET = re.compile(r"(?<=\d) (\d\d:\d\d)\Z", re.ASCII)


# Texts and no values, so that an error message can quote what the client wrote.
@dataclass(frozen=True)
class MetricQuestion:
    """A question about a metric, each part as the text that was received.

    `store` and `by` may hold several names with commas; `store` may be `all`, `tz` STORE_ZONE.
    """

    store: Sequence[str]
    from_: str
    to: str
    grain: str
    tz: str
    by: Sequence[str] = ()
    as_of: str | None = None


@dataclass(frozen=True)
class StoreSlots:
    """One store, the clock of its question, and the stretches that the question is about.

    `rows_per_slot` is the number of rows that each stretch has in the answer, `resets` are those of
    a level, and `stock_baseline` says since when a stock is counted.
    """

    store_id: str
    clock: DayClock
    slots: tuple[TimeRange, ...]
    rows_per_slot: int = 1
    resets: Resets | None = None
    stock_baseline: StockBaseline | None = None

    @property
    def zone(self) -> ZoneInfo:
        """The zone whose times are shown."""
        return self.clock.zone

    @property
    def tz(self) -> str:
        """The name of that zone; if it has changed, that of the last stretch."""
        return zone_name(self.zone, self.slots[-1].start)

    @property
    def span(self) -> TimeRange:
        """The span that has to be read for the stretches, UTC."""
        return TimeRange(self.read_from(), self.slots[-1].end)

    def read_from(self, place: int = 0) -> datetime:
        """The instant (UTC) where the read for the stretch at `place`, and later ones, begins."""
        start, end = self.slots[place]
        if self.stock_baseline is not None:
            return min(start, self.stock_baseline.since)
        # A level begins with the reset before the end of the stretch.
        return start if self.resets is None else min(start, self.resets.day_before(end).start)


def slot_days(store: StoreSlots) -> list[date]:
    """The UTC days that a store's stretches touch."""
    return utc_days(*store.span)


def first_and_last_day(store: StoreSlots) -> tuple[date, date]:
    """The first and the last UTC day that a store's stretches touch."""
    # Not by utc_days(), which lists 3,650 days in ten years for each of thousands of stores.
    first, end = store.span
    return first.astimezone(UTC).date(), last_utc_day(end)


def parse_stores(texts: Sequence[str]) -> list[str] | None:
    """The stores that texts name, in their order and once each; None for `all`. Raises BadQuery."""
    asked = split_names(texts)
    if not asked or len(asked) > MAX_STORES:
        expected = f"expected 1 to {MAX_STORES} store ids or `all`"
        raise BadQuery("store", f"store: {expected}, got {len(asked)}")
    return None if asked == ["all"] else asked


def split_names(texts: Sequence[str]) -> list[str]:
    """The parts between the commas of the texts, in their order and once each."""
    return list(dict.fromkeys(part for text in texts for part in text.split(",") if part))


def dimensions(question: MetricQuestion, allowed: Sequence[str]) -> list[str]:
    """The dimensions as the question names them. Raises BadQuery for one that is not allowed."""
    asked = [part for text in question.by for part in text.split(",") if part]
    for name in asked:
        if name not in allowed:
            has = ", ".join(allowed) or "none"
            detail = f"by: {name[:64]!r} is no dimension of this metric; it has {has}"
            raise BadQuery("by", detail, tuple(allowed))
    return asked


def cut_all_slots(
    question: MetricQuestion, store_ids: Sequence[str], registry: StoreRegistry
) -> list[StoreSlots]:
    """The stretches of each store; by its own clock, days begin when the store's do.

    Raises BadQuery for an unknown zone, an unreadable or off-grid instant, a from that is not
    before to, and a span that is too long.
    """
    by_clock: dict[DayClock, StoreSlots] = {}
    found = []
    for store_id in store_ids:
        clock = _clock(question, store_id, registry)
        # A thousand stores have few zones, and a calendar of ten years costs the same for each.
        if clock not in by_clock:
            slots = grains.slots(*check_span(question, clock), question.grain, clock)
            by_clock[clock] = StoreSlots(store_id, clock, slots)
        found.append(replace(by_clock[clock], store_id=store_id))
    return found


def cut_slots(question: MetricQuestion, store_id: str, registry: StoreRegistry) -> StoreSlots:
    """The stretches of one store. Raises BadQuery as cut_all_slots()."""
    (found,) = cut_all_slots(question, [store_id], registry)
    return found


def _clock(question: MetricQuestion, store_id: str, registry: StoreRegistry) -> DayClock:
    if question.tz == STORE_ZONE:
        return registry.store(store_id).clock
    try:
        zone = ZoneInfo(question.tz)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        detail = f"tz: {question.tz!r} is no IANA time zone, e.g. Europe/Rome, nor `store`"
        raise BadQuery("tz", detail) from error
    return DayClock.from_zone(zone)


def check_span(question: MetricQuestion, clock: DayClock) -> TimeRange:
    """The from and to of the question in UTC, on the grain's grid. Raises BadQuery."""
    start = instant(question.from_, "from", clock)
    end = instant(question.to, "to", clock)
    if start >= end:
        raise BadQuery("from", f"from: {question.from_} is not before to: {question.to}")
    if end - start > timedelta(days=LONGEST_DAYS[question.grain]):
        most = f"at most {LONGEST_DAYS[question.grain]} days of {question.grain}"
        raise BadQuery("to", f"to: {most}; ask for less, or for a coarser grain")
    for field, value in (("from", start), ("to", end)):
        check_years(field, value)
        if not grains.on_grid(value, question.grain, clock):
            around = grains.nearest(value, question.grain, clock)
            near = tuple(format_instant(boundary, clock.zone) for boundary in around)
            shown, name = format_instant(value, clock.zone), zone_name(clock.zone, value)
            what = f"{field}: {shown} is off the {question.grain} grid of {name}"
            raise BadQuery(field, f"{what}; nearest {' and '.join(near)}", near)
    return TimeRange(start, end)


def instant(text: str, field: str, clock: DayClock) -> datetime:
    """The instant in UTC of a date (its begin) or of a text with offset. Raises BadQuery."""
    try:
        if DATE.match(text):
            return clock.start_of_day(date.fromisoformat(text))
        return parse_instant(_UNESCAPED_OFFSET.sub(r"+\1", text), field)
    # OverflowError is raised for a midnight of a zone before the year 1, or after 9999.
    except (BadInstant, ValueError, OverflowError) as error:
        expected = "expected YYYY-MM-DD or an instant as 2017-09-19T22:45:00Z"
        raise BadQuery(field, f"{field}: {text[:40]!r}: {expected} ({error})") from error


def as_of_instant(question: MetricQuestion) -> datetime | None:
    """The instant whose answer is wanted, None for now. Raises BadQuery, also for the future."""
    if question.as_of is None:
        return None
    asked = instant(question.as_of, "as_of", UTC_CLOCK)
    if asked > datetime.now(UTC):
        advice = "leave it out for the answer of now"
        raise BadQuery("as_of", f"as_of: {question.as_of[:40]} has not come yet; {advice}")
    return asked


def check_years(field: str, value: datetime) -> None:
    """Raise BadQuery for an instant that lies outside of the years that can be asked for."""
    if not EARLIEST < value < LATEST:
        raise BadQuery(field, f"{field}: {value.isoformat()} lies outside of 1971 to 2169")


def parse_day_span(from_: str, to: str) -> tuple[date, date]:
    """The first day and the one after the last. Raises BadQuery for texts that are no such span."""
    first, end = _day("from", from_), _day("to", to)
    if first >= end:
        raise BadQuery("from", f"from: {from_} is not before to: {to}")
    # Limited, for a holiday is looked up some hundred times.
    if (end - first).days > MAX_CALENDAR_DAYS:
        raise BadQuery("to", f"to: at most {MAX_CALENDAR_DAYS} days; ask for them in parts")
    return first, end


def _day(field: str, text: str) -> date:
    try:
        day = date.fromisoformat(text) if DATE.match(text) else None
    except ValueError:
        day = None
    if day is None:
        raise BadQuery(field, f"{field}: {text[:40]!r}: expected a day as 2026-11-26")
    check_years(field, day_start(day))
    return day


def with_resets(
    stores: Sequence[StoreSlots], grain: str, registry: StoreRegistry
) -> list[StoreSlots]:
    """The stores with their resets, and with their own days. Raises BadQuery for others' days."""
    own: dict[Resets, tuple[TimeRange, ...]] = {}
    found = []
    for asked in stores:
        store = registry.store(asked.store_id)
        resets = Resets(store.clock)
        slots = asked.slots
        if grain == "1d":
            _check_zone(asked, resets)
            # Cached: a thousand stores have few zones, and few times at which their days begin.
            if resets not in own:
                days = (slot.start.astimezone(asked.zone).date() for slot in slots)
                own[resets] = tuple(map(resets.day_on, days))
            slots = own[resets]
        found.append(replace(asked, slots=slots, resets=resets))
    return found


def _check_zone(asked: StoreSlots, resets: Resets) -> None:
    for slot in (asked.slots[0], asked.slots[-1]):
        # Compared by name: a question may also name the zone that the store had on these days.
        day = slot.start.astimezone(asked.zone).date()
        wanted = resets.clock.on(day).zone.key
        shown = zone_name(asked.zone, slot.start)
        if shown != wanted:
            own = f"a level's days are the store's own, of {wanted} for store {asked.store_id}"
            detail = f"tz: {own}, and not of {shown}; ask with tz={STORE_ZONE}"
            raise BadQuery("tz", detail, (STORE_ZONE,))
