"""The world of alerts, and one who works out by what is served what should have been told."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import combinations

from msgspec import structs

from alerting.alert.published import PublishedAlert
from alerting.episodes.affected_days import ChainDays, FoldedDays, FoldTimeline, refold
from alerting.episodes.fold import WindowVerdict
from alerting.rules.rule import Rule
from tests.laws.alerting.worlds.alert_evaluation import RULES, Memory, chain_of, instant, number
from tests.laws.alerting.worlds.alert_shop import DAY, DAYS, STORES, UNPUBLISHED, WINDOWS, must
from tests.laws.alerting.worlds.alert_world import World
from tests.laws.alerting.worlds.compared import ComparisonSpan, compare_alerts

# Every stretch of windows that somebody may ask for.
SPANS = [(instant(start), instant(end)) for start, end in combinations(range(WINDOWS + 1), 2)]


class SimulatedWorld(World):
    """Whenever all inputs have been taken, what was told is what a simulation says."""

    def settle(self) -> None:
        super().settle()
        for store in STORES:
            memory = self.state_of(store)
            # Somebody's end has still to arrive: then nobody can say by what was evaluated.
            if memory is not None:
                for rule in RULES:
                    self.simulate(rule, store, memory)

    def simulate(self, rule: Rule, store: int, memory: Memory) -> None:
        """Raises Broken where what was told of a span is something else."""
        told = [one for one in self.last.values() if one.chain == chain_of(rule, store)]
        # As far as the days of the span reach, as who asks has it.
        of_days = [self.span_of(self.folded(rule, store, memory, day), memory) for day in DAYS]
        for start, end in SPANS:
            whole = of_days[(number(end) - 1) // DAY]
            span = structs.replace(whole, start=start, end=end)
            found = compare_alerts(span, self.told_of(told))
            self.fired["compared"] += found.compared
            self.fired["left out"] += found.left_out
            where = f"{rule.rule_id} at {store}, {number(start)} to {number(end)}"
            must(not found.differences, f"otherwise: {where}: {found.differences} {told} {span}")

    def span_of(self, folded: FoldedDays, memory: Memory) -> ComparisonSpan:
        """All that was folded."""
        is_cut = number(folded.until) <= min(memory.closed, WINDOWS - 1)
        covered = self.covered(folded, memory)
        return ComparisonSpan(folded.start, folded.until, folded.episodes, covered, is_cut)

    def folded(self, rule: Rule, store: int, memory: Memory, day: int) -> FoldedDays:
        """All windows up to the end of a day that have begun, from rest on."""
        last = min(memory.closed, (day + 1) * DAY - 1)
        begun = [instant(day * DAY) for day in DAYS if day * DAY <= last]
        line = ChainDays([*begun, instant(last + 1)], FoldTimeline(), begun, 0)
        evaluate_day = partial(self.verdicts_on, rule, store, memory)
        [found] = refold(line, lambda _: (), evaluate_day).spans
        return found

    def verdicts_on(
        self, rule: Rule, store: int, memory: Memory, day: int
    ) -> Sequence[WindowVerdict]:
        """The verdicts on a day as it is served now."""
        return self.window_verdicts(rule, store, memory, self.pointers, day)

    def covered(self, folded: FoldedDays, memory: Memory) -> frozenset[int]:
        """Those windows of which the generation that serves has been evaluated, with all notices of
        what it changed."""
        coming = {window // DAY for _, window in (*self.hints, *self.owed)}
        return frozenset(
            one
            for one in folded.covered
            if memory.evaluated.get(number(one) // DAY, 0)
            == self.pointers.get(number(one) // DAY, UNPUBLISHED).token
            and number(one) // DAY not in coming
        )

    def told_of(self, told: Iterable[PublishedAlert]) -> Iterable[PublishedAlert]:
        """What was told, as the one who compares has it."""
        return told
