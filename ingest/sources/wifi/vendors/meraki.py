"""Reads Cisco's Meraki Scanning API, versions 3 and 2: what access points heard in a minute.

Bodies hold addresses of people's devices, their users' names and the shared secret, and none of
these is passed on: an address leaves here as a keyed hash. A value that is no access point, instant
or power is replaced by a fixed text, because it may be an address in a wrong place. Source: Meraki
developer documentation, "Scanning API".
"""

import hmac
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

from ingest.contract import vendor
from ingest.contract.vendor import BodyItem, SkippedPart, VendorBody
from ingest.contract.wire import JsonObject, field_error, parse_object
from ingest.installation.arrival import Rules
from ingest.sources.wifi.address import classify_address
from ingest.sources.wifi.contract import KEY_GRACE, NO_STORE_TEXT, usable_key_period
from ingest.sources.wifi.meraki_readings import (
    ClientReading,
    parse_access_point,
    read_second,
    readings,
)
from tally.errors import Forbidden
from tally.time.day_clock import DatedPeriod
from tally.time.instants import format_utc

FORMAT = "meraki"
_WIFI = ("WiFi", "DevicesSeen")
# Matches up to the next word, skipping the strings before it; an unclosed one reaches to the end.
_UP_TO_WORD = re.compile(
    rb'(?:[^"NI-]++|"(?:[^"\\]++|\\.)*+"?+|(?!-?\b(?:NaN|Infinity)\b).)*+'
    rb"(-?\b(?:NaN|Infinity)\b|\Z)",
    re.DOTALL,
)
# Complete surrogate pairs and other escapes are skipped; what remains is a lone surrogate.
_LONE_SURROGATE = re.compile(
    rb"(\\[^u]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}",
    re.DOTALL,
)
_NETWORK = re.compile(r"[A-Z]_[0-9]{1,32}", re.ASCII)
_NO_NETWORK, _NO_ACCESS_POINT, _NO_INSTANT = "no network", "no access point", "no instant"
# Replaces a reading that cannot be read, because it may hold an address.
_A_READING = "a reading of a device"
# A body covers one minute or two.
_MINUTE, _MAX_MINUTES = timedelta(minutes=1), 5
# Returns the store of what is heard at an instant; None, an unreadable one, means the arrival.
_StoreAtInstant: TypeAlias = Callable[[datetime | None], str | None]


class _PresenceMinute(NamedTuple):
    """A minute in which an access point was there."""

    access_point: str
    at: datetime


def greeting(rules: Rules) -> str | None:
    """The validator that Meraki's cloud reads at the address before it sends; None if not set."""
    listed = rules.devices.vendors.get(FORMAT)
    return listed.validator or None if listed else None


def messages(body: VendorBody) -> Iterator[bytes | SkippedPart]:
    """Yield a message for each device, access point and second.

    Raises Forbidden for a body with another secret; RejectedEvent for one that is no JSON object
    or of an unknown version; KeysUnreachable, BodyTooLarge.
    """
    return vendor.collect_parts(_translate_parts(body), body.budget)


def _translate_parts(body: VendorBody) -> Iterator[BodyItem]:
    content = _repair_json(body)
    tree = parse_object(content, len(content))
    _check_secret(tree, body.rules)
    data = tree.get("data")
    if not isinstance(data, dict):
        yield SkippedPart("bodies without data")
        return
    store_at = _store_lookup(data, body)
    if tree.get("type") not in _WIFI:
        yield SkippedPart("bodies of something else than WiFi")
        # Some clouds list their access points only in these bodies.
        yield from _heartbeats(_presences(data, (), body), store_at, body)
        return
    heard, skipped = readings(data, _major_version(tree) == "2")
    yield from skipped
    presences = _presences(data, heard, body)
    instants = {reading.at for reading in heard} | {minute.at for minute in presences}
    if any(store_at(at) is None for at in instants or {None}):
        # Without a store there is no key, so nothing that was heard may be passed on.
        yield _message_without_store(data)
    for reading in heard:
        store_id = store_at(reading.at)
        if store_id is not None:
            yield from vendor.guard_event(_messages(reading, store_id, body), _A_READING)
    yield from _heartbeats(presences, store_at, body)


def _repair_json(body: VendorBody) -> bytes:
    """The body with unknown numbers and cut texts (lone surrogates) replaced."""
    content = body.content
    vendor.count_values(content, body.budget)
    if b"NaN" in content or b"Infinity" in content:
        words = (match.span(1) for match in _UP_TO_WORD.finditer(content) if match[1])
        content = _replace(content, words, b"null")
    if b"\\ud" in content or b"\\uD" in content:
        halves = (match.span() for match in _LONE_SURROGATE.finditer(content) if match[1] is None)
        content = _replace(content, halves, rb"\ufffd")
    return content


def _replace(content: bytes, places: Iterable[Sequence[int]], by: bytes) -> bytes:
    # The places are replaced one after the other: sub() would keep all matches until the end.
    result, done = bytearray(), 0
    for begin, end in places:
        result += content[done:begin] + by
        done = end
    return bytes(result + content[done:]) if result else content


