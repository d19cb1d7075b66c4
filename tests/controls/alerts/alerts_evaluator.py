"""Wrong on purpose: evaluators of alerts, each with one mistake that somebody could make.

They are worlds of tests/laws/alerting/worlds/alert_world.py; nothing of them runs outside of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from msgspec import structs
from typing_extensions import override

from alerting.alert.ids import Chain, alert_id
from alerting.alert.published import PublishedAlert
from alerting.episodes.affected_days import FoldedDays
from alerting.episodes.alert_diff import Transition
from alerting.episodes.fold import WindowVerdict
from alerting.rules.rule import Rule
from tests.laws.alerting.worlds.alert_brokers import WorldTransaction
from tests.laws.alerting.worlds.alert_evaluation import BUSY, Memory, instant
from tests.laws.alerting.worlds.alert_evaluators import Process
from tests.laws.alerting.worlds.alert_shop import Hint, Published, TickOfTime
from tests.laws.alerting.worlds.alert_world import World


class RestoresTooEarly(World):
    """The state is read before the predecessor is fenced, and before the group is joined."""

    def __init__(self) -> None:
        super().__init__()
        self.early: dict[tuple[int, int], Memory | None] = {}

    @override
    def when_started(self, process: Process) -> None:
        for store in range(len(self.inputs)):
            self.early[process.number, store] = self.state_of(store, to_the_end=False)

    @override
    def restored(self, process: Process, store: int) -> Memory | None:
        memory = self.early[process.number, store]
        return None if memory is None else memory.copy()


class RestoresToTheStableOffset(World):
    """The state is read as far as it is stable, while the end of a commit is on its way to it."""

    @override
    def restored(self, _process: Process, store: int) -> Memory | None:
        return self.state_of(store, to_the_end=False)


class GoesOnAlthoughFenced(World):
    """Whoever is fenced makes a new producer, and sends again."""

    @override
    def when_fenced(self, process: Process) -> None:
        send_again(self, process)


class RepeatsFromMemory(World):
    """What may have been committed is sent again from memory."""

    @override
    def when_unknown(self, process: Process) -> None:
        send_again(self, process)


class RemembersWhatWasAborted(World):
    """Positions are taken back with an abort, memory is not."""

    @override
    def when_aborted(self, process: Process) -> None:
        if process.generation == self.group_generation:
            transaction = process.under_way
            memory = process.memory[transaction.store]
            process.memory[transaction.store] = replace(
                transaction.after.copy(), position=memory.position
            )
            process.phase = "running"


class ActsByATimer(World):
    """Time alone begins transactions: without positions the group does not fence a zombie."""

    @override
    def is_timers_own(self, pick: int) -> bool:
        return bool(pick & 64)


class ClosesByTheClock(World):
    """Windows close by the clock, while the pipeline is behind."""

    @override
    def known_until(self) -> list[int]:
        return [self.now]


class IgnoresEpochs(World):
    """Rows that an erasure has put out of force are taken for silence."""

    @override
    def is_old_epoch(self, _window: int, _pointers: Mapping[int, Published]) -> bool:
        return False


class ConfirmsWhatIsClosed(World):
    """A window that a tick has closed is enough to confirm."""

    @override
    def window_verdict(
        self,
        rule: Rule,
        store: int,
        window: int,
        memory: Memory,
        pointers: Mapping[int, Published],
    ) -> WindowVerdict:
        found = super().window_verdict(rule, store, window, memory, pointers)
        return structs.replace(found, is_covered=found.is_covered or memory.closed > window)


class WaitsForHints(World):
    """A generation is looked at only when a restatement names a window of it."""

    @override
    def newly_published(self, _memory: Memory, _pointers: Mapping[int, Published]) -> set[int]:
        return set()


class MarksTheLatest(World):
    """As evaluated is marked the generation at the commit, and not the one that was read."""

    @override
    def committed(self, transaction: WorldTransaction) -> None:
        super().committed(transaction)
        transaction.after.evaluated = {day: one.token for day, one in self.pointers.items()}


class KeepsTheLastOfASubject(World):
    """The state has one key for each subject and edge: the last alert alone."""

    @override
    def committed(self, transaction: WorldTransaction) -> None:
        super().committed(transaction)
        ascending = sorted(transaction.after.told.values(), key=lambda one: one.window)
        last = {(one.chain, one.edge): one for one in ascending}
        transaction.after.told = {one.alert_id: one for one in last.values()}


class TellsAgainUnderOneId(World):
    """An alert that was taken back and holds again keeps its id."""

    @override
    def tell(
        self, chain: Chain, days: FoldedDays, told: Sequence[PublishedAlert], at: int
    ) -> list[Transition]:
        first = {
            one.alert.alert_id: alert_id(chain, one.alert.version, one.alert.window, one.alert.edge)
            for one in super().tell(chain, days, told, at)
        }
        return [
            structs.replace(one, alert=_renamed(one.alert, first))
            for one in super().tell(chain, days, told, at)
        ]


class ForgetsWhatHasEnded(World):
    """The state of an episode is deleted once its end is confirmed."""

    @override
    def committed(self, transaction: WorldTransaction) -> None:
        super().committed(transaction)
        told = transaction.after.told
        over = {one.of for one in told.values() if one.edge == "clear" and one.state == "confirmed"}
        transaction.after.told = {
            key: one for key, one in told.items() if key not in over and one.of not in over
        }


class ReadsRulesWhenever(World):
    """Rules are read when they are read, and not up to where the tick says."""

    @override
    def learn_rules(self, memory: Memory, _batch: Sequence[Hint | TickOfTime], pick: int) -> None:
        if pick % 3 == 2:
            memory.edit = self.edit


class BackdatesVersions(World):
    """A version takes effect in windows that have begun."""

    @override
    def effective_from(self, _pick: int) -> int:
        return max(0, self.now - 1)


class BeginsAnewWithAnEdit(World):
    """An edit ends what is open, silently, and the new version begins from nothing."""

    @override
    def window_verdicts(
        self,
        rule: Rule,
        store: int,
        memory: Memory,
        pointers: Mapping[int, Published],
        start: int,
    ) -> Sequence[WindowVerdict]:
        found = super().window_verdicts(rule, store, memory, pointers, start)
        if rule is not BUSY or memory.edit is None:
            return found
        edited = instant(memory.edit)
        return [
            part
            for one in found
            for part in ([structs.replace(one, verdict=-1), one] if one.window == edited else [one])
        ]


class LosesEveryHint(World):
    """No control but the opposite: not one hint arrives, and alerts come later and are right, as
    long as days that a generation restates are evaluated anew."""

    @override
    def deliver_hint(self, _store: int, _window: int) -> None:
        pass

    @override
    def is_restated(self, _memory: Memory, _day: int, _now: Published) -> bool:
        return False


class LosesNotices(World):
    """Notices of what a generation changed of a whole day are lost, and nobody looks for it."""

    @override
    def deliver_hint(self, _store: int, _window: int) -> None:
        pass


class HasAnIdOfEachRun(World):
    """No control either: the group alone fences, so a restart waits longer and is right."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = 0

    @override
    def identity_of(self, _process: Process) -> str:
        self.runs += 1
        return f"run {self.runs}"


def send_again(world: World, process: Process) -> None:
    """A new producer sends what the old one sent, from memory."""
    process.epoch = world.init_transactions(process.identity)
    process.generation = world.group_generation
    old = process.under_way
    again = WorldTransaction(old.identity, old.store, old.sent, old.after, old.is_timers_own)
    world.begin(process, again)


def _renamed(one: PublishedAlert, names: Mapping[str, str]) -> PublishedAlert:
    of = None if one.of is None else names.get(one.of, one.of)
    return structs.replace(one, alert_id=names[one.alert_id], of=of, occurrence=1)
