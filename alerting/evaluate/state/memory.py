"""The evaluator's memory of one partition, and the records of it in the topic `alert-episodes`.

Each thing has a record of its own, by its key:

    e|alert_id                       an alert that may still change, as it was last published
    h|rule|store|subject|number      settled alerts, at most 64
    f|rule|store|subject|start       the state of the fold from the start of a local day on
    r|rule|store|subject|window      why an episode ends with the window regardless of its numbers
    g|family|day                     the generation of a UTC day by which all stores were evaluated
    s|family|store                   from when on a store without records is silent
    c                                the last tick that was evaluated

Changes must be stored or forgotten as a whole: drain() returns each of them once.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import date
from typing import TypeVar

import msgspec
from msgspec import Struct, structs

from alerting.alert.ids import Chain
from alerting.alert.published import PublishedAlert
from alerting.alert.resolution import AlertResolution
from alerting.episodes.fold import FoldState
from alerting.evaluate.state.chain_memory import SEPARATOR, ChainMemory, ForcedEnd
from runtime.processor.step import Input, Output
from tally.alerts.tick import NO_TICK, SpeedEpoch, Tick, merge_ticks
from tally.errors import UnrecoverableError
from tally.time.instants import to_millis
from tally.time.windows import day_start

STATE_TOPIC = "alert-episodes"


class EvaluatedDay(Struct, frozen=True):
    """The generation, and its epoch, by which all stores were evaluated on a UTC day; 0 means none.

    `speed`: the speed layer's definition on a day whose generation leaves windows to it; None
    before a tick names it. `is_whole`: the generation leaves no window. `is_settled`: the day is
    not whole and never will be, because a later day is; its alerts are settled by what is served.
    `covered_until`: of a day that is not whole, up to where the generation covers it, ms since 1970
    (UTC); a later flip may cover more of it by the same rows.
    """

    generation: int = 0
    epoch: int = 0
    speed: SpeedEpoch | None = None
    is_whole: bool = False
    is_settled: bool = False
    covered_until: int = 0


class SilentFrom(Struct, frozen=True):
    """The first window in which a store without records is silent, ms since 1970 (UTC)."""

    start: int


class Hint(Struct, frozen=True):
    """A window whose numbers may have changed; `window`: its start in ms since 1970 (UTC)."""

    family: str
    store_id: str
    window: int


FamilyDay = tuple[str, date]
FamilyStore = tuple[str, str]
_Value = TypeVar("_Value")


class PartitionMemory:
    """The whole state of one partition.

    `tick`: all ticks received so far, merged; `last_tick`: the tick of the last evaluation.
    `hints`: windows to evaluate; `resolutions`: alerts to end. `chains`: alerts and folds.
    `evaluated_days` and `silent_from`: the records `g` and `s` above, by their keys.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        # Both are kept: the difference between them is what has to be evaluated.
        self.tick, self.last_tick = NO_TICK, NO_TICK
        self.hints: set[Hint] = set()
        self.resolutions: list[AlertResolution] = []
        # Whether days with another generation were left for the next pass.
        self.is_unfinished = False
        self.evaluated_days: dict[FamilyDay, EvaluatedDay] = {}
        self.silent_from: dict[FamilyStore, int] = {}
        self.chains = ChainMemory()
        self._changed = self.chains.changes

    def merge_tick(self, tick: Tick) -> None:
        """Merge a tick; the largest value of each field holds."""
        self.tick = merge_ticks(self.tick, tick)

    def mark_evaluated(self, family_day: FamilyDay, evaluated_day: EvaluatedDay) -> None:
        """Note that all stores were evaluated by that generation of the day."""
        family, day = family_day
        self.evaluated_days[family_day] = evaluated_day
        self._changed[f"g|{family}|{day}"] = msgspec.json.encode(evaluated_day)

    def begin_store(self, family_store: FamilyStore, start: int) -> None:
        """Count the store as silent where it sends nothing, from `start` on (ms, UTC)."""
        family, store_id = family_store
        self.silent_from[family_store] = start
        self._changed[f"s|{family}|{store_id}"] = msgspec.json.encode(SilentFrom(start))

    @property
    def has_news(self) -> bool:
        """Whether anything has arrived since the last evaluation."""
        return bool(self.hints or self.resolutions) or self.tick != self.last_tick

    def close(self, unfinished: Collection[str] = ()) -> None:
        """Mark what the ticks report as evaluated, except some generations of these families."""
        self.is_unfinished = bool(unfinished)
        # Unfinished families keep their old values, so the next pass checks all their days again.
        flips = _merge_families(self.last_tick.flips, unfinished, self.tick.flips)
        epoch = _merge_families(self.last_tick.epoch, unfinished, self.tick.epoch)
        evaluated_tick = structs.replace(self.tick, flips=flips, epoch=epoch)
        # Storing a tick without news would write one more record every five seconds, for ever.
        if self.last_tick != evaluated_tick:
            self._changed["c"] = evaluated_tick.value
        self.last_tick = evaluated_tick

    def forget_before(self, horizon: int) -> None:
        """Drop what concerns only windows before the instant `horizon` (ms since 1970, UTC)."""
        self.chains.compact(horizon)
        for family, day in [*self.evaluated_days]:
            if to_millis(day_start(day)) < horizon:
                del self.evaluated_days[family, day]
                self._changed[f"g|{family}|{day}"] = None

    def drain(self) -> list[Output]:
        """The records changed since the last call; a record without a value deletes its key."""
        items, number = self._changed.items(), self.number
        found = [Output(STATE_TOPIC, key.encode(), value, number) for key, value in items]
        self._changed.clear()
        return found

    def load(self, record: Input) -> None:
        """Load one record of the topic, in order of offset: the last record of a key counts.

        Raises UnrecoverableError for an unreadable record: without it, alerts would be sent twice.
        """
        try:
            kind, *parts = (record.key or b"").decode().split(SEPARATOR)
            self._load(kind, parts, record.value)
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            raise UnrecoverableError(
                f"topic {record.topic} partition {record.partition} offset {record.offset}:"
                f" {error}; only an evaluator of this version may write there"
            ) from error

    def _load(self, kind: str, parts: list[str], value: bytes | None) -> None:
        match kind, parts:
            case "e", [alert_id] if value is None:
                self.chains.drop_alert(alert_id)
            case "e", [_] if value is not None:
                self.chains.load_alert(msgspec.json.decode(value, type=PublishedAlert))
            case "h", [*names, number]:
                self.chains.load_pack(Chain(*names), int(number), value)
            case "f", [*names, start]:
                self.chains.load_state(Chain(*names), int(start), _decode(value, FoldState))
            case "r", [*names, window]:
                self.chains.load_forced_end(Chain(*names), int(window), _decode(value, ForcedEnd))
            case "g", [family, day] if value is None:
                self.evaluated_days.pop((family, date.fromisoformat(day)), None)
            case "g", [family, day] if value is not None:
                found = msgspec.json.decode(value, type=EvaluatedDay)
                self.evaluated_days[family, date.fromisoformat(day)] = found
            case "s", [family, store_id] if value is not None:
                begun = msgspec.json.decode(value, type=SilentFrom)
                self.silent_from[family, store_id] = begun.start
            case "c", [] if value is not None:
                self.last_tick = Tick.decode(value)
                self.merge_tick(self.last_tick)
            case _:
                raise ValueError("no such kind")


def restore_memories(state: Iterable[Input]) -> dict[int, PartitionMemory]:
    """The memories restored from the records of the topic, by partition; these count from 0."""
    found: dict[int, PartitionMemory] = {}
    for record in state:
        if record.partition not in found:
            found[record.partition] = PartitionMemory(record.partition)
        found[record.partition].load(record)
    return found


def _merge_families(
    before: Mapping[str, _Value], names: Collection[str], now: Mapping[str, _Value]
) -> dict[str, _Value]:
    unchanged = {name: value for name, value in before.items() if name in names}
    return {name: value for name, value in now.items() if name not in names} | unchanged


def _decode(value: bytes | None, kind: type[_Value]) -> _Value | None:
    return None if value is None else msgspec.json.decode(value, type=kind)
