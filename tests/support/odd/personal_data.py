"""Messages with personal data planted in them, good and broken ones."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from tally.time.instants import format_utc
from tests.support.sources import meraki

STORE = "privacy"
MARK = "harmless-mark-7c1f"
# Each is found as it is written here, if it is kept anywhere.
PLANTED = {
    "loyalty id": "LOY-31198570044",
    "card": "5105105105105100",
    "card with spaces": "5500 0000 0000 0004",
    "IBAN": "DE89370400440532013000",
    "IBAN with spaces": "GB82 WEST 1234 5698 7654 32",
    "phone": "+49 170 1234567",
    "MAC": "3c:22:fb:9a:7e:01",
    "e-mail": "ann.smith@example.org",
}

# What access points know of people, and who sends it: found nowhere, not even where it arrived.
HEARD = {
    "hardware address": "3c:22:fb:9a:7e:02",
    "its digits alone": "3c22fb9a7e02",
    "user": "wifi-user-77120944",
    "network's name": "ssid-of-ann-4471",
    "vendor's secret": meraki.SECRET,
}
# Of who hashes devices himself whatever else he says lies in the raw topic, where it arrived.
SAID_BESIDE = {"address beside a sighting": "3c:22:fb:9a:7e:03"}


def heard_bodies(network: str, at: datetime) -> Iterator[bytes]:
    """Bodies of Meraki, the first one good, each with everything that nobody may find again."""
    address = HEARD["hardware address"]
    client = {"ssid": HEARD["network's name"], "userId": HEARD["user"]}
    whole = meraki.body(network, {address: [(at, -60)]}, **client)
    told = format_utc(at).encode()
    yield whole
    yield whole.replace(address.encode(), HEARD["its digits alone"].encode())
    yield whole.replace(meraki.ACCESS_POINT.encode(), address.encode())
    yield whole.replace(at.isoformat().replace("+00:00", "Z").encode(), address.encode())
    yield whole.replace(b'"rssi": -60', b'"rssi": "%s"' % address.encode())
    yield whole.replace(network.encode(), address.encode())
    yield whole.replace(b'"version": "3.0"', b'"version": "9.0"')
    yield whole.replace(meraki.SECRET.encode(), b"guessed")
    yield whole.replace(b'"observations": [', b'"observations": {"%s": [' % address.encode())
    yield whole[:-2]
    yield whole.replace(told, b"2106-01-01T00:00:00Z")


def sighting_with_more(store: str, at: datetime) -> bytes:
    """A sighting of who hashes by himself, and says more than he should."""
    told = {
        "store_id": store,
        "device_hash": "5" * 32,
        "mac_class": "fixed",
        "ap_id": "door",
        "happened_at": format_utc(at),
        "rssi_dbm": -60,
        "client": SAID_BESIDE,
    }
    return json.dumps(told).encode()


def good_messages(at: datetime) -> Iterator[bytes]:
    """Receipts that are taken, each value once in an unknown field, in an item, and in a name of
    an unknown field."""
    for number, (name, value) in enumerate(PLANTED.items()):
        if name == "loyalty id":
            yield encoded(at, f"{number}-own", loyalty_id=value)
            yield encoded(at, f"{number}-deep", customer={"loyalty_id": value})
            continue
        yield encoded(at, f"{number}-note", note=f"for {value}, thanks")
        yield encoded(at, f"{number}-name", customer={value: [{"contact": value}]})
        yield encoded(at, f"{number}-item", transactions=[_line(f"gift for {value}")])


def broken_messages(at: datetime) -> Iterator[bytes]:
    """Messages that become dead letters, all values in each, broken in different ways and
    places."""
    # By itself a loyalty id looks like any other text: only what is written beside its name can be
    # known for one.
    others = {name: value for name, value in PLANTED.items() if name != "loyalty id"}
    whole = encoded(
        at,
        "broken",
        loyalty_id=PLANTED["loyalty id"],
        customer=others,
        note=" ".join(others.values()),
    )
    yield whole[:-2]
    yield whole.replace(b'"operation_id"', b'"shop"', 1)
    yield whole.replace(b'"amount": 1', b'"amount": true', 1)
    yield whole.replace(b"Milk", b"M\xff", 1)
    yield whole.removesuffix(b"}") + b', "note": "again"}'
    yield whole.removesuffix(b"}") + b', "deep": ' + b"[" * 100 + b"]" * 100 + b"}"
    yield whole.replace(format_utc(at).encode(), b"2106-01-01T00:00:00Z", 1)
    yield whole.replace(b'"loyalty_id": "', b'"loyalty_id":\n\t\t"', 1).replace(
        b'"operation_id"', b'"shop"', 1
    )
    yield whole.replace(b'"loyalty_id"', b'"loyalty\\u005fid"', 1).replace(
        b'"operation_id"', b'"shop"', 1
    )
    yield json.dumps([json.loads(whole)]).encode()
    yield b"\xef\xbb\xbf" + whole


def keys() -> list[bytes]:
    """Kafka keys that say who was there."""
    return [value.encode() for value in PLANTED.values() if value != PLANTED["loyalty id"]]


def codes_message(at: datetime, number: int, codes: list[str]) -> bytes:
    """A receipt of articles, each by its code as item and as item id."""
    return encoded(
        at, f"codes-{number}", transactions=[{**_line(code), "item_id": code} for code in codes]
    )


def encoded(at: datetime, number: str, **fields: Any) -> bytes:
    """A receipt of the store, with the harmless mark."""
    base = {
        "happened_at": format_utc(at),
        "operation_id": STORE,
        "vendor_fiscal_module": 1,
        "transaction_id": number,
        "transactions": [_line("Milk")],
        "mark": MARK,
    }
    return json.dumps({**base, **fields}).encode()


def _line(item: str) -> dict[str, Any]:
    return {"item": item, "price": 0.99, "amount": 1, "category": MARK}
