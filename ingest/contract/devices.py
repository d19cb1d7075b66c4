"""Devices that people carry: how long one is the same, whose networks tell of them, and who may."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec

from ingest.contract.opening import OpeningRules
from ingest.contract.store_clocks import StoreClocks
from runtime.device_keys import DeviceKeys
from runtime.stores import StoreEntry
from tally.day_clock import DayClock
from tally.errors import BadSettings
from tally.identity import is_address
from tally.key_periods import DatedPeriod, KeyDays
from tally.settings import Settings


class VendorSecret(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a vendor's senders must know, and what is answered to one that asks before it sends."""

    secret: str = ""
    validator: str = ""

    def __repr__(self) -> str:
        # Rules are shown in tracebacks.
        return "VendorSecret(…)"


class ListedDays(NamedTuple):
    """A store lists an access point from one of its local days on until before another."""

    first_day: date
    beyond: date
    store_id: str


@dataclass(frozen=True)
class DeviceRules:
    """Keys and key periods of the stores' devices, and the stores of the vendors' networks and
    access points; of these by address, ascending by day."""

    keys: DeviceKeys = field(default_factory=lambda: DeviceKeys(Path(".tally/keys")))
    days: int = 1
    networks: Mapping[str, str] = field(default_factory=dict)
    access_points: Mapping[str, Sequence[ListedDays]] = field(default_factory=dict)
    vendors: Mapping[str, VendorSecret] = field(default_factory=dict)
    opening: OpeningRules = field(default_factory=OpeningRules)

    @classmethod
    def of(cls, settings: Settings, stores: Mapping[str, StoreEntry]) -> "DeviceRules":
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
        """The store that lists an access point (its address) on the local day of the instant.

        Before the first day on which any does it is the first that will: what a new access point
        sends early is not lost.
        """
        listed = self.access_points.get(access_point, ())
        begun = [one for one in listed if one.first_day <= clocks.day(one.store_id, instant)]
        if not begun:
            return listed[0].store_id if listed else None
        last = begun[-1]
        # By the clock of the store that it moves to, that one's first day may begin later.
        is_moving = any(one.first_day == last.beyond for one in listed)
        if is_moving or clocks.day(last.store_id, instant) < last.beyond:
            return last.store_id
        return None

    def period(self, instant: datetime, clock: DayClock) -> DatedPeriod:
        """The time for which devices that a store of the clock hears then are the same ones."""
        return KeyDays(self.days).period(instant, clock)

    def hashed(self, address: bytes, store_id: str, period: DatedPeriod, kept: timedelta) -> str:
        """The device of an address (6 bytes): 32 hex digits, the same ones until `kept` after the
        period, when its key is destroyed.

        Raises KeysUnreachable.
        """
        return self.keys.hashed(address, store_id, period, kept)


def _access_points(stores: Mapping[str, StoreEntry]) -> dict[str, list[ListedDays]]:
    found: dict[str, list[ListedDays]] = {}
    for store_id, store in stores.items():
        for name, first_day, beyond in store.access_point_days():
            # Another name is that of as many access points as have been given it.
            if is_address(name):
                found.setdefault(name, []).append(ListedDays(first_day, beyond, store_id))
    return {name: sorted(days) for name, days in found.items()}


def _vendors(text: str) -> dict[str, VendorSecret]:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, VendorSecret])
    except msgspec.MsgspecError as error:
        # Not the text: it is a secret.
        raise BadSettings(
            "TALLY_VENDOR_SECRETS: is not JSON like"
            f' {{"meraki": {{"secret": "…", "validator": "…"}}}}: {error}'
        ) from None
