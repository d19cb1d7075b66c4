"""What is known of a store besides its events: name, time zone, currency; from the stores file, else the defaults."""

from collections.abc import Mapping
from dataclasses import dataclass
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import yaml

from tally.errors import TallyError
from tally.settings import Settings


@dataclass(frozen=True)
class Store:
    """One store's name, IANA time zone and ISO 4217 currency."""

    store_id: str
    name: str
    tz: str
    currency: str


class StoreBook:
    """Every store of the stores file, and defaults for all others."""

    def __init__(self, listed: Mapping[str, Store], default_tz: str, default_currency: str) -> None:
        self.listed = listed
        self._tz, self._currency = default_tz, default_currency

    @classmethod
    def load(cls, settings: Settings) -> "StoreBook":
        """The book of these settings. Raises TallyError for a time zone that does not exist."""
        file = settings.stores_file
        entries = (yaml.safe_load(file.read_text("utf-8")) if file else None) or {}
        book = cls({}, settings.default_timezone, settings.default_currency)
        listed = {str(store_id): book._store(str(store_id), entry or {}) for store_id, entry in entries.items()}
        for store in (*listed.values(), book.store("default")):
            _check_zone(store, str(file or "TALLY_DEFAULT_TIMEZONE"))
        return cls(listed, settings.default_timezone, settings.default_currency)

    def store(self, store_id: str) -> Store:
        """The store as listed, or with the defaults and its id for a name."""
        return self.listed.get(store_id) or self._store(store_id, {})

    def _store(self, store_id: str, entry: Mapping[str, str]) -> Store:
        name, tz, currency = entry.get("name", store_id), entry.get("tz", self._tz), entry.get("currency", self._currency)
        return Store(store_id, str(name), tz, currency)


def _check_zone(store: Store, where: str) -> None:
    try:
        ZoneInfo(store.tz)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise TallyError(f"{where}: store {store.store_id}: tz {store.tz!r} is no IANA time zone, e.g. Europe/Rome") from error
