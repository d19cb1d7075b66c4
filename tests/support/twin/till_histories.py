"""The receipts of a twin store's tills with what is done to them after the sale: corrected, and
voided in any form. The life of a receipt is the truth: its last version counts, unless it was
voided."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from random import Random
from typing import TypeAlias

from ingest.senders.twin.people import Person, TwinStore, draw_index, make_random
from ingest.senders.twin.sensors import (
    NUMBERS_A_DAY,
    SoldGoods,
    TillFields,
    TillSale,
    draw_goods,
    draw_sales,
    format_instant,
    receipt_fields,
)

# How a till sends a void: with the receipt's lines and time, without lines, twice, or by
# sending the number again with the status `voided`.
_VOID_FORMS = ("whole", "bare", "twice", "cancelled")
# Seconds until a receipt is corrected, and until it is voided after that.
_CORRECTED_AFTER, _VOIDED_AFTER = (30.0, 1200.0), (60.0, 1200.0)
# How often a corrected receipt is corrected: shares of once, twice and three times.
_TIMES_CORRECTED = (0.7, 0.2, 0.1)

# When it happened (seconds since 1970), the identity of the event, and the message's fields.
TillMessage: TypeAlias = tuple[float, str, TillFields]


@dataclass(frozen=True)
class TillHabits:
    """How often receipts are corrected and voided, as shares of all receipts.

    With `restarts` the receipt numbers begin again with each day of the store.
    """

    corrected: float = 0.0
    voided: float = 0.0
    restarts: bool = False


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
    store: TwinStore, habits: TillHabits, day: date, seed: int, people: Sequence[Person]
) -> Iterator[ReceiptHistory]:
    """The receipts of a day, ordered by when their payers went out."""
    # A generator of its own: the sales are the same, however often receipts are corrected.
    chance = make_random(seed, store.store_id, day.isoformat(), "corrections")
    for sale in draw_sales(store, day, seed, people):
        yield _draw_history(habits, chance, sale)


def receipt_messages(store_id: str, life: ReceiptHistory) -> Iterator[TillMessage]:
    """The messages that the till sends for a receipt."""
    for revision, (at, lines) in enumerate(life.versions):
        fields = receipt_fields(store_id, TillSale(life.till, life.number, at, lines))
        if revision:
            yield (
                at,
                f"{life.till}/{life.number}/{revision}",
                {**fields, "revision": revision},
            )
        else:
            yield at, f"{life.till}/{life.number}", fields
    if life.voided_at is not None:
        own = {"operation_id": store_id, "vendor_fiscal_module": life.till}
        yield from _voids(own, life, life.voided_at)


def _draw_history(habits: TillHabits, chance: Random, sale: TillSale) -> ReceiptHistory:
    number = sale.number % NUMBERS_A_DAY if habits.restarts else sale.number
    versions, voided_at, form = [(sale.at, sale.goods)], None, 0
    if chance.random() < habits.corrected:
        for _ in range(1 + draw_index(chance, _TIMES_CORRECTED)):
            at = versions[-1][0] + chance.uniform(*_CORRECTED_AFTER)
            versions.append((at, draw_goods(chance)))
    if chance.random() < habits.voided:
        voided_at = versions[-1][0] + chance.uniform(*_VOIDED_AFTER)
        form = chance.randrange(len(_VOID_FORMS))
    return ReceiptHistory(sale.till, number, versions, voided_at, _VOID_FORMS[form])


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
