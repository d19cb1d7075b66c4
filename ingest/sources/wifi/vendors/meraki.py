"""Cisco Meraki Scanning API, versions 3 and 2: what access points have heard in a minute.

Bodies hold addresses of people's devices, their users' names and the shared secret; nothing of
these goes on: an address leaves here as a keyed hash, and what is no access point, instant or power
as a fixed text, for it may be an address in a wrong place. Source: Meraki developer documentation,
"Scanning API".
"""

import hmac
import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from ingest.contract.arrival import Rules
from ingest.contract.vendor import Skipped, VendorBody, an_object, message, objects
from ingest.contract.wire import JsonObject, parsed
from ingest.sources.wifi.address import address_of, mac_class_of
from ingest.sources.wifi.contract import KEPT, MESSAGE_OF_NOBODY, living_period
from tally.errors import BadInstant, Forbidden, RejectedEvent
from tally.instants import instant_text, parse_instant
from tally.key_periods import DatedPeriod

FORMAT = "meraki"
# Their scale begins at this power: 30 is -65 dBm.
_V2_ZERO_DBM = 95
_WIFI = ("WiFi", "DevicesSeen")
# A string is passed over whole, also one that never ends: else each of its quotes would begin anew.
_NOT_A_NUMBER = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|\bNaN\b', re.DOTALL)
_NETWORK = re.compile(r"[A-Z]_[0-9]{1,32}", re.ASCII)
_ACCESS_POINT = re.compile(r"[0-9A-Za-z_]{1,64}", re.ASCII)
_POWER = re.compile(r"-?[0-9]{1,3}", re.ASCII)
_NO_NETWORK, _NO_ACCESS_POINT, _NO_INSTANT = "no network", "no access point", "no instant"
_NO_POWER = "no power"
# A body is of one minute or two.
_MINUTE, _MOST_MINUTES = timedelta(minutes=1), 5
# Beyond any contract's bounds, and short.
_MOST_POWER = 999


class _HeardClient(NamedTuple):
    """A device by one access point at one instant, as far as the body says so."""

    address: bytes
    is_associated: bool
    access_point: str | None
    at: datetime | None
    dbm: int | None
    # What the body leaves empty; that is not what it says wrongly.
    lacks: str | None = None


def greeting(rules: Rules) -> str | None:
    """What Meraki's cloud wants to read at the address before it sends; None where nobody has set
    it."""
    told = rules.devices.vendors.get(FORMAT)
    return told.validator or None if told else None


def messages(body: VendorBody) -> Iterator[bytes | Skipped]:
    """A message for each device, access point and second.

    Raises Forbidden for a body with another secret; RejectedEvent for one of another shape;
    KeysUnreachable.
    """
    content = body.content
    if b"NaN" in content:
        # Bodies were seen with the bare word for coordinates that are not known.
        content = _NOT_A_NUMBER.sub(_null, content)
    tree = parsed(content, len(content))
    _refuse_stranger(tree, body.rules)
    if tree.get("type") not in _WIFI:
        yield Skipped("bodies of something else than WiFi")
        # Some clouds list their access points in these alone.
        if store_id := _store_of(tree.get("data"), body):
            yield from _heartbeats(tree["data"], (), store_id, body)
        return
    is_v2 = _major(tree) == "2"
    data = an_object(tree.get("data"), "/data")
    network = data.get("networkId")
    store_id = _store_of(data, body)
    if store_id is None:
        # Without a store there is no key: nothing of what was heard may go on.
        is_named = isinstance(network, str) and _NETWORK.fullmatch(network)
        ended_at = _instant(data.get("endTime"))
        yield message(
            network=network if is_named else _NO_NETWORK,
            happened_at=_NO_INSTANT if ended_at is None else instant_text(ended_at),
            heard=MESSAGE_OF_NOBODY,
        )
        return
    strongest: dict[tuple[bytes, str | None, datetime | None], _HeardClient] = {}
    for client in _a_list(data.get("observations"), "/data/observations"):
        try:
            found = _heard_of_v2(client, data) if is_v2 else _heard_of_v3(client)
        except RejectedEvent as error:
            # What it is instead is nobody's to read: it may be an address in a wrong place.
            yield Skipped(f"clients that cannot be read ({error.reason})")
            continue
        if not found:
            yield Skipped("clients that no access point has heard")
        for one in found:
            if one.lacks:
                yield Skipped(f"readings without {one.lacks}")
                continue
            # One body names a second twice.
            key = one.address, one.access_point, one.at
            strongest[key] = _stronger(strongest.get(key), one)
    for one in strongest.values():
        yield _message(one, store_id, body)
    yield from _heartbeats(data, strongest.values(), store_id, body)


