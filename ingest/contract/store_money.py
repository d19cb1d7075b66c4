"""In which currency a store's receipts are that name none, and how its tills round: by the day on
which each was closed, so that one that is sent again is the same."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ingest.contract.store_clocks import StoreClocks
from runtime.stores import StoreEntry
from tally.errors import BadSettings
from tally.money import CURRENCIES
from tally.rounding import HALF_UP_BY_LINE, ROUNDINGS, TillRounding
from tally.settings import Settings


@dataclass(frozen=True)
class StoreMoney:
    """By store what the stores file says, and the defaults for all others."""

    default_currency: str
    clocks: StoreClocks = field(default_factory=StoreClocks)
    entries: Mapping[str, StoreEntry] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        settings: Settings,
        stores: Mapping[str, StoreEntry],
        clocks: StoreClocks,
    ) -> "StoreMoney":
        """Of these settings.

        Raises BadSettings for a default that is no currency.
        """
        if settings.default_currency not in CURRENCIES:
            raise BadSettings(
                f"TALLY_DEFAULT_CURRENCY: {settings.default_currency!r} is no currency of ISO 4217,"
                " e.g. EUR"
            )
        told = {
            name: one for name, one in stores.items() if one.changes or one.currency or one.rounding
        }
        return cls(settings.default_currency, clocks, told)

    def currency(self, store_id: str, closed_at: datetime) -> str:
        """That of a receipt that names none."""
        entry = self._on(store_id, closed_at)
        return (entry and entry.currency) or self.default_currency

    def rounding(self, store_id: str, closed_at: datetime) -> TillRounding:
        """How the till rounded."""
        entry = self._on(store_id, closed_at)
        return ROUNDINGS[entry.rounding] if entry and entry.rounding else HALF_UP_BY_LINE

    def _on(self, store_id: str, closed_at: datetime) -> StoreEntry | None:
        entry = self.entries.get(store_id)
        # Hardly any store has ever changed: a day for each receipt would be made for nothing.
        if entry is None or not entry.changes:
            return entry
        return entry.on(self.clocks.day(store_id, closed_at))
