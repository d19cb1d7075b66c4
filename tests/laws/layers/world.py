"""A small world of one partition: its log, speed writers with frontier, floor and checkpoints, a
register, and generations.

The rules are those of docs/guarantees.md, played action by action; of the pipeline it shares the
register's timestamp and the merge. After every action each window is looked at as a reader would,
by `look()`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tally.algebra.merge import WindowState, register
from tests.laws.layers.history import merge_window

WIDTH, LATENESS, LAST = (
    2,
    2,
    9,
)  # of windows, of late records, and the last instant at which anything happens
EPOCH = 1
NEVER = -1_000


class Broken(Exception):
    """Raised when a reader is told what no honest reader may be told."""


@dataclass(frozen=True)
class Rules:
    """How the world works; each field set otherwise is a mistake that somebody could make."""

    floor: bool = True
    register: str = "events"
    token: bool = True
    checkpointed_frontier: bool = True
    late_is: str = "window"


@dataclass(frozen=True)
class Record:
    """One committed record; the same identity always says the same, and may come again."""

    identity: int
    at: int
    amount: int

    @property
    def window(self) -> int:
        """Start of its window."""
        return self.at - self.at % WIDTH


@dataclass(frozen=True)
class Writer:
    """A speed layer between two micro-batches: what its checkpoint holds.

    The frontier is the latest instant that it has read.
    """

    position: int
    floor: int = NEVER
    frontier: int = NEVER
    kept: frozenset[Record] = frozenset()


@dataclass
class Generation:
    """A rebuild: its token, and how much of the log it was computed from."""

    token: int
    pinned: int


def rows_of(records: Iterable[Record]) -> dict[int, WindowState]:
    """The row of each window: distinct identities, and their amounts."""
    found: dict[int, set[Record]] = {}
    for record in records:
        found.setdefault(record.window, set()).add(record)
    return {
        start: WindowState(
            EPOCH, len(held), {("USD",): {"amount": sum(one.amount for one in held)}}
        )
        for start, held in found.items()
    }


@dataclass
class World:
    """Everything that lasts, and what readers were told last."""

    rules: Rules
    log: list[Record] = field(default_factory=list)
    writers: list[Writer] = field(default_factory=lambda: [Writer(0)])
    snapshots: list[Writer] = field(default_factory=lambda: [Writer(0)])
    held: dict[int, tuple[int, WindowState]] = field(default_factory=dict)
    delayed: list[tuple[int, int, WindowState]] = field(default_factory=list)
    rebuilds: list[Generation] = field(default_factory=list)
    published: Generation = field(default_factory=lambda: Generation(0, 0))
    tokens: int = 0
    clock: int = 0
    told: dict[int, tuple[int, int]] = field(default_factory=dict)

    # Actions: every argument is a small number, taken modulo what there is.

    def append(self, identity: int, at: int) -> None:
        """A record is committed; an identity that was there before says what it said."""
        known = next((record for record in self.log if record.identity == identity), None)
        self.log.append(known or Record(identity, at % (LAST + 1), 1 + identity % 3))

    def step(self, which: int, how: int) -> None:
        """A micro-batch of one writer: it commits, or dies before, after or amid its writes, of
        which some arrive much later."""
        number = which % len(self.writers)
        writer = self.writers[number]
        end = min(len(self.log), writer.position + 1 + how // 4)
        after, rows = self._micro_batch(writer, end)
        ending = how % 4
        done = len(rows) if ending in (0, 3) else len(rows) // 2 if ending == 2 else 0
        for timestamp, start, row in rows[:done]:
            self._put(timestamp, start, row)
        self.delayed += rows[done:]
        if ending == 0:
            self.writers[number] = after
            self.snapshots.append(after)

    def restore(self, which: int, _how: int) -> None:
        """An older checkpoint goes on as one more writer; those that run do not know of it."""
        snapshot = self.snapshots[which % len(self.snapshots)]
        self.writers.append(
            snapshot
            if self.rules.checkpointed_frontier
            else replace(snapshot, frontier=NEVER, kept=frozenset())
        )

    def begin_anew(self, which: int, _how: int) -> None:
        """A writer without any checkpoint begins somewhere; windows that it cannot know whole it
        leaves alone."""
        position = which % (len(self.log) + 1)
        before = self.log[:position]
        floor = (
            max((record.window + WIDTH for record in before), default=NEVER)
            if self.rules.floor
            else NEVER
        )
        self.writers.append(Writer(position, floor))

    def deliver(self, which: int, _how: int) -> None:
        """A write of a dead or paused writer arrives after all."""
        if self.delayed:
            self._put(*self.delayed[which % len(self.delayed)])

    def rebuild(self, which: int, _how: int) -> None:
        """A rebuild takes its token and pins what the master dataset holds; it may be slow."""
        self.tokens += 1
        self.rebuilds.append(
            Generation(self.tokens, max(self._pinned(), len(self.log) - which % 3))
        )

    def flip(self, which: int, _how: int) -> None:
        """A rebuild is done, and published unless a later one was faster."""
        if self.rebuilds:
            done = self.rebuilds.pop(which % len(self.rebuilds))
            if done.token > self.published.token or not self.rules.token:
                self.published = done

    # What follows from them.

    def _pinned(self) -> int:
        """The master dataset only grows: no pin is below an earlier one."""
        return max([self.published.pinned, *(one.pinned for one in self.rebuilds)])

    def _micro_batch(
        self, writer: Writer, end: int
    ) -> tuple[Writer, list[tuple[int, int, WindowState]]]:
        read = self.log[writer.position : end]
        frontiers = [
            max([writer.frontier, *(record.at for record in read[:place])])
            for place in range(len(read) + 1)
        ]
        seen = zip(read, frontiers, strict=False)
        taken = {
            record
            for record, frontier in seen
            if self._ends(record) > frontier - LATENESS and record.window >= writer.floor
        }
        kept = writer.kept | taken
        touched = {record.window for record in taken}
        counted = rows_of(read if self.rules.register == "add" else kept)
        rows = [
            (self._timestamp(row), start, row)
            for start, row in sorted(counted.items())
            if start in touched
        ]
        open_ones = frozenset(
            record for record in kept if record.window + WIDTH > frontiers[-1] - LATENESS
        )
        return replace(writer, position=end, frontier=frontiers[-1], kept=open_ones), rows

    def _ends(self, record: Record) -> int:
        return record.window + WIDTH if self.rules.late_is == "window" else record.at + 1

    def _timestamp(self, row: WindowState) -> int:
        self.clock += 1
        return (
            self.clock if self.rules.register == "wall_clock" else register(row.epoch, row.events)
        )

    def _put(self, timestamp: int, start: int, row: WindowState) -> None:
        before = self.held.get(start)
        if before is not None and self.rules.register == "add":
            self.held[start] = (timestamp, _added(before[1], row))
        elif before is None or timestamp > before[0]:
            self.held[start] = (timestamp, row)

    def served(self, start: int) -> tuple[int, int]:
        """(events, amount) of a window as a reader is told them now."""
        batch = rows_of(self.log[: self.published.pinned]).get(start)
        speed = self.held[start][1] if start in self.held else None
        merged = merge_window(speed, batch, covered=False)
        return merged.events or 0, sum(parts["amount"] for parts in (merged.values or {}).values())

    def look(self) -> None:
        """Raises Broken unless every window is served as a prefix of its records, and as no
        shorter one than before."""
        for start in range(0, LAST + 1, WIDTH):
            now = self.served(start)
            if now not in self._prefixes(start):
                raise Broken(f"window {start}: {now} is no prefix of its records")
            if now < self.told.get(start, (0, 0)):
                raise Broken(f"window {start}: {now} after {self.told[start]}")
            self.told[start] = now

    def _prefixes(self, start: int) -> set[tuple[int, int]]:
        inside = list(dict.fromkeys(record for record in self.log if record.window == start))
        return {
            (count, sum(record.amount for record in inside[:count]))
            for count in range(len(inside) + 1)
        }

    def finish(self) -> None:
        """A last rebuild of everything: then every window is whole."""
        self.published = Generation(self.tokens + 1, len(self.log))
        whole = {
            start: (row.events, row.values["USD",]["amount"])
            for start, row in rows_of(self.log).items()
        }
        for start in range(0, LAST + 1, WIDTH):
            if self.served(start) != whole.get(start, (0, 0)):
                raise Broken(
                    f"window {start}: {self.served(start)} at the end, {whole.get(start)} was sent"
                )


def _added(one: WindowState, other: WindowState) -> WindowState:
    amount = one.values["USD",]["amount"] + other.values["USD",]["amount"]
    return WindowState(EPOCH, one.events + other.events, {("USD",): {"amount": amount}})


Action = tuple[str, int, int]
ACTIONS = ("append", "step", "restore", "begin_anew", "deliver", "rebuild", "flip")


def play(rules: Rules, history: Sequence[Action]) -> World:
    """The world after a history. Raises Broken at the first dishonest answer."""
    world = World(rules)
    for name, one, other in history:
        getattr(world, name)(one, other)
        world.look()
    world.finish()
    return world
