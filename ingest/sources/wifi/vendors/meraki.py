"""Cisco Meraki Scanning API, versions 3 and 2: what access points have heard in a minute.

Bodies hold addresses of people's devices, their users' names and the shared secret; nothing of
these goes on: an address leaves here as a keyed hash, and what is no access point, instant or power
as a fixed text, for it may be an address in a wrong place. Source: Meraki developer documentation,
"Scanning API".
"""

import hmac
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

from ingest.contract.arrival import Rules
from ingest.contract.vendor import (
    Skipped,
    Unread,
    VendorBody,
    count_values,
    message,
    read_event,
    read_parts,
)
from ingest.contract.wire import JsonObject, parsed
from ingest.sources.wifi.address import mac_class_of
from ingest.sources.wifi.contract import KEPT, MESSAGE_OF_NOBODY, living_period
from ingest.sources.wifi.meraki_readings import ClientReading, access_point_of, instant_of, readings
from tally.errors import Forbidden, RejectedEvent
from tally.instants import instant_text
from tally.key_periods import DatedPeriod

FORMAT = "meraki"
_WIFI = ("WiFi", "DevicesSeen")
# Up to the next word, past the strings before it; one that never ends goes up to the end.
_UP_TO_WORD = re.compile(
    rb'(?:[^"NI-]++|"(?:[^"\\]++|\\.)*+"?+|(?!-?\b(?:NaN|Infinity)\b).)*+'
    rb"(-?\b(?:NaN|Infinity)\b|\Z)",
    re.DOTALL,
)
# Whole signs of two escapes and other escapes are passed over; what is left is half of a sign.
_HALF_SIGN = re.compile(
    rb"(\\[^u]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}",
    re.DOTALL,
)
_NETWORK = re.compile(r"[A-Z]_[0-9]{1,32}", re.ASCII)
_NO_NETWORK, _NO_ACCESS_POINT, _NO_INSTANT = "no network", "no access point", "no instant"
# In the place of one that cannot be read: what it holds may be an address.
_A_READING = "a reading of a device"
# A body is of one minute or two.
_MINUTE, _MOST_MINUTES = timedelta(minutes=1), 5
# The store of what is heard at an instant; one that cannot be read is that of the arrival.
_StoreAt: TypeAlias = Callable[[datetime | None], str | None]


# Begin and end in a body.
_BytesSpan: TypeAlias = tuple[int, int]


class _SeenMinute(NamedTuple):
    """An access point was there in a minute."""

    access_point: str
    at: datetime


def greeting(rules: Rules) -> str | None:
    """What Meraki's cloud wants to read at the address before it sends; None where nobody has set
    it."""
    told = rules.devices.vendors.get(FORMAT)
    return told.validator or None if told else None


def messages(body: VendorBody) -> Iterator[bytes | Skipped]:
    """A message for each device, access point and second.

    Raises Forbidden for a body with another secret; RejectedEvent for one that is no JSON object
    or of an unknown version; KeysUnreachable, TooMuch.
    """
    return read_parts(_parts(body), body.budget)


def _parts(body: VendorBody) -> Iterator[bytes | Skipped | Unread]:
    content = _readable(body)
    tree = parsed(content, len(content))
    _refuse_stranger(tree, body.rules)
    data = tree.get("data")
    if not isinstance(data, dict):
        yield Skipped("bodies without data")
        return
    store_at = _stores(data, body)
    if tree.get("type") not in _WIFI:
        yield Skipped("bodies of something else than WiFi")
        # Some clouds list their access points in these alone.
        yield from _heartbeats(_presences(data, (), body), store_at, body)
        return
    heard, skipped = readings(data, _major(tree) == "2")
    yield from skipped
    there = _presences(data, heard, body)
    instants = {one.at for one in heard} | {one.at for one in there}
    if any(store_at(at) is None for at in instants or {None}):
        # Without a store there is no key: nothing of what was heard may go on.
        yield _message_of_nobody(data)
    for one in heard:
        store_id = store_at(one.at)
        if store_id is not None:
            yield from read_event(_messages_of(one, store_id, body), _A_READING)
    yield from _heartbeats(there, store_at, body)


def _readable(body: VendorBody) -> bytes:
    """The body without what is no JSON and of no use: its words for numbers that are not known, as
    were seen of coordinates, and halves of signs where a text was cut. Raises TooMuch."""
    content = body.content
    count_values(content, body.budget)
    if b"NaN" in content or b"Infinity" in content:
        words = (one.span(1) for one in _UP_TO_WORD.finditer(content) if one[1])
        content = _replaced(content, words, b"null")
    if b"\\ud" in content or b"\\uD" in content:
        halves = (one.span() for one in _HALF_SIGN.finditer(content) if one[1] is None)
        content = _replaced(content, halves, rb"\ufffd")
    return content


def _replaced(content: bytes, places: Iterable[_BytesSpan], by: bytes) -> bytes:
    """The content with other bytes from each begin to its end, which ascend."""
    # One after the other: sub() keeps all of them until the end.
    found, done = bytearray(), 0
    for begin, end in places:
        found += content[done:begin] + by
        done = end
    return bytes(found + content[done:]) if found else content


