"""One partition judged at one moment: what of it is to be told, and what its memory has then."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta

from serving.alerts.evaluator.calendar import start_of_window
from serving.alerts.evaluator.judged_rules import JudgedRule, JudgedRules
from serving.alerts.evaluator.judgements import Judgements, ReadNow, chain_of
from serving.alerts.evaluator.memory import PartitionMemory
from serving.alerts.evaluator.messages import alert_message
from serving.alerts.evaluator.moment import ViewsMoment
from serving.alerts.evaluator.scope import NamedDays
from tally.alerts.days import DayLine, FoldedDays, refold
from tally.alerts.fold import Judgement
from tally.alerts.judge import Basis, transitions
from tally.alerts.message import Alert, Reason
from tally.alerts.rule import version_at
from tally.alerts.told import ToldAlert
from tally.instants import from_millis

DAY_MILLIS = timedelta(days=1) // timedelta(milliseconds=1)
# Frozen before forgotten: what may still be judged has all its state.
JUDGED_BACK, REMEMBERED = 400 * DAY_MILLIS, 430 * DAY_MILLIS


# By family and UTC day why its numbers may have changed, where that is no late data.
Causes = Mapping[str, Mapping[date, Reason]]
# By store the starts of its local days, milliseconds since 1970 (UTC).
StoreDayStarts = dict[str, set[int]]


class PartitionJudge:
    """Judges the named days of a partition, rule after rule."""

    def __init__(
        self, rules: JudgedRules, memory: PartitionMemory, moment: ViewsMoment, read_now: ReadNow
    ) -> None:
        self._rules, self._memory = rules, memory
        self._moment, self._read_now = moment, read_now
        self._judgements = Judgements(rules, memory, moment, read_now)
        # By rule and store the starts of the days that were folded.
        self._folded: dict[tuple[str, str], set[int]] = {}

    def judge(self, named: NamedDays, causes: Causes) -> list[Alert]:
        """The messages of all chains in the order of telling; the memory has them as told.

        `named`: days by rule and store.
        """
        rules = {rule.rule_id: rule for rule in self._rules.rules}
        # At once for all, and not one after the other where they are folded.
        self._read_now(
            [
                one
                for (rule_id, store_id), days in named.items()
                for day in days
                for one in self._judgements.wanted(rules[rule_id], store_id, day)
            ]
        )
        found: list[Alert] = []
        by_rule = _by_rule(named)
        for rule in self._rules.rules:
            of_rule = self._of_rule(rule, by_rule.get(rule.rule_id, {}))
            for store_id in sorted(of_rule):
                found += self._chain(rule, store_id, of_rule[store_id], causes)
        return found

    def _of_rule(self, rule: JudgedRule, named: StoreDayStarts) -> StoreDayStarts:
        """By store the days of a rule: the named, and those on which one that it waits for was
        folded anew."""
        found = {store_id: {*days} for store_id, days in named.items()}
        for other in self._rules.waits_for(rule, rule.unless):
            for (rule_id, store_id), days in self._folded.items():
                if rule_id == other.rule_id:
                    found.setdefault(store_id, set()).update(days)
        return found

    def _chain(
        self, rule: JudgedRule, store_id: str, days: set[int], causes: Causes
    ) -> list[Alert]:
        chain = chain_of(rule, store_id)
        told = dict(self._memory.told(chain))

        def judgements_of(start: int) -> Sequence[Judgement]:
            judged = self._judgements.of_day(rule, store_id, start)
            return [one.judgement for one in judged]

        line = self._line(rule, store_id, days)
        if line.count < 1:
            return []
        refolding = refold(line, told.values(), judgements_of)
        found: list[Alert] = []
        for stretch in refolding.stretches:
            basis = self._basis(rule, told.values(), causes)
            for one in transitions(chain, stretch, told.values(), basis):
                told[one.alert.alert_id] = one.alert
                self._memory.tell(one.alert)
                window = self._judgements.window(rule, store_id, one.alert.window)
                found.append(alert_message(rule, one, window, self._memory.tick))
        for start, state in refolding.states.items():
            self._memory.begin_day(chain, start, state)
        self._folded[rule.rule_id, store_id] = {
            start for one in refolding.stretches for start in _starts(line, one)
        }
        return found

    def _line(self, rule: JudgedRule, store_id: str, named: set[int]) -> DayLine:
        memory, days = self._memory, self._moment.days(store_id)
        first, end = max(first_judged(memory), rule.since), self._judgements.end
        starts = days.starts(first, end)
        before = memory.last.at
        return DayLine(
            borders=[*starts, end] if starts else [],
            states=memory.states(chain_of(rule, store_id)),
            named=named,
            new_from=days.day(before).end if before else 0,
        )

    def _basis(self, rule: JudgedRule, told: Iterable[ToldAlert], causes: Causes) -> Basis:
        at = self._memory.tick.at
        newest = version_at(rule.versions, at) or rule.versions[0]
        days: dict[date, Reason] = {}
        for family in rule.families:
            days |= causes.get(family, {})
        windows = {one.window: from_millis(one.window).date() for one in told}
        return Basis(
            at=at,
            late_after=newest.rule.delay + newest.rule.late_after,
            causes={one: days[day] for one, day in windows.items() if day in days},
        )


def first_judged(memory: PartitionMemory) -> int:
    """Start of the first window that is judged at all, ms since 1970 (UTC)."""
    return max(0, start_of_window(memory.tick.at - JUDGED_BACK))


def _starts(line: DayLine, stretch: FoldedDays) -> list[int]:
    return [one for one in line.borders[:-1] if stretch.start <= one < stretch.until]


def _by_rule(named: NamedDays) -> dict[str, StoreDayStarts]:
    found: dict[str, StoreDayStarts] = {}
    for (rule_id, store_id), days in named.items():
        found.setdefault(rule_id, {})[store_id] = days
    return found
