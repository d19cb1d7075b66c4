"""The facts about a store besides its events: name, time zone, currency, and the rest of its entry.

They are from the stores file, else the defaults.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from runtime.registry.store_fields import parse_zone
from runtime.registry.stores import StoreEntry, load_stores
from tally.config.settings import Settings
from tally.time.day_clock import DayClock, zone_name
from tally.time.key_periods import InputDays, KeyDays


@dataclass(frozen=True)
class Store:
    """One store's name, clock, and ISO 4217 currency.

    `entry` is what else the stores file says, by day.
    """

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
        """The function of the UTC days where records of a window's key period may lie.

        It goes by the clock of the store.
        """
        # Built once, for a month has thousands of windows.
        keys, clock = KeyDays(key_days), self.clock

        def find_days(start: datetime) -> tuple[date, ...]:
            return keys.utc_days(start, clock)

        return find_days


class StoreRegistry:
    """Every store of the stores file, and defaults for all others."""

    def __init__(self, listed: Mapping[str, Store], default_tz: str, default_currency: str) -> None:
        self.listed = listed
        self._tz, self._currency = default_tz, default_currency

    @classmethod
    def load(cls, settings: Settings) -> "StoreRegistry":
        """The stores of these settings.

        Raises BadSettings for a stores file or a time zone that does not fit.
        """
        # Checked at the start: else a wrong default would surface at the first store without a
        # zone.
        parse_zone(settings.default_timezone, "TALLY_DEFAULT_TIMEZONE:")
        registry = cls({}, settings.default_timezone, settings.default_currency)
        listed = {
            store_id: registry._store(store_id, entry)
            for store_id, entry in load_stores(settings.stores_file).items()
        }
        return cls(listed, settings.default_timezone, settings.default_currency)

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
