"""Purchases, returns and voids of a few stores, and their stock documents, as stores send them:
some twice, some another time with other lines. What comes of them is reckoned here by plain loops
over what was sent, with no line of the product."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, NamedTuple

STORES = ("367", "406", "500", "294")
ITEMS = 40
MAX_LINES = 6
CONFLICTS, RETURNS, VOIDS = 0.01, 0.04, 0.02
# One in so many comes twice: 2 %.
REDELIVERED_OF = 50
BEGIN = datetime(2026, 11, 23, 8, tzinfo=UTC)
Json = dict[str, Any]
Lane = tuple[str, str]


class SentPurchase(NamedTuple):
    """A message, and whether it is a stock document's line."""

    message: Json
    is_document: bool

    @property
    def body(self) -> bytes:
        """As it is sent."""
        return json.dumps(self.message).encode()


@dataclass
class Purchases:
    """So many purchases; `sent` in the order in which they are sent."""

    count: int
    seed: int
    sent: list[SentPurchase] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chance = Random(self.seed)
        again = {*self._chance.sample(range(self.count), self.count // REDELIVERED_OF)}
        self.sent += [self._document(store, item) for store in STORES for item in range(ITEMS)]
        recent: list[Json] = []
        for number in range(self.count):
            receipt = self._receipt(number, recent)
            recent = [*recent[-30:], receipt]
            self.sent.append(SentPurchase(receipt, is_document=False))
            self.sent += self._copies(recent, is_redelivered=number in again)

    @property
    def redelivered(self) -> int:
        """How many messages say what another one before has said."""
        return len(self.sent) - len({one.body for one in self.sent})

    def levels(self) -> dict[Lane, int]:
        """Thousandths of each article in the end, by what the stores have sent."""
        events: dict[Lane, list[tuple[str, bool, int]]] = defaultdict(list)
        for at, is_movement, lane, milli in self._events():
            events[lane].append((at, is_movement, milli))
        found = {}
        for lane, told in events.items():
            level = 0
            for _, is_movement, milli in sorted(told, key=lambda one: one[:2]):
                level = level + milli if is_movement else milli
            found[lane] = level
        return found

    def groups(self) -> Counter[int]:
        """How many receipts there are that move so many lines, voids without their own lines."""
        return Counter(len(one["transactions"]) for one in self._first().values())

    def _events(self) -> Iterator[tuple[str, bool, Lane, int]]:
        for one in self.sent:
            if one.is_document:
                told = one.message
                lane = told["store_id"], told["item_id"]
                is_movement = told["kind"] != "count"
                yield told["happened_at"], is_movement, lane, told["amount"] * 1000
        for receipt in self._first().values():
            for line in receipt["transactions"]:
                sign = 1 if receipt["kind"] == "return" else -1
                lane = receipt["operation_id"], line["item_id"]
                yield receipt["happened_at"], True, lane, sign * line["amount"] * 1000

    def _first(self) -> dict[tuple[str, int], Json]:
        """The receipts that count: the first of each number, and none that a void names."""
        first: dict[tuple[str, int], Json] = {}
        voided = set()
        for one in self.sent:
            if not one.is_document:
                told = one.message
                first.setdefault((told["operation_id"], told["transaction_id"]), told)
                if "voids" in told:
                    voided.add((told["operation_id"], told["voids"]["transaction_id"]))
        return {
            name: told
            for name, told in first.items()
            if name not in voided and told["kind"] != "void"
        }

    def _document(self, store: str, item: int) -> SentPurchase:
        kind = self._chance.choice(("count", "count", "count", "delivery"))
        told = {
            "store_id": store,
            "document_id": f"{kind}-1",
            "happened_at": (BEGIN - timedelta(hours=1)).isoformat(),
            "kind": kind,
            "item_id": f"item-{item}",
            "amount": self._chance.randrange(1, 500),
        }
        return SentPurchase(told, is_document=True)

    def _receipt(self, number: int, recent: list[Json]) -> Json:
        draw = self._chance.random()
        kind = "return" if draw < RETURNS else "sale"
        told = {
            "happened_at": (BEGIN + timedelta(seconds=3 * number)).isoformat(),
            "operation_id": self._chance.choice(STORES),
            "vendor_fiscal_module": 1,
            "transaction_id": number,
            "kind": kind,
            "transactions": self._lines(self._chance.randrange(1, MAX_LINES + 1)),
        }
        sold = [one for one in recent if one["kind"] != "void"]
        if sold and draw > 1 - VOIDS:
            taken = self._chance.choice(sold)
            voids = {"vendor_fiscal_module": 1, "transaction_id": taken["transaction_id"]}
            own = {"kind": "void", "operation_id": taken["operation_id"], "voids": voids}
            return {**told, **own, "transactions": []}
        return told

    def _lines(self, count: int) -> list[Json]:
        items = [self._chance.randrange(ITEMS) for _ in range(count)]
        return [
            {
                "item": f"Article {item}",
                "item_id": f"item-{item}",
                "price": 1,
                "amount": self._chance.randrange(1, 4),
            }
            for item in items
        ]

    def _copies(self, recent: list[Json], *, is_redelivered: bool) -> list[SentPurchase]:
        found = []
        if is_redelivered:
            found.append(SentPurchase(self._chance.choice(recent), is_document=False))
        if self._chance.random() < CONFLICTS:
            other = self._chance.choice([one for one in recent if one["kind"] != "void"] or recent)
            more = {"transactions": self._lines(MAX_LINES)}
            found.append(SentPurchase({**other, **more}, is_document=False))
        return found
