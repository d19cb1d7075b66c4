"""Seeded receipts and people counts of the last nine days up to now, as honest tills send them:
with resends, conflicts and late ones.

What they must add up to is `tests/support/oracles/plain_oracle.py` over the same messages in the
same order.
"""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tests.support.oracles.plain_oracle import (
    Cell,
    Event,
    Parts,
    counted_by_window,
    counted_once,
    event_of,
    quarter,
)

DAYS = 9
# The first currency is the till's own; a store with two is what `by=currency` is for.
STORES = {
    "n-usd": ("USD",),
    "n-eur": ("EUR",),
    "n-jpy": ("JPY",),
    "n-bhd": ("BHD",),
    "n.two:367": ("EUR", "USD"),
}
DEVICES = ("door-1", "door-2")
DISORDER = timedelta(minutes=5)
# Far more than any allowed lateness: the speed layer has closed such a window.
LATE_BY = timedelta(days=1)
# Receipts of long ago come late too: the turn of a century, a leap day, the hours around both clock
# changes, with their offsets.
OLD = (
    "2000-01-01T00:00:00+00:00",
    "2000-02-29T23:59:59.999+00:00",
    "2017-03-26T01:59:59.999+01:00",
    "2017-03-26T03:00:00+02:00",
    "2017-10-29T02:30:00+02:00",
    "2017-10-29T02:30:00+01:00",
)
PATHS = {"pos": "/v1/events/pos", "traffic": "/v1/events/traffic"}


@dataclass(frozen=True)
class Sending:
    """A message and when, at the speed of life, it would have been sent."""

    source: str
    sent_at: datetime
    message: bytes


@dataclass(frozen=True)
class Scale:
    """How many receipts and intervals; of a hundred so many are sent twice, contradicted in
    their window or in another, or late."""

    receipts: int = 1500
    intervals: int = 1000
    duplicates: int = 3
    conflicts: int = 1
    moved: int = 1
    late: int = 2


@dataclass(frozen=True)
class Load:
    """Sendings in order of arrival: first those on time, later the late ones."""

    on_time: Sequence[Sending]
    late: Sequence[Sending]

    def expected_speed(self, source: str, *later: Sending) -> dict[Cell, Parts]:
        """What the speed rows of a source must hold: everything but the late ones, each window
        by itself."""
        return counted_by_window(_events([*self.on_time, *later], source))

    def expected(self, source: str, *later: Sending) -> dict[Cell, Parts]:
        """The final truth of a source; `later` came after the others."""
        return counted_once(_events([*self.on_time, *self.late, *later], source))


def _events(sendings: Sequence[Sending], source: str) -> Iterator[Event]:
    return (event_of(sending.message) for sending in sendings if sending.source == source)


def load(seed: int, now: datetime, scale: Scale = Scale()) -> Load:
    """The load that ends at `now` (UTC, whole milliseconds); equal seeds and instants are equal
    loads."""
    chance = random.Random(seed)
    first = [_receipt(chance, number, now) for number in range(scale.receipts)] + _intervals(
        chance, scale.intervals, now
    )
    on_time: list[tuple[datetime, str, dict[str, Any]]] = []
    late: list[tuple[datetime, str, dict[str, Any]]] = []
    for source, happened_at, fields in first:
        dice = chance.randrange(100)
        sent_at = happened_at + chance.random() * DISORDER
        if dice < scale.late and happened_at < now - LATE_BY:
            late.append((sent_at, source, fields))
            continue
        on_time.append((sent_at, source, fields))
        on_time += [
            (sent_at + delay, source, again)
            for delay, again in _again(chance, source, fields, scale)
        ]
    late += [
        old
        for number, text in enumerate(OLD * 3)
        if (old := _old(chance, number, text))[0] < now - LATE_BY
    ]
    return Load(_ordered(on_time, now), _ordered(late, now))


def _old(
    chance: random.Random, number: int, happened_at: str
) -> tuple[datetime, str, dict[str, Any]]:
    instant = datetime.fromisoformat(happened_at)
    return (
        instant,
        "pos",
        {**receipt(chance, "n-eur", f"old-{number}", instant), "happened_at": happened_at},
    )


def _ordered(
    planned: Sequence[tuple[datetime, str, dict[str, Any]]], now: datetime
) -> list[Sending]:
    """In order of sending; what would have been sent after now is not there yet."""
    made = [
        Sending(source, sent_at, json.dumps(fields).encode())
        for sent_at, source, fields in planned
        if sent_at <= now
    ]
    return sorted(made, key=lambda sending: sending.sent_at)


