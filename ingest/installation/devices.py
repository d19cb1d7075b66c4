"""Rules for people's devices: key periods, opening hours, networks and vendors' secrets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from itertools import compress
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from ingest.installation.stores import StoreClocks
from runtime.records.device_keys import DeviceKeys
from runtime.registry.stores import StoreEntry
from tally.config.settings import Settings
from tally.errors import BadSettings
from tally.events.identity import is_address
from tally.people.visits import MINUTE_SECONDS, MinuteSpan
from tally.time.day_clock import DatedPeriod

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
        """The spans of a period in minutes since 1970 (UTC), ends inclusive; None if unknown."""
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
    start, end = to_minutes(period.start), to_minutes(period.end)
    spans = (span for day in days for span in entry.open_spans(day, zone) or ())
    minutes = (map(to_minutes, span) for span in spans)
    cut = ((max(start, first), min(end, beyond)) for first, beyond in minutes)
    return [(first, beyond - 1) for first, beyond in cut if first < beyond]


def to_minutes(instant: datetime) -> int:
    """The minute of an instant, counted from 1970 (UTC)."""
    return int(instant.timestamp()) // MINUTE_SECONDS


class VendorSecret(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The secret of a vendor's senders, and the validator that they read before they send."""

    secret: str = ""
    validator: str = ""

    def __repr__(self) -> str:
        # Tracebacks show the rules, and must not show a secret.
        return "VendorSecret(…)"


class AccessPointListing(NamedTuple):
    """The local days on which a store lists an access point: [first_day, beyond)."""

    first_day: date
    end_day: date
    store_id: str


@dataclass(frozen=True)
class DeviceRules:
    """Keys and key periods of devices; stores of networks, and access points' days ascending."""

    keys: DeviceKeys = field(default_factory=lambda: DeviceKeys(Path(".tally/keys")))
    days: int = 1
    networks: Mapping[str, str] = field(default_factory=dict)
    access_points: Mapping[str, Sequence[AccessPointListing]] = field(default_factory=dict)
    vendors: Mapping[str, VendorSecret] = field(default_factory=dict)
    opening: OpeningRules = field(default_factory=OpeningRules)

    @classmethod
    def from_settings(cls, settings: Settings, stores: Mapping[str, StoreEntry]) -> "DeviceRules":
        """The rules of these settings and stores. Raises BadSettings."""
        return cls(
            DeviceKeys(settings.key_folder or settings.home / "keys"),
            settings.key_days,
            {network: store_id for store_id, store in stores.items() for network in store.networks},
            _access_points(stores),
            _vendors(settings.vendor_secrets.get_secret_value()),
            OpeningRules(stores),
        )

    def store_listing(
        self, access_point: str, instant: datetime, clocks: StoreClocks
    ) -> str | None:
        """The store that lists an access point (its address) on the local day of the instant."""
        listed = self.access_points.get(access_point, ())
        is_begun = [item.first_day <= clocks.day(item.store_id, instant) for item in listed]
        started = [*compress(listed, is_begun)]
        if not started:
            # So that the data which a new access point sends early is not lost.
            return listed[0].store_id if listed else None
        last = started[-1]
        # By the clock of the store that it moves to, the first day there may begin later.
        is_moving = any(listing.first_day == last.end_day for listing in listed)
        if is_moving or clocks.day(last.store_id, instant) < last.end_day:
            return last.store_id
        return None


def _access_points(stores: Mapping[str, StoreEntry]) -> dict[str, list[AccessPointListing]]:
    by_address: dict[str, list[AccessPointListing]] = {}
    for store_id, store in stores.items():
        for name, first_day, beyond in store.access_point_days():
            # Any other name is not unique: several access points may have been given it.
            if is_address(name):
                listing = AccessPointListing(first_day, beyond, store_id)
                by_address.setdefault(name, []).append(listing)
    return {name: sorted(days) for name, days in by_address.items()}


def _vendors(text: str) -> dict[str, VendorSecret]:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, VendorSecret])
    except msgspec.MsgspecError as error:
        # The error must not show the text, which is a secret.
        form = '{"meraki": {"secret": "…", "validator": "…"}}'
        raise BadSettings(f"TALLY_VENDOR_SECRETS: is not JSON like {form}: {error}") from None