def _store_of(data: Any, body: VendorBody) -> str | None:
    """The store of the body's network; of version 2, which names none, that of its access point."""
    if not isinstance(data, dict):
        return None
    network, devices = data.get("networkId"), body.rules.devices
    if isinstance(network, str):
        return devices.networks.get(network)
    return devices.access_points.get(_access_point(data.get("apMac")) or "")


def _null(token: re.Match[bytes]) -> bytes:
    return b"null" if token[0] == b"NaN" else token[0]


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


def _heard_of_v3(said: Any) -> list[_HeardClient]:
    client, nothing_yet = _client_of(said)
    told: list[tuple[Any, Any, Any]] = []
    for _, place in objects(client.get("locations") or [], "/data/observations/locations"):
        for _, one in objects(place.get("rssiRecords") or [], "/data/observations/locations"):
            access_point, power = one.get("apMac"), one.get("rssi")
            told.append((access_point, place.get("time"), power))
    if isinstance(latest := client.get("latestRecord"), dict):
        access_point, power = latest.get("nearestApMac"), latest.get("nearestApRssi")
        told.append((access_point, latest.get("time"), power))
    return [_heard(nothing_yet, *one) for one in told]


def _heard_of_v2(said: Any, data: JsonObject) -> list[_HeardClient]:
    client, nothing_yet = _client_of(said)
    access_point, power = data.get("apMac"), client.get("rssi")
    heard = _heard(nothing_yet, access_point, client.get("seenTime"), power)
    return [heard if heard.dbm is None else heard._replace(dbm=heard.dbm - _V2_ZERO_DBM)]


def _client_of(said: Any) -> tuple[JsonObject, _HeardClient]:
    """A client, and its device without anything heard of it yet.

    Raises RejectedEvent for one without an address of a device.
    """
    client = an_object(said, "/data/observations")
    address = address_of(client.get("clientMac"), "/data/observations/clientMac")
    # Its network's name says where else its owner goes; that it is on one is all that is kept.
    return client, _HeardClient(address, bool(client.get("ssid")), None, None, None)


def _heard(nothing_yet: _HeardClient, access_point: Any, time: Any, power: Any) -> _HeardClient:
    named = _access_point(access_point)
    # Whoever is heard does not hear: it is the device's address in the wrong place.
    is_itself = named == nothing_yet.address.hex()
    told = {"an access point": access_point, "an instant": time, "a power": power}
    return nothing_yet._replace(
        access_point=None if is_itself else named,
        at=_instant(time),
        dbm=_power(power),
        lacks=next((name for name, said in told.items() if said is None), None),
    )


def _message(heard: _HeardClient, store_id: str, body: VendorBody) -> bytes:
    # What cannot be read the contract refuses, and names the field.
    return message(
        store_id=store_id,
        happened_at=_NO_INSTANT if heard.at is None else instant_text(heard.at),
        ap_id=heard.access_point or _NO_ACCESS_POINT,
        rssi_dbm=_NO_POWER if heard.dbm is None else heard.dbm,
        mac_class=mac_class_of(heard.address, heard.is_associated),
        device_hash=_hashed(heard, store_id, body),
    )


