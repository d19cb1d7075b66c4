"""Receipts of quarter hours that make every kind of alert, as stores send them: some twice, some
too late for the speed layer, some taken back.

A *stretch* is five quarter hours of one store, by what each layer counts in them. It begins and
ends with one receipt, which is few enough for the rule on many and enough for the rule on none: so
no alert of one stretch goes on into the next.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from random import Random
from typing import NamedTuple

from alerting.rules.rule import Rule, Threshold

HIGH, LOW = 5, 2
STRETCH = 5
# Eager, so that a hint is told of at once, and closing: what it tells comes with a tick alone.
EAGER = Rule(
    rule_id="rush",
    metric="transactions",
    condition=Threshold(">=", Decimal(HIGH)),
    clear=Threshold("<=", Decimal(LOW)),
    evaluate="eager",
    delay=0,
)
CLOSING = Rule(
    rule_id="busy",
    metric="transactions",
    condition=Threshold(">=", Decimal(HIGH)),
    clear=Threshold("<=", Decimal(LOW)),
    delay=0,
)
SILENT = Rule(rule_id="silent", kind="silence", family="sales", on_silence="raise", delay=0)
RULES = (EAGER, CLOSING, SILENT)
# One of each of four partitions, and two that share one with them.
STORES = ("367", "406", "500", "294", "321", "388")


class StretchCounts(NamedTuple):
    """Receipts in each of its quarter hours: that came in time, and that stand in the end."""

    in_time: Sequence[int]
    in_the_end: Sequence[int]


STRETCHES = {
    "high, then low": StretchCounts((1, 6, 2, 1, 1), (1, 6, 2, 1, 1)),
    "it wavers between the conditions": StretchCounts((1, 7, 4, 4, 1), (1, 7, 4, 4, 1)),
    "taken back": StretchCounts((1, 6, 2, 1, 1), (1, 4, 2, 1, 1)),
    "late": StretchCounts((1, 3, 3, 3, 1), (1, 3, 8, 3, 1)),
    "it began earlier": StretchCounts((1, 3, 7, 1, 1), (1, 6, 7, 1, 1)),
    "it ended later": StretchCounts((1, 7, 2, 1, 1), (1, 7, 6, 1, 1)),
    "two are one": StretchCounts((1, 6, 2, 7, 1), (1, 6, 5, 7, 1)),
    "one was two": StretchCounts((1, 6, 5, 7, 1), (1, 6, 2, 7, 1)),
    "nothing": StretchCounts((1, 0, 0, 2, 1), (1, 0, 0, 2, 1)),
    "nothing in time": StretchCounts((1, 0, 3, 0, 1), (1, 2, 3, 0, 1)),
    "nothing in the midst of much": StretchCounts((1, 6, 0, 3, 1), (1, 6, 0, 3, 1)),
    "as always": StretchCounts((1, 3, 4, 3, 1), (1, 2, 4, 3, 1)),
}


class SentReceipt(NamedTuple):
    """One delivery of a receipt to a store's quarter hour, by its number."""

    store: str
    number: int
    receipt: int
    # Each layer has a receipt once, however often it was sent.
    is_in_time: bool
    is_standing: bool


def sent_receipts(chance: Random, first: int, store: str) -> Iterator[SentReceipt]:
    """What the store sends in a stretch that begins with the quarter hour `first`, in any order."""
    counts = STRETCHES[chance.choice([*STRETCHES])]
    receipts = [
        SentReceipt(store, number, receipt, receipt < early, receipt < final)
        for number, (early, final) in enumerate(zip(*counts, strict=True), first)
        for receipt in range(max(early, final))
    ]
    resent = [one for one in receipts if chance.random() < 0.2]
    yield from chance.sample([*receipts, *resent], len(receipts) + len(resent))


def counted(receipts: Sequence[SentReceipt], *, in_the_end: bool) -> dict[tuple[str, int], int]:
    """How many of them a layer has by store and quarter hour; none: no key."""
    each = {one for one in receipts if (one.is_standing if in_the_end else one.is_in_time)}
    found: dict[tuple[str, int], int] = {}
    for one in each:
        found[one.store, one.number] = found.get((one.store, one.number), 0) + 1
    return found
