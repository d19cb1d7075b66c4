"""A pipeline of one family in memory, as the ticker may meet it: at any moment in the middle of
anything. Raw topic, normaliser, canonical topic and speed layer, with transactions whose markers
come one by one, and what is true of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hypothesis import strategies as st

from alerting.watermark.pipeline import probe_pipeline
from alerting.watermark.ticker import build_tick
from alerting.watermark.watermark import (
    FamilyPositions,
    FamilyWatermarks,
    PipelineSnapshot,
    SpeedPosition,
    advance,
)
from runtime.kafka.offsets import TopicOffsets
from tally.alerts.tick import NO_TICK, SpeedEpoch, Tick, merge_ticks

FAMILY, PARTITIONS, RAW_PARTITIONS = "queues", 2, 2
MOST = 10**6
OFFSETS = -1  # beside the partitions that a transaction has to be ended in
Probe = Callable[[Any, Sequence[str], int], Mapping[str, PipelineSnapshot]]
Advance = Callable[[FamilyWatermarks, PipelineSnapshot], FamilyWatermarks]
Merged = Callable[[Tick, Tick], Tick]
Op = tuple[str, int, int]
Place = tuple[int, int]


@dataclass(eq=False)
class Transaction:
    """`fate`: None while it is open, then whether it was committed; where its end has to come."""

    fate: bool | None = None
    positions: dict[int, int] = field(default_factory=dict)
    touched: set[int] = field(default_factory=set)
    waiting: list[int] = field(default_factory=list)


class Entry(NamedTuple):
    """A record; without `content` the marker of its transaction. `content`: a raw record's target,
    a canonical one's place in the raw topic."""

    stamp: int
    of: Transaction | None
    content: Any = None


class Log(list[Entry]):
    """One partition."""

    def stable(self) -> int:
        """The first offset that cannot be read yet."""
        ended = {id(one.of) for one in self if one.content is None}
        is_open = (
            at for at, one in enumerate(self) if one.of is not None and id(one.of) not in ended
        )
        return next(is_open, len(self))

    def committed(self, first: int = 0) -> Iterator[tuple[int, Entry]]:
        """What is to be read from an offset on."""
        for at, one in list(enumerate(self[: self.stable()]))[first:]:
            if one.content is not None and (one.of is None or one.of.fate):
                yield at, one


