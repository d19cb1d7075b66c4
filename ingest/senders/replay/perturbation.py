"""Computes what a replay sends and when, as a pure function of the receipts and a seeded plan."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import heappop, heappush
from random import Random
from typing import Literal, NamedTuple

MessageKind = Literal["original", "late", "duplicate", "conflict", "bad"]

_DAY_SECONDS = 86_400.0
# An early duplicate or conflict comes within this time, while the speed layer still has the window
# open.
_SOON_SECONDS = 300.0
# A conflict in another window lies 15 to 45 minutes earlier: certainly in another window, which is
# still open.
_SHIFT_SECONDS = (900, 2700)
_CONFLICTING_LINE = b',{"item":"conflicting line","price":1,"amount":1}]}'
_DEEP = 100
# The reason of the dead letter that a message must become, and how to corrupt a good one, which
# begins with happened_at and ends in `]}`.
CORRUPTIONS: dict[str, Callable[[bytes], bytes]] = {
    "not_json": lambda message: message[:-2],
    "missing_field": lambda message: message.replace(b'"operation_id"', b'"shop"', 1),
    "wrong_type": lambda message: message.replace(b'"amount":', b'"amount":true,"pieces":', 1),
    "out_of_range": lambda message: message.replace(b'"price":', b'"price":1e400,"list_price":', 1),
    "timestamp_without_zone": lambda message: message.replace(b'+00:00"', b'"', 1),
    "timestamp_not_rfc3339": lambda message: (
        b'{"happened_at":"19.09.2017 22:48"' + message[message.index(b",") :]
    ),
    "future_time": lambda message: (
        b'{"happened_at":"2106-01-01T00:00:00Z"' + message[message.index(b",") :]
    ),
    "duplicate_field": lambda message: message.removesuffix(b"}") + b',"operation_id":1}',
    "not_utf8": lambda message: message.replace(b'"item":"', b'"item":"\xff', 1),
    "too_deep": lambda message: (
        message.removesuffix(b"}") + b',"note":' + b"[" * _DEEP + b"]" * _DEEP + b"}"
    ),
    "unknown_schema_version": lambda message: message.removesuffix(b"}") + b',"schema_version":99}',
}
_KINDS = tuple(CORRUPTIONS.values())


class Receipt(NamedTuple):
    """One receipt; happened_at in seconds since 1970, and its message, which ends in `]}`."""

    store_id: str
    happened_at: float
    message: bytes


class PlannedMessage(NamedTuple):
    """A message to send at send_at, in seconds since 1970; `late` is a first copy sent late."""

    kind: MessageKind
    send_at: float
    key: str
    value: bytes


@dataclass(frozen=True)
class Perturbation:
    """How so many `receipts` are disturbed; shares are of receipts, times in seconds of events."""

    seed: int = 1
    duplicates: float = 0.0
    disorder: float = 0.0
    late: float = 0.0
    late_by: float = _DAY_SECONDS
    conflicts: int = 0
    bad: int = 0
    receipts: int = 0


def plan_messages(receipts: Iterable[Receipt], plan: Perturbation) -> Iterator[PlannedMessage]:
    """Everything to send, ascending by send_at; the receipts must ascend by happened_at.

    A receipt's first copy always comes before its duplicates and its conflict, so that the accepted
    payload is the first copy.
    """
    chance = Random(plan.seed)
    conflicts = _draw_positions(chance, plan.conflicts, plan.receipts)
    bad = _draw_positions(chance, plan.bad, plan.receipts)
    waiting: list[tuple[float, int, PlannedMessage]] = []
    number = 0
    for position, receipt in enumerate(receipts):
        # No message is sent before it happened, so no later receipt can precede what is due now.
        while waiting and waiting[0][0] < receipt.happened_at:
            yield heappop(waiting)[2]
        fate = conflicts.get(position), bad.get(position)
        for message in _draw_messages(chance, plan, receipt, *fate):
            number += 1
            heappush(waiting, (message.send_at, number, message))
    while waiting:
        yield heappop(waiting)[2]


def _draw_positions(chance: Random, count: int, receipts: int) -> dict[int, int]:
    """The positions of so many receipts, each with its number in the order of the draw."""
    positions = chance.sample(range(receipts), min(count, receipts))
    return {position: number for number, position in enumerate(positions)}


def _draw_messages(
    chance: Random, plan: Perturbation, receipt: Receipt, conflict: int | None, bad: int | None
) -> Iterator[PlannedMessage]:
    """A receipt's first message, duplicate, conflict and bad copy; the latter two by number."""
    draw, store_id = chance.random, receipt.store_id
    is_late = draw() < plan.late and conflict is None
    # 1 - draw() is above 0, so that a late receipt is always late.
    delay = (1.0 - draw()) * plan.late_by if is_late else draw() * plan.disorder
    first = receipt.happened_at + delay
    yield PlannedMessage("late" if is_late else "original", first, store_id, receipt.message)
    if draw() < plan.duplicates:
        again = first + draw() * (_SOON_SECONDS if draw() < 0.5 else _DAY_SECONDS)
        yield PlannedMessage("duplicate", again, store_id, receipt.message)
    if conflict is not None:
        value = _conflict_message(chance, receipt, is_in_another_window=conflict % 2 == 1)
        yield PlannedMessage("conflict", first + draw() * _SOON_SECONDS, store_id, value)
    if bad is not None:
        # The kinds take turns.
        corrupt = _KINDS[bad % len(_KINDS)]
        yield PlannedMessage("bad", first, store_id, corrupt(receipt.message))


def _conflict_message(chance: Random, receipt: Receipt, *, is_in_another_window: bool) -> bytes:
    """The receipt with one more line and the same identity, optionally in another window."""
    message = receipt.message.removesuffix(b"]}") + _CONFLICTING_LINE
    if not is_in_another_window:
        return message
    moved = receipt.happened_at - chance.uniform(*_SHIFT_SECONDS)
    return message.replace(_stamp(receipt.happened_at), _stamp(moved), 1)


def _stamp(seconds: float) -> bytes:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S+00:00").encode()
