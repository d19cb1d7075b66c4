"""Opening hours as the stores file states them: spans of the clock by weekday."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby, pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from tally.time.windows import TimeRange

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
HOLIDAYS, CLOSED = "holidays", "closed"
MINUTES_A_DAY = 24 * 60
EXAMPLE = '{mon-fri: "08:00-20:00", sat: "09:00-13:00", sun: closed}'
# People write the end of a day as 24:00; no store opens then.
_SPAN = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-(?:([01]\d|2[0-3]):([0-5]\d)|24:00)\Z", re.ASCII)


class ClockSpan(NamedTuple):
    """A span of being open, in minutes after its day's midnight; may end past MINUTES_A_DAY."""

    opens: int
    closes: int

    def __str__(self) -> str:
        return f"{_format_clock(self.opens)}-{_format_clock(self.closes)}"


Spans = tuple[ClockSpan, ...]


@dataclass(frozen=True)
class OpeningHours:
    """The spans by weekday, from Monday, and of holidays (None: as weekdays); () is closed."""

    weekdays: tuple[Spans, ...]
    holidays: Spans | None = None

    def spans(self, day: date, *, is_holiday: bool = False) -> Spans:
        """The spans that begin on the day, ascending."""
        if is_holiday and self.holidays is not None:
            return self.holidays
        return self.weekdays[day.weekday()]

    def to_mapping(self) -> dict[str, str | list[str]]:
        """The hours as the stores file has them: adjacent weekdays that are alike in one entry."""
        found = {}
        named = zip(WEEKDAYS, self.weekdays, strict=True)
        for spans, alike in groupby(named, lambda pair: pair[1]):
            first, *others = [name for name, _ in alike]
            found["-".join((first, *others[-1:]))] = _format_spans(spans)
        if self.holidays is not None:
            found[HOLIDAYS] = _format_spans(self.holidays)
        return found


def open_spans(day: date, spans: Spans, zone: ZoneInfo) -> Iterator[TimeRange]:
    """The spans (UTC) in which a store with these hours is open on the day, ascending.

    A time that the clock leaves out is as long after midnight as it would be; a time that it shows
    twice means the first.
    """
    midnight = datetime.combine(day, time(), zone)
    for span in spans:
        # By the clock and not by seconds: a store closes at 20:00 even if the night was shorter.
        opens, closes = ((midnight + timedelta(minutes=minute)).astimezone(UTC) for minute in span)
        # A span that lies wholly in a time that the clock leaves out would end before it begins.
        if opens < closes:
            yield TimeRange(opens, closes)


def parse_opening_hours(given: object) -> OpeningHours:
    """The hours of a mapping of texts, e.g. `EXAMPLE`.

    Keys are weekdays, ranges of them and HOLIDAYS; values are a span, several as a list, or CLOSED.
    Raises ValueError, whose message says what is expected.
    """
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"hours by weekday are wanted, e.g. {EXAMPLE}")
    by_name: dict[str, Spans] = {}
    for key, value in given.items():
        for name in expand_weekdays(str(key)):
            if name in by_name:
                raise ValueError(f"{name} is given twice; name each day once")
            by_name[name] = _parse_spans(str(key), value)
    # A day that is left out might be closed or forgotten, which cannot be distinguished.
    if missing := [name for name in WEEKDAYS if name not in by_name]:
        raise ValueError(f"{missing[0]} is missing; write `{missing[0]}: {CLOSED}` if it is")
    _check_next_day(by_name)
    return OpeningHours(tuple(by_name[name] for name in WEEKDAYS), by_name.get(HOLIDAYS))


def expand_weekdays(key: str) -> Sequence[str]:
    """The names that a weekday, a range of them or HOLIDAYS stands for. Raises ValueError."""
    if key == HOLIDAYS:
        return [HOLIDAYS]
    first, dash, last = key.partition("-")
    if first not in WEEKDAYS or (last if dash else first) not in WEEKDAYS:
        raise ValueError(
            f"{key!r} is no weekday, no range of them and not {HOLIDAYS}:"
            f" there are {', '.join(WEEKDAYS)}, and ranges such as mon-fri"
        )
    start = WEEKDAYS.index(first)
    # A range may go over the end of the week: fri-mon are four days.
    count = (WEEKDAYS.index(last) - start) % len(WEEKDAYS) + 1 if dash else 1
    return [WEEKDAYS[(start + shift) % len(WEEKDAYS)] for shift in range(count)]


def _parse_spans(key: str, value: object) -> Spans:
    if value == CLOSED:
        return ()
    listed = value if isinstance(value, list) else [value]
    spans = tuple(sorted(parse_clock_span(key, text) for text in listed))
    for before, after in pairwise(spans):
        if after.opens < before.closes:
            raise ValueError(f"{key}: {after} begins before {before} has ended; join the two")
    return spans


def parse_clock_span(key: str, text: object) -> ClockSpan:
    """The span of a text, e.g. `08:00-20:00`, of the day `key`. Raises ValueError."""
    match = _SPAN.match(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{key}: {text!r} is no span of the clock, e.g. 08:00-20:00, or {CLOSED}")
    hour, minute, to_hour, to_minute = match.groups()
    opens = int(hour) * 60 + int(minute)
    closes = int(to_hour) * 60 + int(to_minute) if to_hour else MINUTES_A_DAY
    return ClockSpan(opens, closes if closes > opens else closes + MINUTES_A_DAY)


def _check_next_day(by_name: Mapping[str, Spans]) -> None:
    # The night of a Sunday ends on a Monday.
    for name, after in pairwise((*WEEKDAYS, WEEKDAYS[0])):
        if not by_name[name] or not by_name[after]:
            continue
        last, first = by_name[name][-1], by_name[after][0]
        if first.opens < last.closes - MINUTES_A_DAY:
            raise ValueError(f"{name}: {last} ends after {after}: {first} has begun; shorten one")


def _format_spans(spans: Spans) -> str | list[str]:
    texts = [str(span) for span in spans]
    return texts if len(texts) > 1 else next(iter(texts), CLOSED)


def _format_clock(minutes: int) -> str:
    # The end of a day is 24:00; a time after it is one of the next day's clock.
    hours, rest = divmod(minutes if minutes <= MINUTES_A_DAY else minutes - MINUTES_A_DAY, 60)
    return f"{hours:02}:{rest:02}"
