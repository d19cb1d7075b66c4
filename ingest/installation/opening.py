"""When a store is open in a key period, by the stores file; visits outside it do not count."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from runtime.registry.stores import StoreEntry
from tally.people.visits import MINUTE_SECONDS, MinuteSpan
from tally.time.key_periods import DatedPeriod

# How many periods of stores are cached: a year of thirty stores.
_CACHE_SIZE = 10_000


@dataclass(frozen=True)
class OpeningRules:
    """The opening hours of stores by the stores file, by store."""

    entries: Mapping[str, StoreEntry] = field(default_factory=dict)
    # A cache: each sighting asks, and the answer is the same for all of a period.
    _cache: dict[tuple[str, date], list[MinuteSpan] | None] = field(
        default_factory=dict, compare=False, repr=False
    )

    def has_hours(self, store_id: str) -> bool:
        """Whether the store has hours, now or from some day on."""
        entry = self.entries.get(store_id)
        return entry is not None and (entry.opening_hours is not None or bool(entry.changes))

    def minutes(
        self, store_id: str, period: DatedPeriod, zone: ZoneInfo
    ) -> list[MinuteSpan] | None:
        """The spans of a period in minutes since 1970 (UTC), first to last inclusive, ascending.

        None if the hours of one of its days are not known.
        """
        entry = self.entries.get(store_id)
        if entry is None:
            return None
        key = store_id, period.first_day
        if key not in self._cache:
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
            self._cache[key] = _minutes(entry, period, zone)
        return self._cache[key]


def _minutes(entry: StoreEntry, period: DatedPeriod, zone: ZoneInfo) -> list[MinuteSpan] | None:
    # The day before may close within the period, and where days begin at four the day after may
    # open within it.
    last = period.end.astimezone(zone).date()
    count = (last - period.first_day).days + 2
    days = [period.first_day + timedelta(number - 1) for number in range(count)]
    if any(entry.valid_on(day).opening_hours is None for day in days[1:-1]):
        return None
    start, end = _minute(period.start), _minute(period.end)
    spans = (span for day in days for span in entry.open_spans(day, zone) or ())
    minutes = (map(_minute, span) for span in spans)
    cut = ((max(start, first), min(end, beyond)) for first, beyond in minutes)
    return [(first, beyond - 1) for first, beyond in cut if first < beyond]


def _minute(instant: datetime) -> int:
    return int(instant.timestamp()) // MINUTE_SECONDS
