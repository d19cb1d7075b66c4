"""Makes the messages of a twin store's doors, access points, tills and shelves, with errors."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from hashlib import blake2b
from math import log10
from random import Random
from typing import Any, NamedTuple, TypeAlias

from ingest.senders.twin.people import Person, TwinStore, address, make_random
from tally.time.instants import format_utc

GOODS = (
    *(("bread", 249), ("milk", 119), ("coffee", 649)),
    *(("apples", 299), ("cheese", 459), ("socks", 799)),
    *(("soap", 189), ("wine", 899)),
)
NUMBERS_A_DAY = 100_000
DOOR_SECONDS = 60
_WAYS = ("in", "out", "passers_by")
_NEAR, _FAR, _NOISE_DBM = (2.0, 12.0), (8.0, 20.0), 6.0
_WALL_DBM = 18
_MIN_DBM, _MAX_DBM = -95, -20
# Times are in seconds, amounts in units: on the busiest day some articles run out.
_COUNT_AHEAD, _DELIVERED_AFTER = 600, 7200
_COUNTED, _DELIVERED = (40, 120), (10, 40)
# By door, numbered from 0: when a person went through it, in seconds since 1970 (UTC), and which
# way, as its counter reports it.
DoorCrossings: TypeAlias = dict[int, list[tuple[float, str]]]

TillFields: TypeAlias = dict[str, Any]
SoldGoods: TypeAlias = list[TillFields]


class TillSale(NamedTuple):
    """A sale, with when it was closed (seconds since 1970)."""

    till: int
    number: int
    at: float
    goods: SoldGoods


def draw_sales(
    store: TwinStore, day: date, seed: int, people: Sequence[Person]
) -> Iterator[TillSale]:
    """The sales of a day, ordered by when their payers went out."""
    chance = make_random(seed, store.store_id, day.isoformat(), "tills")
    payers = sorted((person for person in people if person.pays), key=lambda payer: payer.left)
    counted: Counter[int] = Counter()
    for person in payers:
        till = 1 + chance.randrange(store.tills)
        counted[till] += 1
        # A till counts on from day to day.
        number = day.toordinal() * NUMBERS_A_DAY + counted[till]
        # A person pays a moment before going out.
        at = max(person.came, person.left - chance.uniform(20, 90))
        yield TillSale(till, number, at, draw_goods(chance))


def receipt_fields(store_id: str, sale: TillSale) -> TillFields:
    """The receipt that the till sends of a sale."""
    return {
        "happened_at": format_instant(sale.at),
        "operation_id": store_id,
        "vendor_fiscal_module": sale.till,
        "transaction_id": sale.number,
        "transactions": sale.goods,
    }


def format_instant(seconds: float) -> str:
    """The instant as a till writes it, to the second."""
    return format_utc(datetime.fromtimestamp(int(seconds), UTC))


def draw_goods(chance: Random) -> SoldGoods:
    """The lines of a receipt."""
    count = 1 + min(19, int(chance.expovariate(0.3)))
    return [_line(chance) for _ in range(count)]


def _line(chance: Random) -> TillFields:
    item, cents = chance.choice(GOODS)
    amount = chance.choices((1, 2, 3), (80, 15, 5))[0]
    return {"item": item, "item_id": item, "price": f"{cents / 100:.2f}", "amount": amount}


class SensorMessage(NamedTuple):
    """A message of a source; `at` is when its event happened, seconds since 1970 (UTC).

    Two messages with the same `identity` are the same event; a message can be sent at `ready_at`.
    """

    source: str
    at: float
    identity: str
    body: bytes
    ready_at: float


def make_messages(
    store: TwinStore, day: date, seed: int, people: Sequence[Person]
) -> list[SensorMessage]:
    """All messages of the store's sensors for a day, ordered by time."""
    sightings = _sightings(store, day, seed, people)
    found = [
        *_door_counts(store, day, door_crossings(store, day, seed, people)),
        # The keys of earlier devices are destroyed: the gateway would refuse each of them.
        *(message for message in sightings if message.at >= store.sightings_since),
        *_receipts(store, day, seed, people),
        *_documents(store, day, seed),
    ]
    return sorted(found, key=lambda message: (message.at, message.source, message.identity))


def door_crossings(
    store: TwinStore, day: date, seed: int, people: Sequence[Person]
) -> DoorCrossings:
    """The crossings of a day that the counters report."""
    chance = make_random(seed, store.store_id, day.isoformat(), "doors")
    found = defaultdict[int, list[tuple[float, str]]](list)
    for person in people:
        crossings = [("passers_by", person.came)]
        if person.is_visitor:
            crossings = [("in", person.came), ("out", person.left)]
        for way, at in crossings:
            ways = _draw_ways(store, way, chance)
            found[person.door] += [(at, reported_way) for reported_way in ways]
    return found


