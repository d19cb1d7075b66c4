"""The processes that evaluate alerts, a small step at a time, so that a crash, a zombie or a
rebalance can fall between any two."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tests.laws.alerting.worlds.alert_brokers import PLACES, Brokers, WorldTransaction
from tests.laws.alerting.worlds.alert_evaluation import Memory
from tests.laws.alerting.worlds.alert_shop import (
    DAY,
    DAYS,
    STORES,
    WINDOWS,
    Hint,
    Published,
    TickOfTime,
)

# The third has the identity of the first: one that was started again beside a zombie.
SLOTS = (0, 1, 0)
Phase = Literal["dead", "joining", "restoring", "running", "produced", "sending"]


@dataclass(eq=False)
class Process:
    """One evaluator, of which only the brokers' part outlives a crash."""

    number: int
    slot: int
    phase: Phase = "dead"
    identity: str = ""
    epoch: int = 0
    generation: int = -1
    stores: list[int] = field(default_factory=list)
    memory: dict[int, Memory] = field(default_factory=dict)
    transaction: WorldTransaction | None = None

    @property
    def under_way(self) -> WorldTransaction:
        assert self.transaction is not None
        return self.transaction


class Evaluators(Brokers):
    """Three processes for two partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.processes = [Process(place, slot) for place, slot in enumerate(SLOTS)]

    # Actions.

    def crash(self, pick: int) -> None:
        """A process is gone, wherever it was."""
        self.processes[pick % 3].phase = "dead"

    def work(self, pick: int) -> None:
        """A process gets as far as its next transaction, undisturbed."""
        process = self.processes[pick % 3]
        for _ in range(5):
            calm = {"dead": pick, "running": pick % 3 + 3 * (57 + 2 * (pick // 3 % 2))}
            self.step(calm.get(process.phase, pick % 3 + 3))
            if process.phase in ("running", "dead"):
                break

    def step(self, pick: int) -> None:
        """One small step of one process."""
        process, pick = self.processes[pick % 3], pick // 3
        in_group = process.phase in ("restoring", "running")
        # It hears of a rebalance in a poll only.
        if in_group and process.generation != self.group_generation and pick & 1:
            process.phase = "joining"
        if process.phase in ("produced", "sending") and self._is_fenced(process):
            self.fired["fenced"] += 1
            process.phase = "dead"
            self.when_fenced(process)
            return
        steps = {
            "dead": self._start,
            "joining": self._join,
            "restoring": self._restore,
            "running": self._run,
            "produced": self._send_positions,
            "sending": self._commit,
        }
        steps[process.phase](process, pick)

    def _is_fenced(self, process: Process) -> bool:
        return process.epoch != self.epochs[process.identity]

    def _start(self, process: Process, pick: int) -> None:
        # Most of the time a dead one stays dead.
        if not pick & 12:
            process.identity = self.identity_of(process)
            self.when_started(process)
            process.epoch = self.init_transactions(process.identity)
            process.phase = "joining"

    def _join(self, process: Process, _pick: int) -> None:
        if process.number not in self.members:
            self.rebalance([*self.members, process.number])
        process.generation = self.group_generation
        process.stores = [one for one in STORES if self.owners[one] == process.number]
        process.memory, process.phase = {}, "restoring"

    def _restore(self, process: Process, _pick: int) -> None:
        # Once it has joined nobody else's positions are taken any more.
        found: dict[int, Memory] = {}
        for store in process.stores:
            position, memory = self.position_of(store), self.restored(process, store)
            if position is None or memory is None:
                return
            memory.position = position
            found[store] = memory
        process.memory, process.phase = found, "running"

    def _run(self, process: Process, pick: int) -> None:
        if process.stores:
            self.evaluate(process, process.stores[pick // 2 % len(process.stores)], pick)
        elif process.number not in self.members:
            process.phase = "joining"

    def _send_positions(self, process: Process, pick: int) -> None:
        transaction = process.under_way
        is_refused = not transaction.is_timers_own and (
            process.generation != self.group_generation
            or self.owners.get(transaction.store) != process.number
        )
        if is_refused or pick % 8 == 7:
            self.fired["aborted"] += 1
            transaction.status, transaction.awaited = "aborted", {"state", "alerts"}
            process.phase = "joining"
            self.when_aborted(process)
        else:
            transaction.has_positions = not transaction.is_timers_own
            process.phase = "sending"

    def _commit(self, process: Process, pick: int) -> None:
        """Answered; applied and the answer lost; or neither."""
        transaction = process.under_way
        if pick % 4 != 3:
            transaction.status, transaction.awaited = "committed", {*PLACES}
            self.committed(transaction)
        process.memory[transaction.store] = transaction.after.copy()
        process.phase = "running"
        if pick % 4 >= 2:
            self.fired["outcome unknown"] += 1
            self.when_unknown(process)

    def evaluate(self, process: Process, store: int, pick: int) -> None:
        """Up to three inputs are evaluated, and a transaction begins with what follows."""
        memory, is_timers_own = process.memory[store].copy(), self.is_timers_own(pick)
        end = memory.position if is_timers_own else memory.position + 1 + pick // 4 % 3
        batch = self.inputs[store][memory.position : end]
        named = {*DAYS} if is_timers_own else days_named_by(batch, memory.closed)
        for one in batch:
            if isinstance(one, TickOfTime):
                memory.closed = max(memory.closed, one.at)
        memory.position += len(batch)
        self.learn_rules(memory, batch, pick)
        # Read once: the rows are of these generations, and these are marked as evaluated.
        pointers = dict(self.pointers)
        named |= self.newly_published(memory, pointers)
        sent = self.evaluate_store(store, memory, pointers, named) if named else []
        if named:
            memory.evaluated = {day: one.token for day, one in pointers.items()}
        if batch or is_timers_own:
            begun = WorldTransaction(process.identity, store, sent, memory, is_timers_own)
            self.begin(process, begun)

    def begin(self, process: Process, transaction: WorldTransaction) -> None:
        """The records of the transaction are sent."""
        process.transaction, process.phase = transaction, "produced"
        self.transactions.append(transaction)

    # What controls do otherwise.

    def identity_of(self, process: Process) -> str:
        """The transactional id, the same from run to run."""
        return f"slot {process.slot}"

    def when_started(self, process: Process) -> None:
        """Nothing of the state is read yet: whoever had the identity is not fenced."""

    def restored(self, _process: Process, store: int) -> Memory | None:
        """The state to go on from; None while it has to wait."""
        return self.state_of(store)

    def when_fenced(self, process: Process) -> None:
        """It ends."""

    def when_aborted(self, process: Process) -> None:
        """It joins again, and forgets."""

    def when_unknown(self, process: Process) -> None:
        """A new producer of the same id, then all is read again."""
        process.epoch = self.init_transactions(process.identity)
        process.phase = "restoring"

    def is_timers_own(self, _pick: int) -> bool:
        """Whether time alone begins a transaction, without a record and a position."""
        return False

    def learn_rules(self, memory: Memory, batch: Sequence[Hint | TickOfTime], _pick: int) -> None:
        """Rules are read as far as a tick says, before anything is evaluated by its time."""
        edits = [one.edit for one in batch if isinstance(one, TickOfTime)]
        memory.edit = next((one for one in reversed(edits) if one is not None), memory.edit)

    def newly_published(self, memory: Memory, pointers: Mapping[int, Published]) -> set[int]:
        """Days whose generation is not the one that was evaluated, but for those of which notices
        name the windows."""
        return {
            day
            for day, one in pointers.items()
            if memory.evaluated.get(day) != one.token and not self.is_restated(memory, day, one)
        }

    def is_restated(self, memory: Memory, day: int, now: Published) -> bool:
        """Whether the day was evaluated whole, and is so by rows of the same epoch."""
        before = self.published.get((day, memory.evaluated.get(day, 0)))
        end = (day + 1) * DAY
        return (
            before is not None
            and min(before.covered, now.covered) >= end
            and before.erased == now.erased
        )

    def committed(self, transaction: WorldTransaction) -> None:
        """The transaction counts: whoever reads committed records sees what it sent."""


def days_named_by(batch: Sequence[Hint | TickOfTime], closed: int) -> set[int]:
    """Days of hints, and of windows that a tick closes or begins."""
    named: set[int] = set()
    for one in batch:
        if isinstance(one, Hint):
            named.add(one.window // DAY)
        elif one.at > closed:
            named |= {window // DAY for window in range(closed, min(one.at, WINDOWS - 1) + 1)}
            closed = one.at
    return named
