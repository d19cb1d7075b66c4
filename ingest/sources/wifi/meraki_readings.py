"""Reads a body of Meraki's Scanning API: which device was heard where, when, at which power.

A bad part never affects the good ones: it is skipped, and counted with its reason. Its value is not
shown, because it may be an address in a wrong place.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from ingest.contract.vendor import SkippedPart
from ingest.contract.wire import JsonObject
from ingest.sources.wifi.address import parse_address
from ingest.sources.wifi.contract import MIN_DBM
from tally.errors import BadInstant, RejectedEvent
from tally.time.instants import parse_instant

# The scale of version 2 begins at this power: 30 is -65 dBm.
_V2_ZERO_DBM = -95
_ACCESS_POINT = re.compile(r"[0-9A-Za-z_]{1,64}", re.ASCII)
_POWER = re.compile(r"-?[0-9]{1,3}", re.ASCII)
# A number with more digits is no power, and may be an address.
_MAX_POWER = 999
_NO_POWER = "no power"
# Device, access point and second.
_ReadingKey: TypeAlias = tuple[bytes, str | None, datetime | None]


class ClientReading(NamedTuple):
    """A device heard at one instant; None for a wrong value, but `message_dbm` as it was sent."""

    address: bytes
    is_associated: bool
    access_point: str | None
    at: datetime | None
    dbm: int | None
    message_dbm: int | str


class _RawReading(NamedTuple):
    """A reading with the body's values, of any type; `zero_dbm` is where the power scale begins."""

    access_point: Any
    time: Any
    power: Any
    zero_dbm: int = 0


def readings(data: JsonObject, is_v2: bool) -> tuple[list[ClientReading], list[SkippedPart]]:
    """The strongest reading for each device, access point and second; and the skipped parts."""
    skipped: list[SkippedPart] = []
    strongest: dict[_ReadingKey, ClientReading] = {}
    for reading in _readings(data, is_v2, skipped):
        # A body may have the same second twice.
        key = reading.address, reading.access_point, reading.at
        known = strongest.get(key)
        if known is not None and None in (known.dbm, reading.dbm):
            skipped.append(SkippedPart("readings of an impossible power"))
        strongest[key] = _stronger(known, reading)
    return list(strongest.values()), skipped


def parse_access_point(value: Any) -> str | None:
    """An access point's name in records: its address in lower case, without separators."""
    bare = re.sub("[:.-]", "", value).casefold() if isinstance(value, str) else ""
    return bare if _ACCESS_POINT.fullmatch(bare) else None


def read_second(value: Any) -> datetime | None:
    """The instant to the second, UTC; None for a value that is none."""
    try:
        instant = parse_instant(value, "") if isinstance(value, str) else None
    except BadInstant:
        return None
    return instant and instant.replace(microsecond=0)


def _readings(data: JsonObject, is_v2: bool, skipped: list[SkippedPart]) -> Iterator[ClientReading]:
    for client in _objects(data.get("observations"), "clients", skipped):
        before = len(skipped)
        try:
            address = parse_address(client.get("clientMac"), "/data/observations/clientMac")
        except RejectedEvent as error:
            skipped.append(_unreadable("clients", error.reason))
            continue
        if is_v2:
            at, power = client.get("seenTime"), client.get("rssi")
            raw_readings = [_RawReading(data.get("apMac"), at, power, _V2_ZERO_DBM)]
        else:
            raw_readings = _read_v3(client, skipped)
        if not raw_readings and len(skipped) == before:
            skipped.append(SkippedPart("clients that no access point has heard"))
        for raw in raw_readings:
            if missing := _missing_field(raw):
                skipped.append(SkippedPart(f"readings without {missing}"))
            else:
                # The network's name may reveal where else the owner goes, so only the fact that
                # the device is on a network is kept.
                yield _reading(address, bool(client.get("ssid")), raw)


def _read_v3(client: JsonObject, skipped: list[SkippedPart]) -> list[_RawReading]:
    raw_readings: list[_RawReading] = []
    for place in _objects(client.get("locations") or [], "locations", skipped):
        at = place.get("time")
        for record in _objects(place.get("rssiRecords") or [], "readings", skipped):
            raw_readings.append(_RawReading(record.get("apMac"), at, record.get("rssi")))
    latest = client.get("latestRecord")
    for record in _objects([] if latest is None else [latest], "readings", skipped):
        at, power = record.get("time"), record.get("nearestApRssi")
        raw_readings.append(_RawReading(record.get("nearestApMac"), at, power))
    return raw_readings


def _objects(value: Any, what: str, skipped: list[SkippedPart]) -> Iterator[JsonObject]:
    """The objects of a list; anything else in it, or in its place, is skipped."""
    for item in value if isinstance(value, list) else [None]:
        if isinstance(item, dict):
            yield item
        else:
            skipped.append(_unreadable(what, "wrong_type"))


def _unreadable(what: str, reason: str) -> SkippedPart:
    return SkippedPart(f"{what} that cannot be read ({reason})")


def _missing_field(raw: _RawReading) -> str | None:
    """The field that the body leaves empty; a wrong value is not empty."""
    needed = {"an access point": raw.access_point, "an instant": raw.time, "a power": raw.power}
    return next((name for name, value in needed.items() if value is None), None)


def _reading(address: bytes, is_associated: bool, raw: _RawReading) -> ClientReading:
    name = parse_access_point(raw.access_point)
    # A device cannot hear itself: this is the device's address in the wrong place.
    access_point = None if name == address.hex() else name
    power = _power(raw.power)
    dbm = None if power is None else raw.zero_dbm + power
    if dbm is not None and MIN_DBM <= dbm <= 0:
        return ClientReading(address, is_associated, access_point, read_second(raw.time), dbm, dbm)
    sent: int | str = _NO_POWER if power is None else power
    if power is not None and raw.zero_dbm:
        # A plain number would be read as dBm, and taken.
        sent = f"{power} above {raw.zero_dbm} dBm"
    return ClientReading(address, is_associated, access_point, read_second(raw.time), None, sent)


def _stronger(first: ClientReading | None, second: ClientReading) -> ClientReading:
    """The stronger reading of the same second; it is associated if one of the two is."""
    if first is None:
        return second
    impossible = MIN_DBM - 1
    powers = [impossible if reading.dbm is None else reading.dbm for reading in (first, second)]
    best = first if powers[0] >= powers[1] else second
    return best._replace(is_associated=first.is_associated or second.is_associated)


def _power(value: Any) -> int | None:
    """A whole number of at most three digits, also given as text; None for any other value."""
    if isinstance(value, str) and _POWER.fullmatch(value):
        return int(value)
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    if not is_number or not -_MAX_POWER <= value <= _MAX_POWER:
        return None
    return int(value) if value == int(value) else None
