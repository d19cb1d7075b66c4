"""What a body of Meraki's Scanning API tells of devices: who was heard, where, when and how loud.

One bad part never loses the good ones beside it: it is skipped, and told with its reason. What it
is instead is nobody's to read: it may be an address in a wrong place.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from ingest.contract.vendor import Skipped
from ingest.contract.wire import JsonObject
from ingest.sources.wifi.address import address_of
from ingest.sources.wifi.contract import LEAST_DBM
from tally.errors import BadInstant, RejectedEvent
from tally.instants import parse_instant

# The scale of version 2 begins at this power: 30 is -65 dBm.
_V2_ZERO_DBM = -95
_ACCESS_POINT = re.compile(r"[0-9A-Za-z_]{1,64}", re.ASCII)
_POWER = re.compile(r"-?[0-9]{1,3}", re.ASCII)
# What has more digits is no power, and may be an address.
_MOST_POWER = 999
_NO_POWER = "no power"
# Device, access point and second.
_HeardSecond: TypeAlias = tuple[bytes, str | None, datetime | None]


class ClientReading(NamedTuple):
    """A device by one access point at one instant; None is what the body says wrongly.

    `told_dbm` is the power as a message has it: one that can be none as it was sent.
    """

    address: bytes
    is_associated: bool
    access_point: str | None
    at: datetime | None
    dbm: int | None
    told_dbm: int | str


class _SaidReading(NamedTuple):
    """A reading as the body has it, whatever it is; `zero_dbm`: where the scale of power begins."""

    access_point: Any
    time: Any
    power: Any
    zero_dbm: int = 0


def readings(data: JsonObject, is_v2: bool) -> tuple[list[ClientReading], list[Skipped]]:
    """One reading for each device, access point and second, the strongest; and what is none."""
    skipped: list[Skipped] = []
    strongest: dict[_HeardSecond, ClientReading] = {}
    for one in _readings(data, is_v2, skipped):
        # One body names a second twice.
        key = one.address, one.access_point, one.at
        known = strongest.get(key)
        if known is not None and None in (known.dbm, one.dbm):
            skipped.append(Skipped("readings of an impossible power"))
        strongest[key] = _stronger(known, one)
    return list(strongest.values()), skipped


def access_point_of(said: Any) -> str | None:
    """An access point's name in records: an address in small letters, without what parts it."""
    bare = re.sub("[:.-]", "", said).casefold() if isinstance(said, str) else ""
    return bare if _ACCESS_POINT.fullmatch(bare) else None


def instant_of(said: Any) -> datetime | None:
    """The instant to the second, UTC; None where it is none."""
    try:
        found = parse_instant(said, "") if isinstance(said, str) else None
    except BadInstant:
        return None
    return found and found.replace(microsecond=0)


def _readings(data: JsonObject, is_v2: bool, skipped: list[Skipped]) -> Iterator[ClientReading]:
    for client in _objects(data.get("observations"), "clients", skipped):
        before = len(skipped)
        try:
            address = address_of(client.get("clientMac"), "/data/observations/clientMac")
        except RejectedEvent as error:
            skipped.append(_unreadable("clients", error.reason))
            continue
        told = [_told_by_v2(client, data)] if is_v2 else _told_by_v3(client, skipped)
        if not told and len(skipped) == before:
            skipped.append(Skipped("clients that no access point has heard"))
        for one in told:
            if lacks := _lacks(one):
                skipped.append(Skipped(f"readings without {lacks}"))
            else:
                # Its network's name says where else its owner goes; that it is on one is kept.
                yield _reading(address, bool(client.get("ssid")), one)


def _told_by_v2(client: JsonObject, data: JsonObject) -> _SaidReading:
    at, power = client.get("seenTime"), client.get("rssi")
    return _SaidReading(data.get("apMac"), at, power, _V2_ZERO_DBM)


def _told_by_v3(client: JsonObject, skipped: list[Skipped]) -> list[_SaidReading]:
    told: list[_SaidReading] = []
    for place in _objects(client.get("locations") or [], "locations", skipped):
        at = place.get("time")
        for one in _objects(place.get("rssiRecords") or [], "readings", skipped):
            told.append(_SaidReading(one.get("apMac"), at, one.get("rssi")))
    latest = client.get("latestRecord")
    for one in _objects([] if latest is None else [latest], "readings", skipped):
        at, power = one.get("time"), one.get("nearestApRssi")
        told.append(_SaidReading(one.get("nearestApMac"), at, power))
    return told


def _objects(value: Any, what: str, skipped: list[Skipped]) -> Iterator[JsonObject]:
    """The objects of a list; anything else in it, or in its place, is skipped."""
    for one in value if isinstance(value, list) else [None]:
        if isinstance(one, dict):
            yield one
        else:
            skipped.append(_unreadable(what, "wrong_type"))


def _unreadable(what: str, reason: str) -> Skipped:
    return Skipped(f"{what} that cannot be read ({reason})")


def _lacks(told: _SaidReading) -> str | None:
    """What the body leaves empty; that is not what it says wrongly."""
    needed = {
        "an access point": told.access_point,
        "an instant": told.time,
        "a power": told.power,
    }
    return next((name for name, said in needed.items() if said is None), None)


def _reading(address: bytes, is_associated: bool, told: _SaidReading) -> ClientReading:
    named = access_point_of(told.access_point)
    # Whoever is heard does not hear: it is the device's address in the wrong place.
    access_point = None if named == address.hex() else named
    power = _power(told.power)
    dbm = None if power is None else told.zero_dbm + power
    if dbm is not None and LEAST_DBM <= dbm <= 0:
        return ClientReading(address, is_associated, access_point, instant_of(told.time), dbm, dbm)
    sent: int | str = _NO_POWER if power is None else power
    if power is not None and told.zero_dbm:
        # A number alone would be read as one of dBm, and taken.
        sent = f"{power} above {told.zero_dbm} dBm"
    return ClientReading(address, is_associated, access_point, instant_of(told.time), None, sent)


def _stronger(one: ClientReading | None, other: ClientReading) -> ClientReading:
    """Of two of the same second that of the greater power, if it can be one; associated where one
    of them is."""
    if one is None:
        return other
    impossible = LEAST_DBM - 1
    powers = [impossible if read.dbm is None else read.dbm for read in (one, other)]
    best = one if powers[0] >= powers[1] else other
    return best._replace(is_associated=one.is_associated or other.is_associated)


def _power(said: Any) -> int | None:
    """A whole number of at most three digits, also as text."""
    if isinstance(said, str) and _POWER.fullmatch(said):
        return int(said)
    if isinstance(said, bool) or not isinstance(said, int | Decimal):
        return None
    if not -_MOST_POWER <= said <= _MOST_POWER:
        return None
    return int(said) if said == int(said) else None
