"""One pass over a partition: new records are examined, evaluated, and marked as evaluated."""

from collections import defaultdict
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from alerting.evaluate.scope.calendar import WindowSpan, has_opening_hours, start_of_window
from alerting.evaluate.scope.rule_set import RuleSet
from alerting.evaluate.scope.scope import (
    ChangedDays,
    FamilyStores,
    PartitionChanges,
    RuleDays,
    all_stores,
    begin_missing_stores,
    begin_stores,
    find_changed_days,
    find_closed_spans,
    select_days,
)
from alerting.evaluate.snapshot.snapshot_reader import ReadRequest, SnapshotReader
from alerting.evaluate.state.memory import EvaluatedDay, FamilyDay, PartitionMemory
from alerting.evaluate.verdicts.store_evaluator import (
    ForcedWindow,
    StoreEvaluator,
    add_forced_days,
    end_unevaluable_rules,
    force_ends,
)
from alerting.evaluate.verdicts.verdicts import Verdicts
from runtime.cassandra.writes import chunks
from serving.questions.known_stores import ActiveStores
from tally.alerts.message import Alert
from tally.time.instants import DAY_MILLIS
from tally.time.windows import WINDOW_MILLIS

# Windows are frozen before they are forgotten: all that may still be evaluated has all its state.
EVALUATION_MILLIS, RETENTION_MILLIS = 400 * DAY_MILLIS, 430 * DAY_MILLIS
# The most rules times store days that one pass evaluates because of new generations: windows that
# close meanwhile wait until the pass ends. The rest is evaluated with the next tick.
MAX_RULE_DAYS = 500_000
# Cost of reads in units of one rule evaluating one store day. A day is read once for all rules; the
# second number is for the weeks before it, which a baseline needs.
_READ_COST, _BASELINE_COST = 100, 2_000
# The most readings that are in memory together, plus those of one store; and the most that are read
# concurrently.
_MAX_READINGS, _MAX_CONCURRENT_READS = 250, 50


