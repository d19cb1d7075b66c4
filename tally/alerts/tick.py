"""A tick: a fact about how far the data of one partition has come, and the sum of such facts.

Facts stay true. So it makes no difference in which order, how often and from how many tickers they
come: what holds is the most that any of them says. Instants are milliseconds since 1970 (UTC).
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec
from msgspec import Struct

from tally.windows import WINDOW_MILLIS


class SpeedEpoch(Struct, frozen=True, order=True):
    """By which definition the speed layer reads a family, and since when its rows are whole.

    Of a window that begins before `floor` some records may be in no row: it was begun by another
    definition, or lies below the floor of a query without a checkpoint. There only a generation
    knows.
    """

    epoch: int
    floor: int = 0


class Tick(Struct, frozen=True, kw_only=True):
    """What holds of one partition; partition p speaks of partition p of each family's topic.

    `n` counts the ticks; `at` has come by the brokers' clock. Everything that brokers had
    acknowledged before `through` of a family has been read by the speed layer, under the definition
    `epoch`. Runs of its rebuild up to the token `flips` have published. Every rule that was written
    before `at` lies below the offset `rules_until` of its topic. A family that is not named is not
    spoken of.
    """

    n: int = 0
    at: int = 0
    through: Mapping[str, int] = {}
    epoch: Mapping[str, SpeedEpoch] = {}
    flips: Mapping[str, int] = {}
    rules_until: int = 0

    @property
    def value(self) -> bytes:
        """As a record's value (schemas/topics/ticks.schema.json)."""
        return _ENCODER.encode(self)

    @classmethod
    def read(cls, value: bytes) -> "Tick":
        """The tick of a record's value. Raises msgspec.DecodeError."""
        return msgspec.json.decode(value, type=cls)


# One order of the keys: equal ticks are equal bytes.
_ENCODER = msgspec.json.Encoder(order="deterministic")
NO_TICK = Tick()
_Value = TypeVar("_Value", int, SpeedEpoch)


def merged(one: Tick, other: Tick) -> Tick:
    """Both facts as one: of each field the largest.

    `through` goes with the epoch: of the higher one alone it counts. The rows of the lower are out
    of force, and what was read for them says nothing of those that replace them:

        one        | sales: through 12:00, epoch 2, floor 0
        other      | sales: through 11:00, epoch 3, floor 11:15
        merged     | sales: through 11:00, epoch 3, floor 11:15

    Within an epoch the larger floor and the later instant hold, whoever said them. Associative,
    commutative, idempotent; NO_TICK changes nothing.
    """
    return Tick(
        n=max(one.n, other.n),
        at=max(one.at, other.at),
        through=_latest(one, other),
        epoch=_largest(one.epoch, other.epoch),
        flips=_largest(one.flips, other.flips),
        rules_until=max(one.rules_until, other.rules_until),
    )


def _latest(one: Tick, other: Tick) -> dict[str, int]:
    """Of each family the latest instant among those said under its highest epoch."""
    families = {*one.through, *other.through}
    ruling = {name: _epoch_of(name, one, other) for name in families}

    def said(tick: Tick) -> dict[str, int]:
        instants = tick.through.items()
        return {name: at for name, at in instants if _epoch_of(name, tick) == ruling[name]}

    return _largest(said(one), said(other))


def _epoch_of(family: str, *ticks: Tick) -> int:
    # Without one it is below every other: it speaks until a tick comes that names one.
    named = (tick.epoch[family].epoch for tick in ticks if family in tick.epoch)
    return max(named, default=-1)


def _largest(
    one: Mapping[str, _Value],
    other: Mapping[str, _Value],
) -> dict[str, _Value]:
    # A family that one of them does not name has what the other says.
    return {
        name: max(values[name] for values in (one, other) if name in values)
        for name in {**one, **other}
    }


def closed_until(tick: Tick, families: Iterable[str], delay: int) -> int:
    """End of the last window that has closed, ms since 1970 (UTC); 0: none has.

    All that had come `delay` milliseconds after its end is in its speed rows then, in each of the
    families, of which at least one is to be named.
    """
    # A family that no tick has spoken of closes nothing.
    instants = [tick.through.get(one, 0) - delay for one in families]
    until = min(instants, default=0)
    return max(0, until - until % WINDOW_MILLIS)


def is_known(tick: Tick, family: str, start: int, epoch: int) -> bool:
    """Whether the speed layer's rows of the window that begins there are whole, and in force.

    `epoch`: that of the generation that serves the window's day, 0 without one. What lies above
    the tick's was raised by an erasure or a deploy that the speed layer has not come to yet: rows
    that are out of force then look like silence.
    """
    named = tick.epoch.get(family)
    return named is not None and start >= named.floor and epoch <= named.epoch
