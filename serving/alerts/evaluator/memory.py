"""What an evaluator knows of one partition, and the records in which the brokers keep it.

A record for each thing, by its key in the topic `alert-episodes`, and never one for all of them:

    e|alert_id                       an alert that may still change, as it was told last
    h|rule|store|subject|number      alerts that are settled, at most 64
    f|rule|store|subject|start       where the fold stands from the start of a local day on
    r|rule|store|subject|window      why an episode ends with the window, whatever its numbers are
    g|family|day                     the generation of a UTC day by which all stores were judged
    s|family|store                   from when on a store without records is silent
    c                                the tick that was judged last

What is changed here has to be stored, or to be forgotten: drained() gives it out once.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, date, datetime, time
from typing import TypeVar

import msgspec
from msgspec import Struct, structs

from runtime.processor.record import Input, Output
from serving.alerts.evaluator.chain_memory import SEPARATOR, ChainMemory, ForcedEnd
from tally.alerts.fold import FoldState
from tally.alerts.ids import Chain
from tally.alerts.resolution import AlertResolution
from tally.alerts.tick import NO_TICK, SpeedEpoch, Tick, merged
from tally.alerts.told import ToldAlert
from tally.errors import Refused

STATE_TOPIC = "alert-episodes"
_TICK = "c"


class JudgedDay(Struct, frozen=True):
    """By what all stores were judged on a UTC day: the generation and its epoch, 0: none.

    `speed`: of a day of which that leaves windows to the speed layer by which definition; None
    before a tick has told. `is_whole`: it leaves none. `is_settled`: it is not whole and never will
    be, for a later day is; its alerts are settled by what there is.
    """

    generation: int = 0
    epoch: int = 0
    speed: SpeedEpoch | None = None
    is_whole: bool = False
    is_settled: bool = False


class SilentFrom(Struct, frozen=True):
    """Start of the first window in which a store without records is silent, ms since 1970 (UTC)."""

    start: int


class Hint(Struct, frozen=True):
    """A window of which something may have changed; its start in ms since 1970 (UTC)."""

    family: str
    store_id: str
    window: int


FamilyDay = tuple[str, date]
FamilyStore = tuple[str, str]
_Said = TypeVar("_Said")


class PartitionMemory:
    """All of one partition.

    `tick`: what all ticks say that have come; `last`: what was judged by, at the last judgement.
    `hints`: windows to look at; `resolutions`: alerts to end. `chains`: alerts and folds. The
    others by what they are of, as the records above.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        # Kept apart: what lies between the two is what has to be looked at.
        self.tick, self.last = NO_TICK, NO_TICK
        self.hints: set[Hint] = set()
        self.resolutions: list[AlertResolution] = []
        # Whether days that have moved were left for the next pass.
        self.is_unfinished = False
        self.judged: dict[FamilyDay, JudgedDay] = {}
        self.silent_from: dict[FamilyStore, int] = {}
        self.chains = ChainMemory()
        self._changed = self.chains.changed

    def learn(self, tick: Tick) -> None:
        """One more tick: of each field the largest holds."""
        self.tick = merged(self.tick, tick)

    def mark_judged(self, of: FamilyDay, judged: JudgedDay) -> None:
        """All stores were judged by that generation of the day."""
        family, day = of
        self.judged[of] = judged
        self._changed[f"g|{family}|{day}"] = msgspec.json.encode(judged)

    def begin_store(self, of: FamilyStore, start: int) -> None:
        """The store is silent where it sends nothing, from that window on."""
        family, store_id = of
        self.silent_from[of] = start
        self._changed[f"s|{family}|{store_id}"] = msgspec.json.encode(SilentFrom(start))

    @property
    def has_news(self) -> bool:
        """Whether anything has come since the last judgement."""
        return bool(self.hints or self.resolutions) or self.tick != self.last

    def close(self, unfinished: Collection[str] = ()) -> None:
        """All was judged that the ticks speak of, but for some generations of these families."""
        self.is_unfinished = bool(unfinished)
        # As before: so the next look is at all of them again.
        flips = _with_those_of(self.last.flips, unfinished, self.tick.flips)
        epoch = _with_those_of(self.last.epoch, unfinished, self.tick.epoch)
        judged = structs.replace(self.tick, flips=flips, epoch=epoch)
        # A tick that says nothing new would be one more record every five seconds, for ever.
        if self.last != judged:
            self._changed[_TICK] = judged.value
        self.last = judged

    def forget_before(self, horizon: int) -> None:
        """Drops what is only of windows before the instant (ms since 1970, UTC)."""
        self.chains.settle(horizon)
        for family, day in [*self.judged]:
            if _millis(day) < horizon:
                del self.judged[family, day]
                self._changed[f"g|{family}|{day}"] = None

    def drained(self) -> list[Output]:
        """The records that have changed since the last call; one without value deletes its key."""
        found = [
            Output(STATE_TOPIC, key.encode(), value, self.number)
            for key, value in self._changed.items()
        ]
        self._changed.clear()
        return found

    def recall(self, record: Input) -> None:
        """One record of the topic, in its order: of a key the last one counts.

        Raises Refused for one that cannot be read: without it what was told would be told again.
        """
        try:
            kind, *parts = (record.key or b"").decode().split(SEPARATOR)
            self._recall(kind, parts, record.value)
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            raise Refused(
                f"topic {record.topic} partition {record.partition} offset {record.offset}:"
                f" {error}; only an evaluator of this version may write there"
            ) from error

    def _recall(self, kind: str, parts: list[str], value: bytes | None) -> None:
        match kind, parts:
            case "e", [alert_id]:
                self._recall_alert(alert_id, value)
            case "h", [*of, number]:
                self.chains.recall_pack(Chain(*of), int(number), value)
            case "f", [*of, start]:
                self.chains.recall_state(Chain(*of), int(start), _read(value, FoldState))
            case "r", [*of, window]:
                self.chains.recall_forced(Chain(*of), int(window), _read(value, ForcedEnd))
            case "g", [family, day]:
                self._recall_day((family, date.fromisoformat(day)), value)
            case "s", [family, store_id] if value is not None:
                begun = msgspec.json.decode(value, type=SilentFrom)
                self.silent_from[family, store_id] = begun.start
            case "c", [] if value is not None:
                self.last = Tick.read(value)
                self.learn(self.last)
            case _:
                raise ValueError("no such kind")

    def _recall_alert(self, alert_id: str, value: bytes | None) -> None:
        if value is not None:
            self.chains.recall_alert(msgspec.json.decode(value, type=ToldAlert))
        else:
            self.chains.drop_alert(alert_id)

    def _recall_day(self, of: FamilyDay, value: bytes | None) -> None:
        if value is None:
            self.judged.pop(of, None)
        else:
            self.judged[of] = msgspec.json.decode(value, type=JudgedDay)


def recalled(state: Iterable[Input]) -> dict[int, PartitionMemory]:
    """The memories that the records of the topic make, by partition, which count from 0."""
    found: dict[int, PartitionMemory] = {}
    for record in state:
        if record.partition not in found:
            found[record.partition] = PartitionMemory(record.partition)
        found[record.partition].recall(record)
    return found


def _with_those_of(
    before: Mapping[str, _Said], names: Collection[str], now: Mapping[str, _Said]
) -> dict[str, _Said]:
    kept = {name: one for name, one in before.items() if name in names}
    others = {name: one for name, one in now.items() if name not in names}
    return {**others, **kept}


_Value = TypeVar("_Value")


def _read(value: bytes | None, of: type[_Value]) -> _Value | None:
    return None if value is None else msgspec.json.decode(value, type=of)


def _millis(day: date) -> int:
    return int(datetime.combine(day, time(), UTC).timestamp()) * 1000
