"""Instants of wall time: quiet hours and daily messages, by the clock of a store.

A time that a clock skips means the first instant after the gap. If a clock shows a time twice, a
start means the first instant, and an end the last. "When the clock shows it" would be never on some
dates, and twice on others. A date that a zone skips, as Samoa did in 2011, has no instant.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, NamedTuple
from zoneinfo import ZoneInfo

from msgspec import Meta, Struct

from tally.errors import BadSettings
from tally.time.opening_hours import WEEKDAYS

_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)\Z", re.ASCII)
_DAY = timedelta(days=1)
_QuietText = Annotated[str, Meta(max_length=20)]


class QuietHours(Struct, frozen=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    """A daily span in which a channel is quiet: `days` as `mon-fri`, from and to as `08:00`."""

    days: _QuietText
    from_: _QuietText
    to: _QuietText


class QuietSpan(NamedTuple):
    """A daily span of the clock on these days, 0 for Monday; it may end on the next day."""

    days: frozenset[int]
    starts: time
    ends: time


def start_instant(day: date, clock: time, zone: ZoneInfo) -> datetime | None:
    """The instant of a start at this time of this date, in UTC; None without such a date.

    >>> start_instant(date(2026, 3, 29), time(2, 30), ZoneInfo("Europe/Rome"))
    datetime.datetime(2026, 3, 29, 1, 0, tzinfo=datetime.timezone.utc)
    """
    # The date is checked and not the time, because a date exists even if its clock skips the time.
    midnight = _instant(day, time(0), zone, 0).astimezone(zone)
    return _instant(day, clock, zone, 0) if midnight.date() == day else None


def end_instant(day: date, clock: time, zone: ZoneInfo) -> datetime:
    """The instant of an end at this time of this date, in UTC."""
    return _instant(day, clock, zone, 1)


def parse_quiet_spans(hours: Sequence[QuietHours]) -> tuple[QuietSpan, ...]:
    """The spans that a channel names. Raises BadSettings, whose message says what is expected."""
    return tuple(map(_parse_span, hours))


def quiet_until(instant: datetime, spans: Sequence[QuietSpan], zone: ZoneInfo) -> datetime | None:
    """The end of the quiet time around an instant, in UTC, over adjacent spans; None for none."""
    shown = instant.astimezone(zone).date()
    ends = instant
    # A span may begin a day before and end a day later, and a clock may be set by a whole day.
    for begins, over in sorted(_spans_around(shown, spans, zone)):
        if begins <= ends < over:
            ends = over
    return ends if ends > instant else None


def _spans_around(
    shown: date, spans: Sequence[QuietSpan], zone: ZoneInfo
) -> Iterator[tuple[datetime, datetime]]:
    for shift in range(-2, 9):
        day = shown + shift * _DAY
        for span in spans:
            begins = start_instant(day, span.starts, zone) if day.weekday() in span.days else None
            # No span begins on a date that the zone skips.
            if begins is not None:
                last = day if span.ends > span.starts else day + _DAY
                yield begins, end_instant(last, span.ends, zone)


def _instant(day: date, clock: time, zone: ZoneInfo, fold: int) -> datetime:
    shown = datetime.combine(day, clock)
    instant = shown.replace(tzinfo=zone, fold=fold).astimezone(UTC)
    # If a conversion there and back changes the time, the clock does not show it.
    if instant.astimezone(zone).replace(tzinfo=None) == shown:
        return instant
    return _after_gap(shown, zone)


def _after_gap(shown: datetime, zone: ZoneInfo) -> datetime:
    """The first instant after a time that the clock skips."""
    # In a gap, the earlier offset gives an instant after the gap, the later one an instant before.
    readings = (shown.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    before, after = sorted(reading.astimezone(UTC) for reading in readings)
    while after - before > timedelta(seconds=1):
        between = before + (after - before) // 2
        if between.astimezone(zone).replace(tzinfo=None) < shown:
            before = between
        else:
            after = between
    # Clocks are set at whole seconds.
    return after.replace(microsecond=0)


def _parse_span(hours: QuietHours) -> QuietSpan:
    first, dash, last = hours.days.partition("-")
    if first not in WEEKDAYS or (last if dash else first) not in WEEKDAYS:
        raise BadSettings(f"quiet hours: {hours.days!r} are no days; write sat, or mon-fri")
    start = WEEKDAYS.index(first)
    count = (WEEKDAYS.index(last) - start) % len(WEEKDAYS) + 1 if dash else 1
    days = frozenset((start + more) % len(WEEKDAYS) for more in range(count))
    # People write the end of a day as 24:00, which is the start of the next day.
    ends = "00:00" if hours.to == "24:00" else hours.to
    return QuietSpan(days, _parse_time(hours.from_), _parse_time(ends))


def _parse_time(text: str) -> time:
    matched = _CLOCK.match(text)
    if matched is None:
        raise BadSettings(f"quiet hours: {text!r} is no time of the clock; write 22:00")
    return time(int(matched[1]), int(matched[2]))