@dataclass
class World:
    """The pipeline, which goes on by a burst of operations before each of its answers."""

    bursts: Iterator[Sequence[Op]] = field(default_factory=lambda: iter(()))
    now: int = 1
    raw: list[Log] = field(default_factory=lambda: [Log() for _ in range(RAW_PARTITIONS)])
    canonical: list[Log] = field(default_factory=lambda: [Log() for _ in range(PARTITIONS)])
    passed: list[int] = field(default_factory=lambda: [0] * RAW_PARTITIONS)
    replayed: Transaction | None = None
    work: Transaction | None = None
    epoch: int = 1
    # Of the epoch of now: where it began, how far its rows go, and what Cassandra says of that.
    begun: dict[int, list[int]] = field(default_factory=lambda: {1: [0] * PARTITIONS})
    read: dict[int, list[int]] = field(default_factory=lambda: {1: [0] * PARTITIONS})
    told: dict[int, dict[int, int]] = field(
        default_factory=lambda: {1: dict.fromkeys(range(PARTITIONS), 0)}
    )
    earliest: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    is_mute: bool = False

    # What may happen.

    def do(self, op: Op) -> None:
        """One operation; one that cannot be done now changes nothing."""
        name, one, other = op
        getattr(self, f"op_{name}")(one, other)

    def op_time(self, one: int, _: int) -> None:
        self.now += 1 + one

    def op_arrive(self, one: int, other: int) -> None:
        self.raw[one % RAW_PARTITIONS].append(Entry(self.now, None, other % PARTITIONS + 1))

    def op_replay(self, one: int, other: int) -> None:
        self.replayed = self.replayed or Transaction()
        self.replayed.touched.add(one % RAW_PARTITIONS)
        self.raw[one % RAW_PARTITIONS].append(
            Entry(self.now, self.replayed, other % PARTITIONS + 1)
        )

    def op_end_replay(self, one: int, _: int) -> None:
        if self.replayed is not None:
            self.replayed.fate = bool(one % 2)
            for number in self.replayed.touched:
                self.raw[number].append(Entry(self.now, self.replayed))
            self.replayed = None

    def op_take(self, one: int, other: int) -> None:
        number = one % RAW_PARTITIONS
        if self.work is not None and self.work.fate is not None:
            return
        self.work = work = self.work or Transaction()
        first = work.positions.get(number, self.passed[number])
        for at, entry in list(self.raw[number].committed(first))[: 1 + other]:
            work.positions[number] = at + 1
            work.touched.add(entry.content - 1)
            self.canonical[entry.content - 1].append(Entry(self.now, work, (number, at)))

    def op_end(self, one: int, _: int) -> None:
        if self.work is not None and self.work.fate is None:
            self.work.fate = one % 4 != 0
            self.work.waiting = [*self.work.touched, OFFSETS]

    def op_mark(self, one: int, _: int) -> None:
        if self.work is None or not self.work.waiting:
            return
        number = self.work.waiting.pop(one % len(self.work.waiting))
        if number != OFFSETS:
            self.canonical[number].append(Entry(self.now, self.work))
        elif self.work.fate:
            for at, offset in self.work.positions.items():
                self.passed[at] = offset
        if not self.work.waiting:
            self.work = None

    def op_speed(self, one: int, other: int) -> None:
        number, read = one % PARTITIONS, self.read[self.epoch]
        read[number] = max(
            read[number], min(self.canonical[number].stable(), read[number] + 1 + other)
        )

    def op_tell(self, one: int, _: int) -> None:
        number = one % PARTITIONS
        if number in self.told[self.epoch] or self._has_read(number):
            self.told[self.epoch][number] = self.read[self.epoch][number]

    def op_flow(self, one: int, _: int) -> None:
        """A transaction from its begin to its end; most are like that."""
        for op in (*_ENDING, *(("take", number, MOST) for number in range(RAW_PARTITIONS))):
            self.do(op)
        for op in _ENDING if one else ():
            self.do(op)

    def op_follow(self, _: int, __: int) -> None:
        """The speed layer comes to the end, and says so."""
        for number in range(PARTITIONS):
            self.do(("speed", number, MOST))
            self.do(("tell", number, 0))

    def op_retain(self, one: int, _: int) -> None:
        self.earliest[one % PARTITIONS] = self.read[self.epoch][one % PARTITIONS]

    def op_deploy(self, one: int, _: int) -> None:
        before = self.read[self.epoch]
        self.epoch += 1
        begun = [*before] if one % 2 else [*self.earliest]
        self.begun[self.epoch], self.read[self.epoch] = begun, [*begun]
        # Of a query that goes on only its next record tells by which definition that is.
        self.told[self.epoch] = {} if one % 2 else dict(enumerate(begun))

    def op_mute(self, _: int, __: int) -> None:
        self.is_mute = True

    # What is told of it: tests/laws reads it as the ticker does.

    def raw_ends(self) -> TopicOffsets:
        return self._told(lambda: {at: len(log) for at, log in enumerate(self.raw)})

    def positions(self) -> TopicOffsets:
        return self._told(self._positions)

    def canonical_ends(self) -> TopicOffsets:
        return self._told(lambda: {at: len(log) for at, log in enumerate(self.canonical)})

    def speed_positions(self) -> FamilyPositions:
        reached: FamilyPositions = self._told(self._reached)
        return reached

    def stable_ends(self) -> TopicOffsets:
        return self._told(lambda: {at: log.stable() for at, log in enumerate(self.canonical)})

    # What is true.

    def wrong(self, ticks: Mapping[int, Tick]) -> list[tuple[int, int]]:
        """Partition and stamp of each record that a tick says is read, and that is not."""
        return [
            (number, entry.stamp)
            for number, tick in ticks.items()
            for place, entry in self._arrived(number)
            if entry.stamp < tick.through.get(FAMILY, 0)
            and not self._is_read(number, place, tick.epoch[FAMILY].epoch)
        ]

    def catch_up(self) -> None:
        """Everything goes through, and nothing new comes."""
        for name in ("end_replay", "flow", "follow"):
            self.do((name, 1, 0))

    def _told(self, answer: Callable[[], Any]) -> dict[str, Any]:
        for op in next(self.bursts, ()):
            self.do(op)
        is_mute, self.is_mute = self.is_mute, False
        return {} if is_mute else {FAMILY: answer()}

    def _positions(self) -> dict[int, int]:
        moving = self.work is not None and self.work.fate and OFFSETS in self.work.waiting
        unstable = self.work.positions if moving and self.work is not None else {}
        return {
            number: next((at for at, _ in log.committed(self.passed[number])), log.stable())
            for number, log in enumerate(self.raw)
            if number not in unstable
        }

    def _reached(self) -> dict[int, SpeedPosition]:
        by_epoch = sorted(self.told.items())
        return {
            number: SpeedPosition(until, SpeedEpoch(epoch))
            for epoch, of in by_epoch
            for number, until in of.items()
        }

    def _arrived(self, number: int) -> Iterator[tuple[Place, Entry]]:
        for raw, log in enumerate(self.raw):
            for at, entry in enumerate(log):
                is_gone = entry.of is not None and entry.of.fate is False
                if entry.content == number + 1 and not is_gone:
                    yield (raw, at), entry

    def _is_read(self, number: int, place: Place, epoch: int) -> bool:
        # What lies below the query's begin is below its floor, and left to the rebuild.
        until = self.read[epoch][number]
        return any(
            at < until for at, one in self.canonical[number].committed() if one.content == place
        )

    def _has_read(self, number: int) -> bool:
        begun, read = self.begun[self.epoch][number], self.read[self.epoch][number]
        return any(at < read for at, _ in self.canonical[number].committed(begun))


