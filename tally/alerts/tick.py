"""Ticks: facts about the progress of one partition's data, and the merge of such facts.

Facts stay true. So their order, their repetitions and the number of tickers make no difference: the
largest value of any tick holds. Instants are milliseconds since 1970 (UTC).
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TypeVar

import msgspec
from msgspec import Struct

from tally.time.windows import WINDOW_MILLIS


class SpeedEpoch(Struct, frozen=True, order=True):
    """The definition by which the speed layer reads a family, and the start of its complete rows.

    If a window begins before `floor`, some of its records may be in no row: it was begun by another
    definition, or lies below the floor of a query without a checkpoint. A generation has all of it.
    """

    epoch: int
    floor: int = 0


class Tick(Struct, frozen=True, kw_only=True):
    """The progress of one partition; partition p is about partition p of each family's topic.

    `n` counts the ticks; the brokers' clock has reached `at`. The speed layer has read everything
    that brokers had acknowledged before `through` of a family, under the definition `epoch`.
    `flips` is the token of the family's last published rebuild. Every rule that was written before
    `at` lies below the offset `rules_until` of its topic. A tick is silent on families not named.
    """

    n: int = 0
    at: int = 0
    through: Mapping[str, int] = {}
    epoch: Mapping[str, SpeedEpoch] = {}
    flips: Mapping[str, int] = {}
    rules_until: int = 0

    @property
    def value(self) -> bytes:
        """The tick as a record's value (schemas/topics/ticks.schema.json)."""
        return _ENCODER.encode(self)

    @classmethod
    def decode(cls, value: bytes) -> "Tick":
        """The tick in a record's value. Raises msgspec.DecodeError."""
        return msgspec.json.decode(value, type=cls)


# The order of the keys is fixed, so that equal ticks are equal bytes.
_ENCODER = msgspec.json.Encoder(order="deterministic")
NO_TICK = Tick()
_Value = TypeVar("_Value", int, SpeedEpoch)


def merge_ticks(left: Tick, right: Tick) -> Tick:
    """Both facts as one tick, with the largest value of each field.

    `through` belongs to an epoch, and only that of the higher epoch counts. The rows of the lower
    epoch are out of force, so reading progress for them says nothing about those that follow:

        left       | sales: through 12:00, epoch 2, floor 0
        right      | sales: through 11:00, epoch 3, floor 11:15
        merged     | sales: through 11:00, epoch 3, floor 11:15

    Within an epoch the larger floor and the later instant hold, regardless of their tick. The merge
    is associative, commutative and idempotent, and NO_TICK is its neutral element.
    """
    return Tick(
        n=max(left.n, right.n),
        at=max(left.at, right.at),
        through=_merge_through(left, right),
        epoch=_merge_largest(left.epoch, right.epoch),
        flips=_merge_largest(left.flips, right.flips),
        rules_until=max(left.rules_until, right.rules_until),
    )


def _merge_through(left: Tick, right: Tick) -> dict[str, int]:
    """The latest instant of each family among those stated under its highest epoch."""
    families = {*left.through, *right.through}
    highest = {name: _highest_epoch(name, left, right) for name in families}

    def instants_at_highest(tick: Tick) -> dict[str, int]:
        instants = tick.through.items()
        return {name: at for name, at in instants if _highest_epoch(name, tick) == highest[name]}

    return _merge_largest(instants_at_highest(left), instants_at_highest(right))


def _highest_epoch(family: str, *ticks: Tick) -> int:
    # No epoch ranks below every other one, so it counts until a tick names an epoch.
    named = (tick.epoch[family].epoch for tick in ticks if family in tick.epoch)
    return max(named, default=-1)


def _merge_largest(*facts: Mapping[str, _Value]) -> dict[str, _Value]:
    # A family that only one of them names keeps that value.
    names = dict.fromkeys(chain(*facts))
    return {name: max(values[name] for values in facts if name in values) for name in names}


def last_closed_end(tick: Tick, families: Iterable[str], delay: int) -> int:
    """The end of the last closed window, ms since 1970 (UTC); 0 if none has closed.

    Everything that had arrived `delay` milliseconds after its end is then in its speed rows, for
    each of the families. At least one family is needed.
    """
    # A family that no tick has named keeps all windows open.
    instants = [tick.through.get(family, 0) - delay for family in families]
    until = min(instants, default=0)
    return max(0, until - until % WINDOW_MILLIS)


def is_known(tick: Tick, family: str, start: int, epoch: int) -> bool:
    """Whether the speed layer's rows of the window at `start` are complete and in force.

    `epoch`: that of the generation that serves the window's day, 0 without one. An epoch above the
    tick's was raised by an erasure or a deploy that the speed layer has not reached yet: then rows
    that are out of force would look like silence.
    """
    named = tick.epoch.get(family)
    return named is not None and start >= named.floor and epoch <= named.epoch
