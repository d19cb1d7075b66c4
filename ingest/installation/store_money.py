"""The currency of a store's receipts that name none, and how its tills round.

Both depend on the day on which a receipt was closed, so that a receipt sent again stays the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ingest.installation.store_clocks import StoreClocks
from runtime.registry.stores import StoreEntry
from tally.config.settings import Settings
from tally.errors import BadSettings
from tally.events.money import CURRENCIES, HALF_UP_BY_LINE, ROUNDINGS, TillRounding


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
        """The money rules of these settings and stores.

        Raises BadSettings for a default that is no currency.
        """
        if settings.default_currency not in CURRENCIES:
            raise BadSettings(
                f"TALLY_DEFAULT_CURRENCY: {settings.default_currency!r} is no currency of ISO 4217,"
                " e.g. EUR"
            )
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