def _door_counts(store: TwinStore, day: date, crossed: DoorCrossings) -> Iterator[SensorMessage]:
    """The counts of each minute of each door, also of minutes without persons while it is open."""
    opens, closes = (int(instant.timestamp()) for instant in store.hours(day))
    open_numbers = range(opens // DOOR_SECONDS, -(-closes // DOOR_SECONDS))
    for door in range(store.doors):
        crossings = crossed.get(door, ())
        counts = Counter((int(at) // DOOR_SECONDS, way) for at, way in crossings)
        for number in sorted({*open_numbers, *(number for number, _ in counts)}):
            name, persons = f"door-{door + 1}", {way: counts[number, way] for way in _WAYS}
            fields = {"device_id": name, "interval_seconds": DOOR_SECONDS, **persons}
            at, identity = number * DOOR_SECONDS, f"{name}/{number}"
            yield _message("traffic", at, identity, store_id=store.store_id, **fields)


def _draw_ways(store: TwinStore, way: str, chance: Random) -> list[str]:
    """The ways that the counter reports for a crossing: one, none, two, or the wrong one."""
    errors, drawn = store.door_errors, chance.random()
    if drawn < errors.missed:
        return []
    if (drawn := drawn - errors.missed) < errors.doubled:
        return [way, way]
    if drawn - errors.doubled < errors.swapped and way != "passers_by":
        return ["out" if way == "in" else "in"]
    return [way]


def _sightings(
    store: TwinStore, day: date, seed: int, people: Sequence[Person]
) -> Iterator[SensorMessage]:
    chance = make_random(seed, store.store_id, day.isoformat(), "wifi")
    for person in people:
        phone = person.phone
        if phone is None:
            continue
        is_steady = phone.mac_class != "random_probe"
        stayed = person.left - person.came
        at = person.came + chance.uniform(0, min(phone.every_seconds, stayed))
        while at < person.left:
            # A phone that only looks for networks makes up a new address for each burst.
            phone_address = phone.address if is_steady else address(chance, is_local=True)
            if chance.random() >= store.phones.lost:
                device = device_hash(phone_address, store.store_id, day, seed)
                dbm = _draw_dbm(chance, is_inside=person.is_visitor)
                access_point = f"ap-{1 + chance.randrange(store.access_points)}"
                heard = {"device_hash": device, "mac_class": phone.mac_class, "rssi_dbm": dbm}
                fields = {"store_id": store.store_id, "ap_id": access_point, **heard}
                yield _message("wifi", at, f"{access_point}/{device}/{int(at)}", **fields)
            if is_steady:
                at += phone.every_seconds * chance.uniform(0.9, 1.1)
            else:
                at += chance.expovariate(1 / phone.every_seconds)


def _draw_dbm(chance: Random, *, is_inside: bool) -> int:
    """How loud an access point hears a phone, from inside or through the wall."""
    metres = chance.uniform(*(_NEAR if is_inside else _FAR))
    wall = 0 if is_inside else _WALL_DBM
    noise = chance.gauss(0, _NOISE_DBM)
    dbm = round(-40 - 25 * log10(metres) - wall + noise)
    return max(_MIN_DBM, min(_MAX_DBM, dbm))


def device_hash(phone_address: bytes, store_id: str, day: date, seed: int) -> str:
    """The hash of a device's address in one store on one day, as a gateway's key would make it."""
    key_name = f"twin/{seed}/{store_id}/{day.isoformat()}"
    key = blake2b(key_name.encode()).digest()
    return blake2b(phone_address, key=key, digest_size=16).hexdigest()


def _receipts(
    store: TwinStore, day: date, seed: int, people: Sequence[Person]
) -> Iterator[SensorMessage]:
    for sale in draw_sales(store, day, seed, people):
        fields = receipt_fields(store.store_id, sale)
        yield _message("pos", sale.at, f"{sale.till}/{sale.number}", **fields)


def _documents(store: TwinStore, day: date, seed: int) -> Iterator[SensorMessage]:
    """Stock documents: each article is counted before the doors open, and delivered after."""
    chance = make_random(seed, store.store_id, day.isoformat(), "documents")
    opens = int(store.hours(day)[0].timestamp())
    for kind, at, amounts in (
        ("count", opens - _COUNT_AHEAD, _COUNTED),
        ("delivery", opens + _DELIVERED_AFTER, _DELIVERED),
    ):
        document = f"{kind}-{day.isoformat()}"
        for item, _ in GOODS:
            head = {"store_id": store.store_id, "document_id": document, "kind": kind}
            line = {"item_id": item, "amount": chance.randint(*amounts)}
            yield _message("inventory", at, f"{document}/{item}", **head, **line)


def _message(source: str, at: float, identity: str, **fields: Any) -> SensorMessage:
    store = fields.get("store_id", fields.get("operation_id"))
    # An interval is sent once it is over.
    ready_at = at + fields.get("interval_seconds", 0)
    full_identity = f"{source}/{store}/{identity}"
    body = json.dumps({"happened_at": format_instant(at), **fields}).encode()
    return SensorMessage(source, at, full_identity, body, ready_at)