def _check_secret(tree: JsonObject, rules: Rules) -> None:
    listed, secret = rules.devices.vendors.get(FORMAT), tree.get("secret")
    expected = listed.secret.encode() if listed else b""
    sent = secret.encode() if isinstance(secret, str) else b""
    # The comparison takes the same time for any secret; without a set secret no sender is known.
    if not expected or not hmac.compare_digest(sent, expected):
        raise Forbidden("the body's secret is not the one of TALLY_VENDOR_SECRETS")


def _major_version(tree: JsonObject) -> str:
    major = str(tree.get("version")).partition(".")[0]
    if major not in ("2", "3"):
        raise field_error("unknown_schema_version", "/version", "2 and 3 are known")
    return major


def _store_lookup(data: JsonObject, body: VendorBody) -> _StoreAtInstant:
    """Finds the body's store by its network, or else by the access point at that instant."""
    network, devices = data.get("networkId"), body.rules.devices
    of_network = devices.networks.get(network) if isinstance(network, str) else None
    if of_network is not None:
        return lambda at: of_network
    access_point, clocks = parse_access_point(data.get("apMac")) or "", body.rules.clocks
    return lambda at: devices.store_listing(access_point, at or body.arrived_at, clocks)


def _message_without_store(data: JsonObject) -> bytes:
    """The message in place of sightings without a store: it names the network or access point."""
    network, ended_at = data.get("networkId"), read_second(data.get("endTime"))
    is_named = isinstance(network, str) and _NETWORK.fullmatch(network)
    who: dict[str, Any] = {"network": network if is_named else _NO_NETWORK}
    if "apMac" in data:
        names = _access_point_names([data], "apMac") - _client_names(data)
        who = {"access_point": next(iter(names), _NO_ACCESS_POINT)}
    happened_at = _NO_INSTANT if ended_at is None else format_utc(ended_at)
    return vendor.encode_message(**who, happened_at=happened_at, heard=NO_STORE_TEXT)


def _messages(heard: ClientReading, store_id: str, body: VendorBody) -> Iterator[bytes]:
    period, keys = _period(heard.at, store_id, body), body.rules.devices.keys
    # The contract refuses a value that cannot be read, and names the field.
    yield vendor.encode_message(
        store_id=store_id,
        happened_at=_NO_INSTANT if heard.at is None else format_utc(heard.at),
        ap_id=heard.access_point or _NO_ACCESS_POINT,
        rssi_dbm=heard.message_dbm,
        mac_class=classify_address(heard.address, heard.is_associated),
        device_hash=period and keys.hash_address(heard.address, store_id, period, KEY_GRACE),
    )


def _heartbeats(
    minutes: Iterable[_PresenceMinute], store_at: _StoreAtInstant, body: VendorBody
) -> Iterator[bytes]:
    for access_point, at in minutes:
        store_id = store_at(at)
        if store_id is not None and _period(at, store_id, body) is not None:
            fields = {"store_id": store_id, "ap_id": access_point, "happened_at": format_utc(at)}
            yield vendor.encode_message(**fields, heartbeat=True)


def _presences(
    data: JsonObject, heard: Iterable[ClientReading], body: VendorBody
) -> list[_PresenceMinute]:
    """The minutes of listed access points, or without any of those that heard a device."""
    reporting, own = data.get("reportingAps"), [data]
    listed = _access_point_names(reporting, "mac") | _access_point_names(own, "apMac")
    minutes = {_PresenceMinute(name, at) for name in listed for at in _body_minutes(data, body)}
    if not listed:
        minutes = {
            _PresenceMinute(reading.access_point, reading.at.replace(second=0))
            for reading in heard
            if reading.at and reading.access_point
        }
    devices = _client_names(data)
    return sorted(minute for minute in minutes if minute.access_point not in devices)


def _client_names(data: JsonObject) -> set[str]:
    """The clients' addresses, spelled as access points: what has such a name is no access point."""
    return _access_point_names(data.get("observations"), "clientMac")


def _access_point_names(listed: Any, field: str) -> set[str]:
    """The values of the field in a list's objects, in the spelling of access points."""
    objects_of = listed if isinstance(listed, list) else []
    names = (parse_access_point(item.get(field)) for item in objects_of if isinstance(item, dict))
    return {name for name in names if name}


def _body_minutes(data: JsonObject, body: VendorBody) -> list[datetime]:
    """The minutes that a body covers; by default the last one that was over when it arrived."""
    begin, end = read_second(data.get("startTime")), read_second(data.get("endTime"))
    try:
        if end is None:
            end = begin + _MINUTE if begin else body.arrived_at.replace(second=0, microsecond=0)
        begin = begin or end - _MINUTE
    except OverflowError:
        # The clock shows either end of the calendar.
        return []
    first = begin.replace(second=0, microsecond=0)
    count = min(_MAX_MINUTES, -((first - end) // _MINUTE))
    return [first + number * _MINUTE for number in range(count)]


def _period(at: datetime | None, store_id: str, body: VendorBody) -> DatedPeriod | None:
    if at is None or at - body.arrived_at > body.rules.future_tolerance:
        return None
    return usable_key_period(body.rules, store_id, at, body.arrived_at)
