"""Draws the receipts of a twin store's tills, sold, corrected and voided, and makes the messages.

The life of a receipt is the ground truth: its last version counts, unless it was voided.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from random import Random
from typing import Any, TypeAlias

from ingest.senders.twin.people import Person
from ingest.senders.twin.plan import TwinStore, draw_index, make_random
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
# How a till sends a void: with the receipt's lines and time, without lines, twice, or by
# sending the number again with the status `voided`.
_VOID_FORMS = ("whole", "bare", "twice", "cancelled")
# Seconds until a receipt is corrected, and until it is voided after that.
_CORRECTED_AFTER, _VOIDED_AFTER = (30.0, 1200.0), (60.0, 1200.0)
# How often a corrected receipt is corrected: shares of once, twice and three times.
_TIMES_CORRECTED = (0.7, 0.2, 0.1)

TillFields: TypeAlias = dict[str, Any]
SoldGoods: TypeAlias = list[TillFields]
# When it happened (seconds since 1970), the identity of the event, and the message's fields.
TillMessage: TypeAlias = tuple[float, str, TillFields]


@dataclass(frozen=True)
class ReceiptHistory:
    """A receipt with all its versions, each with when it was closed (seconds since 1970).

    `voided_at` is when it was voided, None if it was not; `void_form` is the form of the void.
    """

    till: int
    number: int
    versions: Sequence[tuple[float, SoldGoods]]
    voided_at: float | None = None
    void_form: str = "whole"


def draw_histories(
    store: TwinStore, day: date, seed: int, people: Sequence[Person]
) -> Iterator[ReceiptHistory]:
    """The receipts of a day, ordered by when their payers went out."""
    chance = make_random(seed, store.store_id, day.isoformat(), "tills")
    # A generator of its own: the sales are the same, however often receipts are corrected.
    later = make_random(seed, store.store_id, day.isoformat(), "corrections")
    payers = sorted((person for person in people if person.pays), key=lambda payer: payer.left)
    counted: Counter[int] = Counter()
    for person in payers:
        till = 1 + chance.randrange(store.tills)
        counted[till] += 1
        # A till counts on from day to day, unless its numbers begin again.
        before = 0 if store.till_habits.restarts else day.toordinal() * 100_000
        # A person pays a moment before going out.
        at = max(person.came, person.left - chance.uniform(20, 90))
        yield _draw_history(store, later, till, before + counted[till], (at, _lines(chance)))


def receipt_messages(store_id: str, life: ReceiptHistory) -> Iterator[TillMessage]:
    """The messages that the till sends for a receipt."""
    till_fields = {"operation_id": store_id, "vendor_fiscal_module": life.till}
    for revision, (at, lines) in enumerate(life.versions):
        version = {"revision": revision} if revision else {}
        yield (
            at,
            f"{life.till}/{life.number}" + (f"/{revision}" if revision else ""),
            {
                "happened_at": format_instant(at),
                **till_fields,
                "transaction_id": life.number,
                **version,
                "transactions": lines,
            },
        )
    if life.voided_at is not None:
        yield from _voids(till_fields, life, life.voided_at)


def format_instant(seconds: float) -> str:
    """The instant as a till writes it, to the second."""
    return format_utc(datetime.fromtimestamp(int(seconds), UTC))


def _draw_history(
    store: TwinStore, chance: Random, till: int, number: int, sold: tuple[float, SoldGoods]
) -> ReceiptHistory:
    habits = store.till_habits
    versions, voided_at, form = [sold], None, 0
    if chance.random() < habits.corrected:
        for _ in range(1 + draw_index(chance, _TIMES_CORRECTED)):
            at = versions[-1][0] + chance.uniform(*_CORRECTED_AFTER)
            versions.append((at, _lines(chance)))
    if chance.random() < habits.voided:
        voided_at = versions[-1][0] + chance.uniform(*_VOIDED_AFTER)
        form = chance.randrange(len(_VOID_FORMS))
    return ReceiptHistory(till, number, versions, voided_at, _VOID_FORMS[form])


def _voids(till_fields: TillFields, life: ReceiptHistory, at: float) -> Iterator[TillMessage]:
    closed_at, lines = life.versions[-1]
    own = {"happened_at": format_instant(at), **till_fields}
    if life.void_form == "cancelled":
        fields = {"transaction_id": life.number, "transaction_status": "voided", "transactions": []}
        yield at, f"{life.till}/{life.number}/cancelled", {**own, **fields}
        return
    voids = {
        "vendor_fiscal_module": life.till,
        "transaction_id": life.number,
        "happened_at": format_instant(closed_at),
    }
    for copy in range(2 if life.void_form == "twice" else 1):
        # No receipt has such a number.
        number = f"V{life.number}-{copy}"
        fields = {
            "transaction_id": number,
            "kind": "void",
            "voids": voids,
            "transactions": lines if life.void_form == "whole" else [],
        }
        yield (
            at + copy,
            f"{life.till}/{number}",
            {**own, "happened_at": format_instant(at + copy), **fields},
        )


def _lines(chance: Random) -> SoldGoods:
    count = 1 + min(19, int(chance.expovariate(0.3)))
    return [_line(chance) for _ in range(count)]


def _line(chance: Random) -> TillFields:
    item, cents = chance.choice(GOODS)
    amount = chance.choices((1, 2, 3), (80, 15, 5))[0]
    return {"item": item, "item_id": item, "price": f"{cents / 100:.2f}", "amount": amount}