@dataclass
class Teller:
    """A ticker of the world; what is wrong on purpose is put in at its functions."""

    world: World
    probe: Probe = probe_pipeline
    advance_watermarks: Advance = advance
    merged: Merged = merge_ticks
    watermarks: FamilyWatermarks = field(default_factory=FamilyWatermarks)
    at: int = 1
    known: dict[int, Tick] = field(default_factory=dict)

    def tick(self) -> dict[int, Tick]:
        """One turn; the ticks by partition."""
        snapshot = self.probe(self.world, [FAMILY], self.at)[FAMILY]
        self.watermarks = self.advance_watermarks(self.watermarks, snapshot)
        said = {at: build_tick(at, {FAMILY: self.watermarks}) for at in range(PARTITIONS)}
        self.known = {at: self.merged(self.known.get(at, NO_TICK), one) for at, one in said.items()}
        self.at = self.world.now
        return self.known


_ENDING: tuple[Op, ...] = (("end", 1, 0), *[("mark", 0, 0)] * (PARTITIONS + 1))
_WEIGHTS = {
    **{"time": 6, "arrive": 6, "flow": 5, "follow": 6, "take": 3, "end": 3, "mark": 3},
    **{"speed": 3, "tell": 3, "replay": 1, "end_replay": 2, "retain": 1, "deploy": 1, "mute": 1},
}
_NAMES = [name for name, weight in _WEIGHTS.items() for _ in range(weight)]
ops = st.tuples(st.sampled_from(_NAMES), st.integers(0, 3), st.integers(0, 2))
# Long ones: what is wrong shows where something is under way, after the first has come through.
histories = st.lists(st.lists(ops, max_size=4), min_size=20, max_size=40)
