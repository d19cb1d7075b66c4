"""One pass over a partition: new records are examined, evaluated, and marked as evaluated."""

from collections.abc import (
    Callable,
    Collection,
    Coroutine,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any, NamedTuple

from alerting.evaluate.scope.pointers import (
    ChangedDays,
    find_changed_days,
    may_have_changed,
    span_utc_days,
)
from alerting.evaluate.scope.rule_set import RuleSet, VersionedRule
from alerting.evaluate.scope.scope import (
    FamilyStores,
    PartitionChanges,
    RuleDays,
    find_closed_spans,
    select_days,
)
from alerting.evaluate.scope.stores import all_stores, begin_missing_stores, begin_stores
from alerting.evaluate.snapshot.calendar import WindowSpan, has_opening_hours, start_of_window
from alerting.evaluate.snapshot.snapshot_reader import ReadRequest, SnapshotReader
from alerting.evaluate.state.memory import EvaluatedDay, FamilyDay, Hint, PartitionMemory
from alerting.evaluate.verdicts.ending import (
    ForcedWindow,
    add_forced_days,
    end_unevaluable_rules,
    force_ends,
)
from alerting.evaluate.verdicts.partition import (
    EVALUATION_MILLIS,
    RETENTION_MILLIS,
    PartitionEvaluator,
    evaluation_start,
)
from runtime.cassandra.reads import chunks
from serving.questions.active_stores import ActiveStores
from tally.alerts.message import Alert
from tally.time.instants import DAY_MILLIS
from tally.time.windows import WINDOW_MILLIS

# Runs a reading coroutine to its end.
ReadRunner = Callable[[Coroutine[Any, Any, Any]], Any]
# The most rules times store days that one pass evaluates because of new generations: windows that
# close meanwhile wait until the pass ends. The rest is evaluated with the next tick.
MAX_RULE_DAYS = 500_000
# Cost of reads in units of one rule evaluating one store day. A day is read once for all rules; the
# second number is for the weeks before it, which a baseline needs.
_READ_COST, _BASELINE_COST = 100, 2_000
# The most readings that are in memory together, plus those of one store; and the most that are read
# concurrently.
_MAX_READINGS, _MAX_CONCURRENT_READS = 250, 50


class PassSources(NamedTuple):
    """The sources that a pass reads, and the function that runs a read to its end."""

    snapshot: SnapshotReader
    stores: ActiveStores
    run: ReadRunner


class _StoreGroup(NamedTuple):
    """Stores that are evaluated together, and everything that has to be read for them."""

    stores: list[tuple[str, RuleDays]]
    requests: dict[ReadRequest, None]


class EvaluationPass:
    """One pass over one partition.

    The pass marks everything in the memory as evaluated and published; the caller then stores the
    changes or forgets the memory.
    """

    def __init__(self, rules: RuleSet, memory: PartitionMemory, reading: PassSources) -> None:
        self._rules, self._memory = rules, memory
        self._snapshot, self._stores, self._run = reading
        self._evaluator = PartitionEvaluator(rules, memory, reading.snapshot, self._read_now)
        # Up to the last window that has begun; later windows are not evaluated yet.
        self._span = WindowSpan(
            evaluation_start(memory), start_of_window(memory.tick.at) + WINDOW_MILLIS
        )

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
        if self._needs_all_stores(closed, all_moved) or self._has_unknown_stores():
            # Stores are read after the pointers: by then the list has every store with rows in a
            # generation.
            self._run(self._stores.read(self._rules.families))
        active = self._stores.partition_stores(self._memory.number)
        begin_stores(self._memory, active)
        expected = self._stores.missing_stores(
            self._memory.number, self._rules.mandatory_stores, self._has_opening_hours
        )
        begin_missing_stores(self._memory, expected)
        stores = all_stores(active, expected)
        chosen = {
            family: days.newest(self._max_days(stores, family))
            for family, days in all_moved.items()
        }
        forced = force_ends(self._memory, self._rules)
        yield from end_unevaluable_rules(self._memory, self._rules, forced)
        yield from self._evaluate_stores(stores, chosen, forced)
        unfinished = [name for name in chosen if chosen[name].days != all_moved[name].days]
        self._mark_evaluated(chosen, unfinished)

    def _evaluate_stores(
        self,
        stores: FamilyStores,
        chosen: Mapping[str, ChangedDays],
        forced: Sequence[ForcedWindow],
    ) -> Iterator[list[Alert]]:
        self._evaluator.current_days = _collect_days(chosen)
        days = {family: moved_days.everywhere for family, moved_days in chosen.items()}
        causes = {family: moved_days.retraction_reasons for family, moved_days in chosen.items()}
        ticks = self._memory.last_tick, self._memory.tick
        since = PartitionChanges(*ticks, self._hints(), days, self._span)
        of_stores = select_days(since, self._rules.rules, stores, self._snapshot.days)
        named = add_forced_days(of_stores, forced, self._snapshot.days)
        for group in _group_stores(named, self._evaluator.list_requests):
            # Read in chunks, because reading a year of one store may take minutes.
            for chunk in chunks([*group.requests], _MAX_CONCURRENT_READS):
                self._read_now(chunk)
                yield []
            for store_id, store_days in group.stores:
                yield from self._evaluator.evaluate(store_id, store_days, causes)
            self._snapshot.drop_stores(store_id for store_id, _ in group.stores)

    def _find_closed_spans(self) -> dict[str, set[WindowSpan]]:
        """The windows by family that the tick closes in all stores."""
        before, now = self._memory.last_tick, self._memory.tick
        found: dict[str, set[WindowSpan]] = {}
        since: dict[Hashable, VersionedRule] = {}
        for rule in self._rules.rules:
            # Rules with equal delays close windows alike, so only the earliest of them is kept.
            first = since.setdefault(rule.delays, rule)
            since[rule.delays] = rule if rule.since < first.since else first
        for rule in since.values():
            evaluated_span = WindowSpan(max(rule.since, self._span.start), self._span.end)
            for families, span in find_closed_spans(rule, before, now):
                if (inside := evaluated_span.intersect(span)).windows:
                    for family in families:
                        found.setdefault(family, set()).add(inside)
        return found

    def _find_changed_days(
        self, family: str, closed: Mapping[str, Collection[WindowSpan]]
    ) -> ChangedDays:
        since = max(self._span.start, self._rules.since(family))
        evaluated_span = WindowSpan(since, max(since, self._span.end))
        if may_have_changed(self._memory, family):
            days = {*span_utc_days(evaluated_span)}
        else:
            # These days are read anyway: a generation that was replaced meanwhile is news too.
            windows = (hint.window for hint in self._hints() if hint.family == family)
            hinted = [WindowSpan(window, window + 1) for window in windows]
            looked_at = (*hinted, *closed.get(family, ()))
            days = {
                day for span in looked_at for day in span_utc_days(evaluated_span.intersect(span))
            }
        served = self._run(self._snapshot.generations(family, sorted(days)))
        definition = self._snapshot.definition(family)
        return find_changed_days(self._memory, family, sorted(days), served, definition)

    def _hints(self) -> list[Hint]:
        """The hints of windows that have begun."""
        return [hint for hint in self._memory.hints if hint.window < self._span.end]

    def _needs_all_stores(
        self, closed: Mapping[str, Collection[WindowSpan]], all_moved: Mapping[str, ChangedDays]
    ) -> bool:
        # A new rule needs the stores at once, and not only in the first window that it evaluates:
        # from then on a store may be silent.
        return (
            bool(closed)
            or any(moved_days.days for moved_days in all_moved.values())
            or self._stores.lacks(self._rules.families)
        )

    def _has_unknown_stores(self) -> bool:
        """Whether a hint names a store that is not in the known stores of its family."""
        known = self._stores.partition_stores(self._memory.number)
        return any(
            hint.store_id not in known.get(hint.family, ())
            for hint in self._hints()
            if hint.family in self._rules.families
        )

    def _has_opening_hours(self, store_id: str) -> bool:
        """Whether the stores file says when the store is open on the tick's day."""
        days = self._snapshot.days(store_id)
        return has_opening_hours(days, days.date(self._memory.tick.at))

    def _read_now(self, requests: Sequence[ReadRequest]) -> None:
        if missing := self._snapshot.missing(requests):
            self._run(self._snapshot.read(missing))

    def _mark_evaluated(self, chosen: Mapping[str, ChangedDays], unfinished: Sequence[str]) -> None:
        memory = self._memory
        for family, moved_days in chosen.items():
            for day in moved_days.days:
                # By the generation that was read, even if another one serves by now.
                memory.mark_evaluated((family, day), moved_days.evaluated[day])
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


def _collect_days(chosen: Mapping[str, ChangedDays]) -> dict[FamilyDay, EvaluatedDay]:
    found: dict[FamilyDay, EvaluatedDay] = {}
    for family, moved_days in chosen.items():
        found |= {(family, day): moved_days.evaluated[day] for day in moved_days.days}
    return found


def _group_stores(
    named: Iterable[tuple[str, RuleDays]],
    list_requests: Callable[[str, RuleDays], Iterable[ReadRequest]],
) -> Iterator[_StoreGroup]:
    """The stores in order, in groups of as many as memory has room for, at least one store each."""
    group = _StoreGroup([], {})
    for store in named:
        group.stores.append(store)
        group.requests.update(dict.fromkeys(list_requests(*store)))
        # Collected for the whole group, so that reads are concurrent and not one for each fold.
        if len(group.requests) >= _MAX_READINGS:
            yield group
            group = _StoreGroup([], {})
    yield group