def _heartbeats(
    data: JsonObject, heard: Iterable[_HeardClient], store_id: str, body: VendorBody
) -> Iterator[bytes]:
    """That access points were there, minute by minute: those that the body lists, which may have
    heard nobody, over its time; of a body that lists none where and when somebody was heard."""
    listed = _named(data.get("reportingAps"), "mac") | _named([data], "apMac")
    minutes = _minutes_of(data, body)
    told = {(name, at) for name in listed for at in minutes}
    if not listed:
        told = {
            (one.access_point, one.at.replace(second=0))
            for one in heard
            if one.at and one.access_point
        }
    # A device's address in the wrong place is none of an access point.
    own = _named(data.get("observations"), "clientMac")
    for name, at in sorted(one for one in told if one[0] not in own):
        if _period(at, store_id, body) is not None:
            said = {"store_id": store_id, "ap_id": name, "happened_at": instant_text(at)}
            yield message(**said, heartbeat=True)


def _named(listed: Any, field: str) -> set[str]:
    """What the objects of a list name in the field, in the spelling of access points."""
    objects_of = listed if isinstance(listed, list) else []
    found = (_access_point(one.get(field)) for one in objects_of if isinstance(one, dict))
    return {name for name in found if name}


def _minutes_of(data: JsonObject, body: VendorBody) -> list[datetime]:
    """The minutes that a body is of; of one that does not say so the one before it came."""
    begin, end = _instant(data.get("startTime")), _instant(data.get("endTime"))
    if end is None:
        end = begin + _MINUTE if begin else body.arrived_at
    begin = begin or end - _MINUTE
    first = begin.replace(second=0, microsecond=0)
    count = min(_MOST_MINUTES, -((first - end) // _MINUTE))
    return [first + number * _MINUTE for number in range(count)]


def _hashed(heard: _HeardClient, store_id: str, body: VendorBody) -> str | None:
    """The device in the key period of the instant; None where there is none, or no key any more."""
    period = _period(heard.at, store_id, body)
    if period is None:
        return None
    return body.rules.devices.hashed(heard.address, store_id, period, KEPT)


def _period(at: datetime | None, store_id: str, body: VendorBody) -> DatedPeriod | None:
    if at is None or at - body.arrived_at > body.rules.future_tolerance:
        return None
    return living_period(body.rules, store_id, at, body.arrived_at)


def _stronger(one: _HeardClient | None, other: _HeardClient) -> _HeardClient:
    """Of two of the same second the greater power; associated where one of them is."""
    if one is None:
        return other
    powers = [heard.dbm for heard in (one, other) if heard.dbm is not None]
    is_associated = one.is_associated or other.is_associated
    return one._replace(dbm=max(powers, default=None), is_associated=is_associated)


def _a_list(value: Any, at: str) -> list[Any]:
    if not isinstance(value, list):
        raise RejectedEvent("wrong_type", at, f"{at}: a list is wanted")
    return value


def _access_point(said: Any) -> str | None:
    bare = re.sub("[:.-]", "", said).casefold() if isinstance(said, str) else ""
    return bare if _ACCESS_POINT.fullmatch(bare) else None


def _instant(said: Any) -> datetime | None:
    """The instant to the second."""
    try:
        found = parse_instant(said, "") if isinstance(said, str) else None
    except BadInstant:
        return None
    return found and found.replace(microsecond=0)


def _power(said: Any) -> int | None:
    """A whole number, also as text; one beyond any bounds as one beyond the contract's."""
    if isinstance(said, str) and _POWER.fullmatch(said):
        return int(said)
    if isinstance(said, bool) or not isinstance(said, int | Decimal):
        return None
    if not -_MOST_POWER <= said <= _MOST_POWER:
        return _MOST_POWER
    return int(said) if said == int(said) else None
