"""The clock of each store, the currency of its receipts, and how its tills round, by day."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from zoneinfo import ZoneInfo

from runtime.registry.stores import StoreEntry
from tally.config.settings import Settings
from tally.errors import BadSettings
from tally.events.money import CURRENCIES, HALF_UP_BY_LINE, ROUNDINGS, TillRounding
from tally.time.day_clock import DayClock


@dataclass(frozen=True)
class StoreClocks:
    """The clocks of the stores in the stores file, by store, and the default of all others."""

    default: DayClock = field(default_factory=lambda: DayClock.from_zone(ZoneInfo("UTC")))
    by_store: Mapping[str, DayClock] = field(default_factory=dict)

    @classmethod
    def from_stores(cls, stores: Mapping[str, StoreEntry], default_zone: ZoneInfo) -> "StoreClocks":
        """The clocks of these stores; `default_zone` is the zone of a store that names none."""
        clocks = {store_id: entry.clock(default_zone.key) for store_id, entry in stores.items()}
        return cls(DayClock.from_zone(default_zone), clocks)

    def clock(self, store_id: str) -> DayClock:
        """The clock of a store."""
        return self.by_store.get(store_id, self.default)

    def day(self, store_id: str, instant: datetime) -> date:
        """The store's own day that holds the instant."""
        try:
            return self.clock(store_id).day(instant)
        except OverflowError:
            # Near either end of the calendar the UTC day serves instead.
            return instant.date()


@dataclass(frozen=True)
class StoreMoney:
    """The stores file's entries that concern money, by store, and the default of all others."""

    default_currency: str
    clocks: StoreClocks = field(default_factory=StoreClocks)
    entries: Mapping[str, StoreEntry] = field(default_factory=dict)

    @classmethod
    def from_settings(
        cls, settings: Settings, stores: Mapping[str, StoreEntry], clocks: StoreClocks
    ) -> "StoreMoney":
        """The money rules of these settings and stores. Raises BadSettings."""
        if settings.default_currency not in CURRENCIES:
            what = f"{settings.default_currency!r} is no currency of ISO 4217, e.g. EUR"
            raise BadSettings(f"TALLY_DEFAULT_CURRENCY: {what}")
        entries = {
            name: entry
            for name, entry in stores.items()
            if entry.changes or entry.currency or entry.rounding
        }
        return cls(settings.default_currency, clocks, entries)

    def currency(self, store_id: str, closed_at: datetime) -> str:
        """The currency of a receipt that names none."""
        entry = self._entry_at(store_id, closed_at)
        return (entry and entry.currency) or self.default_currency

    def rounding(self, store_id: str, closed_at: datetime) -> TillRounding:
        """How the store's tills rounded when the receipt was closed."""
        entry = self._entry_at(store_id, closed_at)
        return ROUNDINGS[entry.rounding] if entry and entry.rounding else HALF_UP_BY_LINE

    def _entry_at(self, store_id: str, closed_at: datetime) -> StoreEntry | None:
        entry = self.entries.get(store_id)
        # Hardly any store has changes, so computing the day of each receipt would be wasted.
        if entry is None or not entry.changes:
            return entry
        return entry.valid_on(self.clocks.day(store_id, closed_at))
