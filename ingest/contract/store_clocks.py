"""By which clock each store's days begin."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from zoneinfo import ZoneInfo

from runtime.stores import StoreEntry
from tally.day_clock import DayClock


@dataclass(frozen=True)
class StoreClocks:
    """The clocks that the stores file tells, by store, and that of all others."""

    default: DayClock = field(default_factory=lambda: DayClock.of(ZoneInfo("UTC")))
    told: Mapping[str, DayClock] = field(default_factory=dict)

    @classmethod
    def of(cls, stores: Mapping[str, StoreEntry], default_zone: ZoneInfo) -> "StoreClocks":
        """Those of these stores; `default_zone`: that of a store that names none."""
        told = {store_id: entry.clock(default_zone.key) for store_id, entry in stores.items()}
        return cls(DayClock.of(default_zone), told)

    def clock(self, store_id: str) -> DayClock:
        """That of a store."""
        return self.told.get(store_id, self.default)

    def day(self, store_id: str, instant: datetime) -> date:
        """The store's own day that holds the instant."""
        try:
            return self.clock(store_id).day(instant)
        except OverflowError:
            # At either end of the calendar the UTC day is as good.
            return instant.date()