class EvaluationPass:
    """One pass over one partition; `run` runs a read to its end.

    The pass marks everything in the memory as evaluated and published; the caller then stores the
    changes or forgets the memory.
    """

    def __init__(
        self,
        rules: RuleSet,
        memory: PartitionMemory,
        snapshot: SnapshotReader,
        stores: ActiveStores,
        run: Callable[[Coroutine[Any, Any, Any]], Any],
    ) -> None:
        self._rules, self._memory = rules, memory
        self._snapshot, self._stores, self._run = snapshot, stores, run
        # The windows that are evaluated at all, up to the last one that has begun.
        now = memory.tick.at
        start = max(0, start_of_window(now - EVALUATION_MILLIS))
        self._span = WindowSpan(start, start_of_window(now) + WINDOW_MILLIS)
        self._hints = [hint for hint in memory.hints if hint.window < self._span.end]
        # The generations by which this pass evaluates days.
        self._current_days: dict[FamilyDay, EvaluatedDay] = {}

    def alerts(self) -> Iterator[list[Alert]]:
        """The alerts to publish, in order, a list at a time.

        A list has the alerts of one rule at one store, or is empty after a step of reading.
        Between two lists the caller may store what was published so far, but the memory must not
        learn new records. Raises ViewsUnreachable when the views cannot be read; what was not
        stored must then be forgotten.
        """
        if not self._memory.tick.at:
            # Before the first tick the time is unknown, and the first tick evaluates everything.
            self._memory.hints.clear()
            return
        closed = self._find_closed_spans()
        all_moved = {
            family: self._find_changed_days(family, closed) for family in self._rules.families
        }
        if self._needs_all_stores(closed, all_moved):
            # Stores are read after the pointers: by then the list has every store with rows in a
            # generation.
            self._run(self._stores.read(self._rules.families))
        number, mandatory = self._memory.number, self._rules.mandatory_stores
        active = self._stores.partition_stores(number)
        begin_stores(self._memory, active)
        expected = self._stores.missing_stores(number, mandatory, self._has_opening_hours)
        begin_missing_stores(self._memory, expected)
        stores = all_stores(active, expected)
        chosen = {
            family: moved._replace(days=moved.days[: self._max_days(stores, family)])
            for family, moved in all_moved.items()
        }
        forced = force_ends(self._memory, self._rules)
        yield from end_unevaluable_rules(self._memory, self._rules, forced)
        yield from self._evaluate_stores(stores, chosen, forced)
        unfinished = [name for name in chosen if chosen[name].days != all_moved[name].days]
        self._mark_evaluated(unfinished)

    def _evaluate_stores(
        self,
        stores: FamilyStores,
        chosen: Mapping[str, ChangedDays],
        forced: Sequence[ForcedWindow],
    ) -> Iterator[list[Alert]]:
        for family, moved_days in chosen.items():
            for day in moved_days.days:
                self._current_days[family, day] = moved_days.evaluated[day]
        everywhere = {family: moved_days.everywhere for family, moved_days in chosen.items()}
        causes = {family: moved_days.retraction_reasons for family, moved_days in chosen.items()}
        ticks = self._memory.last_tick, self._memory.tick
        since = PartitionChanges(*ticks, self._hints, everywhere, self._span)
        of_stores = select_days(since, self._rules.rules, stores, self._snapshot.days)
        named = add_forced_days(of_stores, forced, self._snapshot.days)
        for group, requests in self._group_stores(named):
            # Read in chunks, because reading a year of one store may take minutes.
            for chunk in chunks(requests, _MAX_CONCURRENT_READS):
                self._read_now(chunk)
                yield []
            for store_id, store_days in group:
                # What the rules of the store share is dropped after the store.
                yield from self._build_evaluator(store_id).evaluate(store_days, causes)
            self._snapshot.drop_stores(store_id for store_id, _ in group)

    def _group_stores(
        self, named: Iterable[tuple[str, RuleDays]]
    ) -> Iterator[tuple[list[tuple[str, RuleDays]], list[ReadRequest]]]:
        """The stores in order and what to read for them, as many at once as memory has room for."""
        stores: list[tuple[str, RuleDays]] = []
        requests: dict[ReadRequest, None] = {}
        for store_id, days in named:
            stores.append((store_id, days))
            # Collected for the whole group, so that reads are concurrent and not one for each fold.
            requests.update(dict.fromkeys(self._list_requests(store_id, days)))
            if len(requests) >= _MAX_READINGS:
                yield stores, [*requests]
                stores, requests = [], {}
        yield stores, [*requests]

    def _list_requests(self, store_id: str, named: RuleDays) -> Iterator[ReadRequest]:
        verdicts = self._build_verdicts()
        seen: set[Hashable] = set()
        for rule in self._rules.rules:
            for start in named.get(rule.rule_id, ()):
                # Checked once for each key: most rules read the same of a day.
                key = rule.split(verdicts.span(store_id, start)).key, start
                if key not in seen:
                    seen.add(key)
                    yield from verdicts.list_requests(rule, store_id, start)

    def _build_evaluator(self, store_id: str) -> StoreEvaluator:
        days, verdicts = self._snapshot.days(store_id), self._build_verdicts()
        return StoreEvaluator(self._rules, self._memory, verdicts, days, self._span.start)

    def _build_verdicts(self) -> Verdicts:
        reading = self._snapshot, self._read_now
        return Verdicts(self._rules, self._memory, *reading, self._current_days)

    def _find_closed_spans(self) -> dict[str, set[WindowSpan]]:
        """The windows by family that the tick closes in all stores."""
        before, now = self._memory.last_tick, self._memory.tick
        found: dict[str, set[WindowSpan]] = defaultdict(set)
        # Rules with equal delays close windows alike, so only the earliest of them is kept.
        ordered = sorted(self._rules.rules, key=lambda rule: rule.since, reverse=True)
        for rule in {rule.delays: rule for rule in ordered}.values():
            evaluated_span = WindowSpan(max(rule.since, self._span.start), self._span.end)
            for families, span in find_closed_spans(rule, before, now):
                if (inside := evaluated_span.intersect(span)).windows:
                    for family in families:
                        found[family].add(inside)
        return found

    def _find_changed_days(self, family: str, closed: Mapping[str, set[WindowSpan]]) -> ChangedDays:
        first = min(rule.since for rule in self._rules.rules if family in rule.families)
        since = max(self._span.start, first)
        evaluated_span = WindowSpan(since, max(since, self._span.end))
        looked_at = [evaluated_span]
        before, now = self._memory.last_tick, self._memory.tick
        is_same_epoch = before.epoch.get(family) == now.epoch.get(family)
        # Else a day may have another generation, or speed rows of another definition.
        if is_same_epoch and before.flips.get(family) == now.flips.get(family):
            # These days are read anyway: a generation that was replaced meanwhile is news too.
            windows = (hint.window for hint in self._hints if hint.family == family)
            hinted = (WindowSpan(window, window + 1) for window in windows)
            spans = (*hinted, *closed.get(family, ()))
            looked_at = [evaluated_span.intersect(span) for span in spans]
        days = sorted({day for span in looked_at for day in span.utc_days})
        served = self._run(self._snapshot.generations(family, days))
        definition = self._snapshot.definition(family)
        return find_changed_days(self._memory, family, days, served, definition)

    def _needs_all_stores(
        self, closed: Mapping[str, set[WindowSpan]], all_moved: Mapping[str, ChangedDays]
    ) -> bool:
        # A new rule needs the stores at once, and not only in the first window that it evaluates:
        # from then on a store may be silent.
        is_new = self._stores.lacks(self._rules.families)
        if closed or is_new or any(moved_days.days for moved_days in all_moved.values()):
            return True
        # A hint may name a store that is not in the known stores of its family.
        known = self._stores.partition_stores(self._memory.number)
        return any(
            hint.store_id not in known.get(hint.family, ())
            for hint in self._hints
            if hint.family in self._rules.families
        )

    def _has_opening_hours(self, store_id: str) -> bool:
        days = self._snapshot.days(store_id)
        return has_opening_hours(days, days.date(self._memory.tick.at))

    def _read_now(self, requests: Sequence[ReadRequest]) -> None:
        if missing := self._snapshot.missing(requests):
            self._run(self._snapshot.read(missing))

    def _mark_evaluated(self, unfinished: Sequence[str]) -> None:
        memory = self._memory
        for family_day, evaluated_day in self._current_days.items():
            # By the generation that was read, even if another one serves by now.
            memory.mark_evaluated(family_day, evaluated_day)
        memory.hints = {hint for hint in memory.hints if hint.window >= self._span.end}
        memory.resolutions.clear()
        if memory.last_tick.at // DAY_MILLIS < memory.tick.at // DAY_MILLIS:
            memory.forget_before(memory.tick.at - RETENTION_MILLIS)
        memory.close(unfinished)

    def _max_days(self, stores: FamilyStores, family: str) -> int:
        """The most days of the family that one pass evaluates in all stores; at least 1."""
        rules = [rule for rule in self._rules.rules if family in rule.families]
        if any(rule.is_cumulative for rule in rules):
            # A day makes all later days be evaluated too, so every part would evaluate them all
            # again.
            return EVALUATION_MILLIS // DAY_MILLIS + 1
        baselines = len({baseline for rule in rules for baseline in rule.baselines})
        cost = _READ_COST + _BASELINE_COST * baselines + len(rules)
        count = sum(1 for _ in stores.get(family, ()))
        return max(1, MAX_RULE_DAYS // max(1, cost * count))
