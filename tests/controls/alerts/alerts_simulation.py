"""Wrong on purpose: what was told, or worked out of it, with one mistake that somebody could make.

They are worlds of tests/laws/alerting/worlds/simulated_world.py; nothing of them runs outside of
it.
"""

from collections.abc import Iterable
from functools import partial

from msgspec import structs
from typing_extensions import override

from alerting.alert.published import PublishedAlert
from alerting.episodes.affected_days import ChainDays, FoldedDays, FoldTimeline, refold
from alerting.rules.rule import Rule
from tests.controls.alerts import alerts_evaluator as wrong
from tests.laws.alerting.worlds.alert_evaluation import Memory, instant
from tests.laws.alerting.worlds.alert_shop import DAY, WINDOWS
from tests.laws.alerting.worlds.simulated_world import SimulatedWorld


class LosesOneThatWasTold(SimulatedWorld):
    """An alert that everybody was told is not among what is compared."""

    @override
    def told_of(self, told: Iterable[PublishedAlert]) -> Iterable[PublishedAlert]:
        return [*told][1:]


class HasOneThatWasTakenBack(SimulatedWorld):
    """A retraction has not reached who compares."""

    @override
    def told_of(self, told: Iterable[PublishedAlert]) -> Iterable[PublishedAlert]:
        return [structs.replace(one, state="confirmed") for one in told]


class HasNoEnds(SimulatedWorld):
    """Ends of episodes are not among what is compared."""

    @override
    def told_of(self, told: Iterable[PublishedAlert]) -> Iterable[PublishedAlert]:
        return [one for one in told if one.edge == "raise"]


class ComparesWhatIsNotSettled(SimulatedWorld):
    """What speed rows have raised is taken for what a generation calls for."""

    @override
    def covered(self, folded: FoldedDays, memory: Memory) -> frozenset[int]:
        return frozenset(map(instant, range(WINDOWS)))


class ComparesWhatWasNotEvaluated(SimulatedWorld):
    """Days count of which the evaluator has evaluated another generation than that which serves."""

    @override
    def covered(self, folded: FoldedDays, memory: Memory) -> frozenset[int]:
        return folded.covered


class FoldsEachDayFromRest(SimulatedWorld):
    """Where the day before has left off is not known to the next one."""

    @override
    def folded(self, rule: Rule, store: int, memory: Memory, day: int) -> FoldedDays:
        whole, begin = super().folded(rule, store, memory, day), instant(DAY)
        if whole.until <= begin:
            return whole
        line = ChainDays([begin, whole.until], FoldTimeline(), [begin], 0)
        evaluate_day = partial(self.verdicts_on, rule, store, memory)
        [found] = refold(line, lambda _: (), evaluate_day).spans
        episodes = [one for one in whole.episodes if one.start < begin]
        return structs.replace(whole, episodes=(*episodes, *found.episodes))


class SimulatedMarksTheLatest(SimulatedWorld, wrong.MarksTheLatest):
    """An evaluator that counts a generation as evaluated whose rows it has not read."""


class SimulatedRemembersWhatWasAborted(SimulatedWorld, wrong.RemembersWhatWasAborted):
    """An evaluator that keeps its memory over an abort."""