def _refuse_stranger(tree: JsonObject, rules: Rules) -> None:
    told, said = rules.devices.vendors.get(FORMAT), tree.get("secret")
    own = told.secret.encode() if told else b""
    sent = said.encode() if isinstance(said, str) else b""
    # In the same time for any other secret; where there is none nobody is known.
    if not own or not hmac.compare_digest(sent, own):
        raise Forbidden("the body's secret is not the one of TALLY_VENDOR_SECRETS")


def _major(tree: JsonObject) -> str:
    major = str(tree.get("version")).partition(".")[0]
    if major not in ("2", "3"):
        raise RejectedEvent("unknown_schema_version", "/version", "/version: 2 and 3 are known")
    return major


def _stores(data: JsonObject, body: VendorBody) -> _StoreAt:
    """The store of the body's network; where no store lists that (version 2 names none), the one
    that lists its access point then."""
    network, devices = data.get("networkId"), body.rules.devices
    of_network = devices.networks.get(network) if isinstance(network, str) else None
    if of_network is not None:
        return lambda at: of_network
    access_point, clocks = access_point_of(data.get("apMac")) or "", body.rules.clocks
    return lambda at: devices.store_listing(access_point, at or body.arrived_at, clocks)


def _message_of_nobody(data: JsonObject) -> bytes:
    """In the place of all that was heard without a store: who it was that heard it."""
    network, ended_at = data.get("networkId"), instant_of(data.get("endTime"))
    is_named = isinstance(network, str) and _NETWORK.fullmatch(network)
    who: dict[str, Any] = {"network": network if is_named else _NO_NETWORK}
    if "apMac" in data:
        named = _named([data], "apMac") - _devices(data)
        who = {"access_point": next(iter(named), _NO_ACCESS_POINT)}
    happened_at = _NO_INSTANT if ended_at is None else instant_text(ended_at)
    return message(**who, happened_at=happened_at, heard=MESSAGE_OF_NOBODY)


def _messages_of(heard: ClientReading, store_id: str, body: VendorBody) -> Iterator[bytes]:
    yield _message(heard, store_id, body)


def _message(heard: ClientReading, store_id: str, body: VendorBody) -> bytes:
    # What cannot be read the contract refuses, and names the field.
    return message(
        store_id=store_id,
        happened_at=_NO_INSTANT if heard.at is None else instant_text(heard.at),
        ap_id=heard.access_point or _NO_ACCESS_POINT,
        rssi_dbm=heard.told_dbm,
        mac_class=mac_class_of(heard.address, heard.is_associated),
        device_hash=_hashed(heard, store_id, body),
    )


def _heartbeats(
    there: Iterable[_SeenMinute], store_at: _StoreAt, body: VendorBody
) -> Iterator[bytes]:
    for name, at in there:
        store_id = store_at(at)
        if store_id is not None and _period(at, store_id, body) is not None:
            said = {"store_id": store_id, "ap_id": name, "happened_at": instant_text(at)}
            yield message(**said, heartbeat=True)


def _presences(
    data: JsonObject, heard: Iterable[ClientReading], body: VendorBody
) -> list[_SeenMinute]:
    """Access points that were there, minute by minute: those that the body lists, which may have
    heard nobody, over its time; of a body that lists none where and when somebody was heard."""
    listed = _named(data.get("reportingAps"), "mac") | _named([data], "apMac")
    there = {_SeenMinute(name, at) for name in listed for at in _minutes_of(data, body)}
    if not listed:
        there = {
            _SeenMinute(one.access_point, one.at.replace(second=0))
            for one in heard
            if one.at and one.access_point
        }
    devices = _devices(data)
    return sorted(one for one in there if one.access_point not in devices)


def _devices(data: JsonObject) -> set[str]:
    """The clients in the spelling of access points: one of them is none, but an address in the
    wrong place."""
    return _named(data.get("observations"), "clientMac")


def _named(listed: Any, field: str) -> set[str]:
    """What the objects of a list name in the field, in the spelling of access points."""
    objects_of = listed if isinstance(listed, list) else []
    found = (access_point_of(one.get(field)) for one in objects_of if isinstance(one, dict))
    return {name for name in found if name}


def _minutes_of(data: JsonObject, body: VendorBody) -> list[datetime]:
    """The minutes that a body is of; of one that does not say so the last that was over when it
    came."""
    begin, end = instant_of(data.get("startTime")), instant_of(data.get("endTime"))
    try:
        if end is None:
            end = begin + _MINUTE if begin else body.arrived_at.replace(second=0, microsecond=0)
        begin = begin or end - _MINUTE
    except OverflowError:
        # Of a clock that shows either end of the calendar.
        return []
    first = begin.replace(second=0, microsecond=0)
    count = min(_MOST_MINUTES, -((first - end) // _MINUTE))
    return [first + number * _MINUTE for number in range(count)]


def _hashed(heard: ClientReading, store_id: str, body: VendorBody) -> str | None:
    """The device in the key period of the instant; None where there is none, or no key any more."""
    period = _period(heard.at, store_id, body)
    if period is None:
        return None
    return body.rules.devices.hashed(heard.address, store_id, period, KEPT)


def _period(at: datetime | None, store_id: str, body: VendorBody) -> DatedPeriod | None:
    if at is None or at - body.arrived_at > body.rules.future_tolerance:
        return None
    return living_period(body.rules, store_id, at, body.arrived_at)
