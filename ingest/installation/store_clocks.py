"""The clock of each store, by which its days begin."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from zoneinfo import ZoneInfo

from runtime.registry.stores import StoreEntry
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
