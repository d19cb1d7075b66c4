"""The facts about a store from the stores file, else the defaults, and its calendar of days."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from runtime.registry.store_fields import parse_zone
from runtime.registry.stores import StoreEntry, load_stores
from tally.config.settings import Settings
from tally.time.day_clock import DayClock, InputDays, KeyDays, LocalDay, local_day, zone_name
from tally.time.fiscal import WEEK, ComparableDay, FiscalDay, fiscal_day, like_for_like
from tally.time.holidays import HolidayNames, missing_reason
from tally.time.windows import TimeRange, days_until


@dataclass(frozen=True)
class Store:
    """One store's name, clock, ISO 4217 currency, and what else the stores file says, by day."""

    store_id: str
    name: str
    clock: DayClock
    currency: str
    # Not compared, for its mappings have no hash; an id has only one entry.
    entry: StoreEntry = field(default_factory=StoreEntry, compare=False, repr=False)

    @property
    def zone(self) -> ZoneInfo:
        """The time zone of its clocks."""
        return self.clock.zone

    @property
    def tz(self) -> str:
        """The IANA name of its time zone, as it is today."""
        return zone_name(self.zone, datetime.now(UTC))

    def as_of_today(self) -> "Store":
        """The store with the name and the currency that it has today, by its own clock."""
        if not self.entry.changes:
            return self
        today = self.entry.valid_on(self.clock.day(datetime.now(UTC)))
        name, currency = today.name or self.store_id, today.currency or self.currency
        return replace(self, name=name, currency=currency)

    def input_days(self, key_days: int) -> InputDays:
        """The function of the UTC days where records of a window's key period may lie."""
        # Built once, for a month has thousands of windows.
        keys, clock = KeyDays(key_days), self.clock
        return lambda start: keys.utc_days(start, clock)


class StoreRegistry:
    """Every store of the stores file, and defaults for all others."""

    def __init__(self, listed: Mapping[str, Store], default_tz: str, default_currency: str) -> None:
        self.listed = listed
        self._tz, self._currency = default_tz, default_currency

    @classmethod
    def load(cls, settings: Settings) -> "StoreRegistry":
        """The stores of these settings. Raises BadSettings for a bad stores file or time zone."""
        # Checked at the start: else a wrong default would surface at the first store without one.
        parse_zone(settings.default_timezone, "TALLY_DEFAULT_TIMEZONE:")
        registry = cls({}, settings.default_timezone, settings.default_currency)
        listed = load_stores(settings.stores_file).items()
        registry.listed = {name: registry._store(name, entry) for name, entry in listed}
        return registry

    def store(self, store_id: str) -> Store:
        """The store as listed, or with the defaults and its id for a name."""
        listed = self.listed.get(store_id)
        # Looked up by day, for a service may run for longer than a name stays valid.
        return listed.as_of_today() if listed else self._store(store_id, StoreEntry())

    def _store(self, store_id: str, entry: StoreEntry) -> Store:
        return Store(
            store_id,
            entry.name or store_id,
            entry.clock(self._tz),
            entry.currency or self._currency,
            entry,
        )


# The day that the first one is compared with lies at most this far back.
_A_YEAR = 53 * WEEK


class DescribedDay(NamedTuple):
    """A local day of a store; `spans` are its opening hours, None if the stores file has none."""

    local: LocalDay
    spans: list[TimeRange] | None
    holidays: HolidayNames
    fiscal: FiscalDay
    like: ComparableDay


@dataclass(frozen=True)
class StoreCalendar:
    """The local days of a store from `first` to before `end`, ascending.

    `country` and `subdivision` are those of the first day; `holidays_unknown` says why days may
    lack their holidays, and is None if they do not.
    """

    store: Store
    first: date
    end: date
    country: str | None
    subdivision: str | None
    holidays_unknown: str | None
    days: tuple[DescribedDay, ...]


def store_calendar(store: Store, first: date, end: date) -> StoreCalendar:
    """The calendar of days that question.parse_day_span() has accepted."""
    entry, last = store.entry.valid_on(first), end - timedelta(days=1)
    return StoreCalendar(
        store,
        first,
        end,
        entry.country,
        entry.subdivision,
        missing_reason(entry.country, first - _A_YEAR, last),
        tuple(_days(store, first, end)),
    )


def _days(store: Store, first: date, end: date) -> Iterator[DescribedDay]:
    for day in days_until(first, end):
        local, holidays = local_day(day, store.clock), store.entry.holidays(day)
        # A date that the zone has skipped is no day.
        if local.start < local.end:
            spans = store.entry.open_spans(day, store.zone)
            like = like_for_like(day, store.entry.holidays)
            yield DescribedDay(local, spans, holidays, fiscal_day(day), like)
