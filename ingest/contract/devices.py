"""Devices that people carry: how long one is the same, whose networks tell of them, and who may."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from ingest.contract.opening import OpeningRules
from runtime.device_keys import DeviceKeys
from runtime.stores import StoreEntry
from tally.day_clock import DayClock
from tally.errors import BadSettings
from tally.key_periods import DatedPeriod, KeyDays
from tally.settings import Settings


class VendorSecret(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a vendor's senders must know, and what is answered to one that asks before it sends."""

    secret: str = ""
    validator: str = ""

    def __repr__(self) -> str:
        # Rules are shown in tracebacks.
        return "VendorSecret(…)"


@dataclass(frozen=True)
class DeviceRules:
    """Keys and key periods of the stores' devices, and the stores of the vendors' networks and
    access points."""

    keys: DeviceKeys = field(default_factory=lambda: DeviceKeys(Path(".tally/keys")))
    days: int = 1
    networks: Mapping[str, str] = field(default_factory=dict)
    access_points: Mapping[str, str] = field(default_factory=dict)
    vendors: Mapping[str, VendorSecret] = field(default_factory=dict)
    opening: OpeningRules = field(default_factory=OpeningRules)

    @classmethod
    def of(cls, settings: Settings, stores: Mapping[str, StoreEntry]) -> "DeviceRules":
        """The rules of these settings and stores. Raises BadSettings."""
        return cls(
            DeviceKeys(settings.key_folder or settings.home / "keys"),
            settings.key_days,
            {network: store_id for store_id, store in stores.items() for network in store.networks},
            {name: store_id for store_id, store in stores.items() for name in store.access_points},
            _vendors(settings.vendor_secrets.get_secret_value()),
            OpeningRules(stores),
        )

    def period(self, instant: datetime, clock: DayClock) -> DatedPeriod:
        """The time for which devices that a store of the clock hears then are the same ones."""
        return KeyDays(self.days).period(instant, clock)

    def hashed(self, address: bytes, store_id: str, period: DatedPeriod, kept: timedelta) -> str:
        """The device of an address (6 bytes): 32 hex digits, the same ones until `kept` after the
        period, when its key is destroyed.

        Raises KeysUnreachable.
        """
        return self.keys.hashed(address, store_id, period, kept)


def _vendors(text: str) -> dict[str, VendorSecret]:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, VendorSecret])
    except msgspec.MsgspecError as error:
        # Not the text: it is a secret.
        raise BadSettings(
            "TALLY_VENDOR_SECRETS: is not JSON like"
            f' {{"meraki": {{"secret": "…", "validator": "…"}}}}: {error}'
        ) from None
