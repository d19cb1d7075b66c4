"""What an evaluator knows of one partition, and the records in which the brokers keep it.

A record for each thing, by its key in the topic `alert-episodes`, and never one for all of them:

    e|alert_id                      an alert as it was told last
    d|rule|store|subject|start      where the fold stands at the start of a local day; none: at rest
    g|family|day                    the generation of a UTC day by which all stores were judged
    s|family|store                  from when on a store without records is silent
    c                               the tick that was judged last

What is changed here has to be stored, or to be forgotten: drained() gives it out once.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, date, datetime, time
from typing import TypeVar

import msgspec
from msgspec import Struct, structs

from runtime.processor.record import Input, Output
from tally.alerts.fold import AT_REST, FoldState
from tally.alerts.ids import Chain
from tally.alerts.tick import NO_TICK, SpeedEpoch, Tick, merged
from tally.alerts.told import ToldAlert
from tally.errors import Refused

STATE_TOPIC = "alert-episodes"
_SEPARATOR = "|"
_TICK = "c"


class JudgedDay(Struct, frozen=True):
    """By what all stores were judged on a UTC day: the generation and its epoch, 0: none.

    `speed`: of a day of which that leaves windows to the speed layer by which definition; None
    before a tick has told.
    """

    generation: int = 0
    epoch: int = 0
    speed: SpeedEpoch | None = None


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
    `hints`: windows to look at. The other three by what they are of, as the records above.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        # Kept apart: what lies between the two is what has to be looked at.
        self.tick, self.last = NO_TICK, NO_TICK
        self.hints: set[Hint] = set()
        self.judged: dict[FamilyDay, JudgedDay] = {}
        self.silent_from: dict[FamilyStore, int] = {}
        self._told: dict[Chain, dict[str, ToldAlert]] = {}
        self._states: dict[Chain, dict[int, FoldState]] = {}
        # A record that deletes an alert has its id alone.
        self._chains: dict[str, Chain] = {}
        # By rule and store.
        self._subjects: dict[tuple[str, str], set[str]] = {}
        self._changed: dict[str, bytes | None] = {}

    def told(self, chain: Chain) -> Mapping[str, ToldAlert]:
        """Every alert of the chain by its id."""
        return self._told.get(chain, {})

    def states(self, chain: Chain) -> Mapping[int, FoldState]:
        """The fold's state at the starts of days (ms since 1970, UTC), where it is not at rest."""
        return self._states.get(chain, {})

    def subjects(self, rule_id: str, store_id: str) -> Collection[str]:
        """Of which the rule has told something in the store, or may yet."""
        return self._subjects.get((rule_id, store_id), ())

    def learn(self, tick: Tick) -> None:
        """One more tick: of each field the largest holds."""
        self.tick = merged(self.tick, tick)

    def tell(self, alert: ToldAlert) -> None:
        """The alert stands like this from now on."""
        self._keep_alert(alert)
        self._changed[f"e|{alert.alert_id}"] = msgspec.json.encode(alert)

    def begin_day(self, chain: Chain, start: int, state: FoldState) -> None:
        """The fold of the chain stands there at the start of a day (ms since 1970, UTC)."""
        parts = "d", chain.rule_id, chain.store_id, chain.subject, str(start)
        key = _SEPARATOR.join(parts)
        self._keep_state(chain, start, state)
        # Most days begin at rest, and of those there is no record.
        self._changed[key] = None if state == AT_REST else msgspec.json.encode(state)

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
        return bool(self.hints) or self.tick != self.last

    def close(self, unfinished: Collection[str] = ()) -> None:
        """All was judged that the ticks speak of, but for some generations of these families."""
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
        for alerts in self._told.values():
            for one in [one for one in alerts.values() if one.window < horizon]:
                del alerts[one.alert_id], self._chains[one.alert_id]
                self._changed[f"e|{one.alert_id}"] = None
        for chain, states in self._states.items():
            for start in [start for start in states if start < horizon]:
                self.begin_day(chain, start, AT_REST)
        # Else each article that ever ran out would be judged for ever.
        self._subjects = {}
        for chain in [*self._told, *self._states]:
            if self._told.get(chain) or self._states.get(chain):
                self._note(chain)
        for family, day in [*self.judged]:
            if _millis(day) < horizon:
                del self.judged[family, day]
                self._changed[f"g|{family}|{day}"] = None

    def drained(self) -> list[Output]:
        """The records that have changed since the last call; one without value deletes its key."""
        changed, self._changed = self._changed.items(), {}
        return [Output(STATE_TOPIC, key.encode(), value, self.number) for key, value in changed]

    def recall(self, record: Input) -> None:
        """One record of the topic, in its order: of a key the last one counts.

        Raises Refused for one that cannot be read: without it what was told would be told again.
        """
        try:
            kind, *parts = (record.key or b"").decode().split(_SEPARATOR)
            self._recall(kind, parts, record.value)
        except (msgspec.MsgspecError, ValueError) as error:
            raise Refused(
                f"topic {record.topic} partition {record.partition} offset {record.offset}:"
                f" {error}; only an evaluator of this version or an earlier one may write there"
            ) from error

    def _recall(self, kind: str, parts: list[str], value: bytes | None) -> None:
        match kind, parts:
            case "e", [alert_id]:
                self._recall_alert(alert_id, value)
            case "d", [rule_id, store_id, subject, start]:
                state = AT_REST if value is None else msgspec.json.decode(value, type=FoldState)
                self._keep_state(Chain(rule_id, store_id, subject), int(start), state)
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
            self._keep_alert(msgspec.json.decode(value, type=ToldAlert))
        elif alert_id in self._chains:
            del self._told[self._chains.pop(alert_id)][alert_id]

    def _recall_day(self, of: FamilyDay, value: bytes | None) -> None:
        if value is None:
            self.judged.pop(of, None)
        else:
            self.judged[of] = msgspec.json.decode(value, type=JudgedDay)

    def _keep_alert(self, alert: ToldAlert) -> None:
        self._note(alert.chain)
        self._told.setdefault(alert.chain, {})[alert.alert_id] = alert
        self._chains[alert.alert_id] = alert.chain

    def _keep_state(self, chain: Chain, start: int, state: FoldState) -> None:
        kept = self._states.setdefault(chain, {})
        if state == AT_REST:
            kept.pop(start, None)
        else:
            self._note(chain)
            kept[start] = state

    def _note(self, chain: Chain) -> None:
        of = chain.rule_id, chain.store_id
        self._subjects.setdefault(of, set()).add(chain.subject)


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


def _millis(day: date) -> int:
    return int(datetime.combine(day, time(), UTC).timestamp()) * 1000