def _again(
    chance: random.Random, source: str, fields: dict[str, Any], scale: Scale
) -> Iterator[tuple[timedelta, dict[str, Any]]]:
    """A resend (other field order), a contradiction in the same window, or one in another, each
    after a while."""
    dice, after = chance.randrange(100), chance.random() * timedelta(hours=1)
    if dice < scale.duplicates:
        yield after, dict(reversed(fields.items()))
    elif dice < scale.duplicates + scale.conflicts:
        other = (
            {"in": fields["in"] + 7}
            if source == "traffic"
            else {"transactions": [{"item": "other", "price": "7.77", "amount": 1}]}
        )
        yield after, {**fields, **other}
    elif dice < scale.duplicates + scale.conflicts + scale.moved and source == "pos":
        moved = datetime.fromisoformat(fields["happened_at"]) + timedelta(minutes=30)
        # Sent after it happened: the speed layer counts it in its window, a rebuild takes it back.
        yield timedelta(minutes=31) + after, {**fields, "happened_at": moved.isoformat()}


def _receipt(
    chance: random.Random, number: int, now: datetime
) -> tuple[str, datetime, dict[str, Any]]:
    happened_at = now - timedelta(milliseconds=chance.randrange(DAYS * 86_400_000))
    store = chance.choice(list(STORES))
    return "pos", happened_at, receipt(chance, store, str(number), happened_at)


def receipt(
    chance: random.Random, store: str, number: str, happened_at: datetime
) -> dict[str, Any]:
    """Fields of a receipt: mostly sales, of one to four lines, some taken back, prices as
    numbers and as text."""
    kind = chance.choices(("sale", "return", "void"), (90, 6, 4))[0]
    lines = [_line(chance) for _ in range(chance.randint(1, 4))]
    fields = {
        "happened_at": happened_at.isoformat(),
        "operation_id": store,
        "vendor_fiscal_module": chance.randint(1, 3),
        "transaction_id": number,
        "currency": chance.choice(STORES[store]),
        "transactions": lines,
    }
    return fields if kind == "sale" else {**fields, "kind": kind}


def _line(chance: random.Random) -> dict[str, Any]:
    # Halves of every minor unit, so that rounding half to even is met: 0.125 USD, 0.5 JPY, 0.0005
    # BHD.
    price = chance.choice(
        ("0.99", "0.125", "0.5", "12.0005", "3", str(chance.randrange(1, 99_999) / 1000))
    )
    amount = chance.choice((1, 1, 1, 2, "0.333", -1))
    line = {
        "item": f"item {chance.randrange(99)}",
        "price": chance.choice((price, float(price))),
        "amount": amount,
    }
    return (
        {**line, "total": f"{chance.randrange(9_999)}.{chance.randrange(100):02}"}
        if chance.random() < 0.2
        else line
    )


def _intervals(
    chance: random.Random, count: int, now: datetime
) -> list[tuple[str, datetime, dict[str, Any]]]:
    """One minute each; no device has two that begin alike."""
    ended = now.replace(second=0, microsecond=0) - timedelta(minutes=1)
    chosen = chance.sample(range(DAYS * 24 * 60), count)
    return [
        ("traffic", at, _interval(chance, at))
        for at in (ended - timedelta(minutes=minutes) for minutes in chosen)
    ]


def _interval(chance: random.Random, happened_at: datetime) -> dict[str, Any]:
    return {
        "store_id": chance.choice(list(STORES)),
        "device_id": chance.choice(DEVICES),
        "happened_at": happened_at.isoformat(),
        "interval_seconds": 60,
        "in": chance.randrange(9),
        "out": chance.randrange(9),
        "passers_by": chance.randrange(40),
    }


def of_this_second(seed: int, now: datetime, count: int = 5) -> list[Sending]:
    """Receipts that happened at `now` exactly, of every store in turn."""
    chance = random.Random(seed)
    made = [
        receipt(chance, store, f"now-{seed}-{number}", now)
        for number, store in zip(range(count), STORES, strict=False)
    ]
    return [Sending("pos", now, json.dumps(fields).encode()) for fields in made]


def hourly(sendings: Sequence[Sending]) -> Iterator[tuple[str, list[bytes]]]:
    """(source, messages) of each hour in order, as a store's uplink would post them."""
    posts: dict[tuple[datetime, str], list[bytes]] = {}
    for sending in sendings:
        hour = quarter(sending.sent_at).replace(minute=0)
        posts.setdefault((hour, sending.source), []).append(sending.message)
    return ((source, messages) for (_, source), messages in posts.items())
