"""Draws the sales of a twin store's tills, and makes the receipts that the tills send of them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from random import Random
from typing import Any, NamedTuple, TypeAlias

from ingest.senders.twin.people import Person
from ingest.senders.twin.plan import TwinStore, make_random
from tally.time.instants import format_utc

GOODS = (
    ("bread", 249),
    ("milk", 119),
    ("coffee", 649),
    ("apples", 299),
    ("cheese", 459),
    ("socks", 799),
    ("soap", 189),
    ("wine", 899),
)
NUMBERS_A_DAY = 100_000

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
