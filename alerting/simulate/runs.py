"""Runs the evaluator on one store over an empty memory, so that no alert was ever published."""

from collections.abc import Iterator, Mapping
from datetime import date
from typing import NamedTuple

from alerting.alert.ids import WHOLE_STORE, subject_text
from alerting.evaluate.scope.rule_set import RuleSet, VersionedRule
from alerting.evaluate.scope.stores import begin_missing_stores, begin_stores
from alerting.evaluate.snapshot.calendar import WindowSpan
from alerting.evaluate.snapshot.shelves import DayShelves
from alerting.evaluate.snapshot.snapshot_reader import ReadRequest, SnapshotReader
from alerting.evaluate.snapshot.window_facts import DayWindow
from alerting.evaluate.state.memory import PartitionMemory
from alerting.evaluate.verdicts.partition import StoreEvaluator
from alerting.evaluate.verdicts.verdicts import ReadNow, Verdicts
from serving.metrics.catalogue import Metric
from tally.alerts.message import Alert
from tally.alerts.tick import Tick
from tally.time.windows import WINDOW_MILLIS

# An article without any document: its windows are served as completely as those of any other.
NO_ARTICLE = subject_text("item")


class SimulatedRules(NamedTuple):
    """The simulated rule, together with all rules that it waits for."""

    rule: VersionedRule
    together: RuleSet

    @property
    def is_per_article(self) -> bool:
        """Whether the rule, or one that it waits for, evaluates articles one by one."""
        return any(rule.is_cumulative for rule in self.together.rules)


class StoreSource(NamedTuple):
    """A store, a snapshot of the views, and `read_now`, which returns once it has read more.

    `first_days`: the UTC day of the store's first event, by family. `missing`: the families of
    which the store should send data and never has.
    """

    store_id: str
    snapshot: SnapshotReader
    read_now: ReadNow
    first_days: Mapping[str, date]
    missing: frozenset[str]


class StoreRun:
    """The verdicts and alerts of a store on whole local days, up to the window of `now` at most.

    `span`: from the start of a day to the end of one; `now`: milliseconds since 1970 (UTC).
    """

    def __init__(
        self, rules: SimulatedRules, source: StoreSource, span: WindowSpan, now: int
    ) -> None:
        self._rules, self._source, self.span = rules, source, span
        # The tick says that no family was read: windows without a generation are not known.
        memory = PartitionMemory(0)
        memory.tick = Tick(at=min(now, span.end - WINDOW_MILLIS))
        store_id, days = source.store_id, source.first_days
        begin_stores(memory, {family: {store_id: day} for family, day in days.items()})
        begin_missing_stores(memory, dict.fromkeys(source.missing, (store_id,)), since=0)
        self._days = source.snapshot.days(store_id)
        self._verdicts = Verdicts(rules.together, memory, source.snapshot, source.read_now)
        self._evaluator = StoreEvaluator(
            rules.together, memory, self._verdicts, self._days, span.start
        )

    def alerts(self) -> list[Alert]:
        """The messages that the evaluator would publish, with the rules that the rule waits for.

        Called once; the verdicts of such rules are known only afterwards.
        """
        starts = self.day_starts(self.span)
        named = {rule.rule_id: starts for rule in self._rules.together.rules}
        return [alert for alerts in self._evaluator.evaluate(named, {}) for alert in alerts]

    def day_starts(self, span: WindowSpan) -> list[int]:
        """The local days that have a window in the span that has begun, by their starts."""
        return self._days.day_starts(span.cut_at(self._verdicts.end))

    def list_requests(self, rule: VersionedRule, span: WindowSpan) -> list[ReadRequest]:
        """The readings needed to evaluate the days of the span."""
        return [
            reading
            for start in self.day_starts(span)
            for reading in self._verdicts.list_requests(rule, self._source.store_id, start)
        ]

    def windows(
        self, rule: VersionedRule, span: WindowSpan, subject: str = WHOLE_STORE
    ) -> Iterator[DayWindow]:
        """The windows that have begun on the days of the span."""
        for start in self.day_starts(span):
            yield from self._verdicts.day_windows(rule, self._source.store_id, start, subject)

    def list_covered_windows(self) -> frozenset[int]:
        """The starts of the windows that are covered for the versions that evaluate them."""
        rule = self._rules.rule
        # A version for whole stores does not show how articles are served, nor the reverse.
        probes = (WHOLE_STORE, NO_ARTICLE) if rule.is_cumulative else (WHOLE_STORE,)
        each = [
            {
                window.verdict.window
                for window in self.windows(rule, self.span, subject)
                if window.verdict.is_covered
            }
            for subject in probes
        ]
        return frozenset(set.intersection(*each))

    def shelves(self, rule: VersionedRule, span: WindowSpan) -> Iterator[DayShelves]:
        """The articles that a stock rule looks at on the days of the span, day by day."""
        for start in self.day_starts(span) if rule.is_cumulative else ():
            store_id = self._source.store_id
            self._source.read_now([*self._verdicts.list_requests(rule, store_id, start)])
            day = self._verdicts.span(store_id, start)
            for metric in _stock_metrics(rule, day):
                if shelves := self._source.snapshot.shelves(metric, store_id, day):
                    yield shelves


def _stock_metrics(rule: VersionedRule, span: WindowSpan) -> list[Metric]:
    """The stock metrics of the rule's versions on the span, once each."""
    version_numbers = {
        version.version for version, _ in rule.split_by_version(span) if version is not None
    }
    read = (rule.metrics(number) for number in sorted(version_numbers))
    metrics = [version_metrics.metric for version_metrics in read if version_metrics is not None]
    found = {metric.entry.id: metric for metric in metrics if metric.stock is not None}
    return [*found.values()]
