"""The stores that are evaluated, and the selection of their days.

A day is evaluated when a hint, a closed window, another generation or a new day concerns it.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from alerting.evaluate.scope.calendar import (
    StoreCalendarDays,
    WindowSpan,
    start_of_window,
    utc_span,
)
from alerting.evaluate.scope.rule_set import VersionedRule
from alerting.evaluate.state.memory import EvaluatedDay, FamilyStore, Hint, PartitionMemory
from serving.questions.known_stores import FamilyStoreIds, FirstDays
from tally.alerts.message import Reason
from tally.alerts.tick import NO_TICK, Tick, last_closed_end
from tally.families.epochs import Epochs
from tally.families.generation import Generation
from tally.time.instants import DAY_MILLIS, to_millis
from tally.time.windows import ONE_DAY, WINDOW_MILLIS, day_end, day_start

# The starts of local days of one store by rule id, milliseconds since 1970 (UTC).
RuleDays = Mapping[str, Collection[int]]
# The stores by family that have ever sent data.
FamilyStores = Mapping[str, Iterable[str]]
CalendarLookup = Callable[[str], StoreCalendarDays]

_NEVER = EvaluatedDay()
# Kafka keeps notices of restatements longer than this, in milliseconds.
_RESTATEMENT_RETENTION_MILLIS = DAY_MILLIS


class PartitionChanges(NamedTuple):
    """The news of one partition since the last evaluation.

    `last_tick` and `tick`: the ticks. `span`: the windows that are evaluated at all, up to the last
    one that has begun. `changed_days`: the UTC days by family whose generation, or whose definition
    of speed rows, is not the one that was evaluated.
    """

    last_tick: Tick
    tick: Tick
    hints: Iterable[Hint]
    changed_days: Mapping[str, Sequence[date]]
    span: WindowSpan


def select_days(
    since: PartitionChanges,
    rules: Sequence[VersionedRule],
    stores: FamilyStores,
    days_of: CalendarLookup,
) -> Iterator[tuple[str, RuleDays]]:
    """The days of each rule that have to be evaluated, perhaps none, store by store, ascending.

    A store without anything to evaluate is left out.
    """
    hints: dict[FamilyStore, set[int]] = defaultdict(set)
    for hint in since.hints:
        hints[hint.family, hint.store_id].add(hint.window)
    scopes = _scopes(since, rules)
    candidates = [(candidate, candidate_stores(candidate.rules[0], stores)) for candidate in scopes]
    for store_id in sorted({name for family_stores in stores.values() for name in family_stores}):
        days = days_of(store_id)
        has_new_day = days.day(since.last_tick.at).end < since.span.end
        named: dict[str, Collection[int]] = {}
        for scope, scope_stores in candidates:
            if store_id not in scope_stores:
                continue
            found = _days_of_scope(scope, store_id, days, hints)
            if scope.span.windows and (found or has_new_day):
                named.update(dict.fromkeys((rule.rule_id for rule in scope.rules), found))
        if named:
            yield store_id, named


class _RuleScope(NamedTuple):
    """Rules with the same days to evaluate; `everywhere`: windows to evaluate in all stores."""

    rules: list[VersionedRule]
    span: WindowSpan
    everywhere: list[WindowSpan]


def _scopes(since: PartitionChanges, rules: Sequence[VersionedRule]) -> list[_RuleScope]:
    news: dict[Hashable, list[WindowSpan]] = {}
    for rule in rules:
        if rule.delays not in news:
            spans = _spans_everywhere(since, rule)
            news[rule.delays] = [part for part in spans if part.windows]
    starts = (part.start for parts in news.values() for part in parts)
    hinted = (hint.window for hint in since.hints)
    begun = min((*starts, *hinted, since.span.end - WINDOW_MILLIS))
    found: dict[Hashable, _RuleScope] = {}
    for rule in rules:
        # How old a rule is makes no difference before the first window with news.
        first = rule.since if rule.is_cumulative else max(rule.since, begun)
        span = WindowSpan(max(since.span.start, first), since.span.end)
        key = span, rule.delays, rule.is_cumulative, rule.store_ids
        if key not in found:
            everywhere = [part for part in map(span.intersect, news[rule.delays]) if part.windows]
            found[key] = _RuleScope([], span, everywhere)
        found[key].rules.append(rule)
    return [*found.values()]


def _days_of_scope(
    scope: _RuleScope, store_id: str, days: StoreCalendarDays, hints: Mapping[FamilyStore, set[int]]
) -> set[int]:
    rule, span = scope.rules[0], scope.span
    found = {day for part in scope.everywhere for day in days.day_starts(part)}
    for family in rule.families:
        windows = hints.get((family, store_id), ())
        # A hint before the rule's first window counts too, because later levels depend on it.
        reached = (max(window, span.start) if rule.is_cumulative else window for window in windows)
        found |= {days.day(start).start for start in reached if start in span.windows}
    if rule.is_cumulative and found:
        # The level on a day depends on all days before it.
        first = max(min(found), span.start)
        found = {*days.day_starts(WindowSpan(first, span.end))}
    return found


def candidate_stores(rule: VersionedRule, stores: FamilyStores) -> set[str]:
    """The stores that have sent data of all families of a version, and that it may be about."""
    own = {family: {*stores.get(family, ())} for family in rule.families}
    found = {
        store_id
        for families, _ in rule.delays
        for store_id in set.intersection(*(own[family] for family in families))
    }
    return found if rule.store_ids is None else found & rule.store_ids


def find_closed_spans(
    rule: VersionedRule, before: Tick, now: Tick
) -> Iterator[tuple[tuple[str, ...], WindowSpan]]:
    """The families of each version, and the windows that `now` closes and `before` does not."""
    for families, delay in rule.delays:
        first, end = (last_closed_end(tick, families, delay) for tick in (before, now))
        yield families, WindowSpan(first, max(first, end))


def _spans_everywhere(since: PartitionChanges, rule: VersionedRule) -> Iterator[WindowSpan]:
    """The windows that have to be evaluated in all stores of the rule."""
    for _, closed in find_closed_spans(rule, since.last_tick, since.tick):
        yield since.span.intersect(closed)
    for family in rule.families:
        for day in since.changed_days.get(family, ()):
            yield since.span.intersect(utc_span(day))


class ChangedDays(NamedTuple):
    """UTC days of a family that have to be evaluated in all stores, newest first.

    `evaluated`: the generation by which each day is evaluated now. `retraction_reasons`: why
    numbers may have changed on days whose generation has a higher epoch. `restated`: days that were
    whole and still are, in the same epoch; in these only windows that a notice names have changed.
    """

    days: tuple[date, ...]
    evaluated: Mapping[date, EvaluatedDay]
    retraction_reasons: Mapping[date, Reason]
    restated: frozenset[date] = frozenset()

    @property
    def everywhere(self) -> tuple[date, ...]:
        """The days to be evaluated in all stores."""
        return tuple(day for day in self.days if day not in self.restated)


def find_changed_days(
    memory: PartitionMemory,
    family: str,
    days: Sequence[date],
    served: Mapping[date, Generation],
    definition: Epochs,
) -> ChangedDays:
    """The days that have to be evaluated again; `served`: the generations as they were read.

    `definition`: the family's epochs without any raised day.
    """
    speed = memory.tick.epoch.get(family)
    has_restatements = memory.tick.at - memory.last_tick.at < _RESTATEMENT_RETENTION_MILLIS
    evaluated: dict[date, EvaluatedDay] = {}
    causes: dict[date, Reason] = {}
    restated: set[date] = set()
    # The days of which no window is left to the speed layer.
    whole = {
        day
        for day, found in served.items()
        if found.covered_from <= day_start(day) and day_end(day) <= found.covered_until
    }
    newest_whole = max(whole, default=date.min)
    # Newest first: recent days are the most urgent when not all can be evaluated in one pass.
    for day in sorted(days, reverse=True):
        before, serving = memory.evaluated_days.get((family, day), _NEVER), served.get(day)
        generation, epoch = (serving.generation, serving.epoch) if serving else (0, 0)
        is_whole = day in whole
        # Rebuilds have gone on to later days: windows that they left out stay uncovered.
        is_settled = bool(serving) and not is_whole and (newest_whole > day or before.is_settled)
        left_to = None if is_whole else speed
        until = to_millis(serving.covered_until) if serving and not is_whole else 0
        now = EvaluatedDay(generation, epoch, left_to, is_whole, is_settled, until)
        if now != before:
            evaluated[day] = now
            # The day was whole, and still is by rows of the same definition.
            is_same = before.is_whole and is_whole and before.epoch == epoch
            if is_same and before.generation > 0 and has_restatements:
                restated.add(day)
        # A day that was never evaluated has no alerts that could be retracted.
        if before.generation and epoch > before.epoch:
            # An epoch above that of the day's definition is due to an erasure.
            causes[day] = "erasure" if epoch > definition.for_day(day) else "definition"
    return ChangedDays(tuple(evaluated), evaluated, causes, frozenset(restated))


def missing_store_key(family: str, store_id: str) -> FamilyStore:
    """The key under which a memory keeps from when on a store should send data of a family."""
    return f"{family}?", store_id


def begin_missing_stores(
    memory: PartitionMemory, expected: Mapping[str, Iterable[str]], since: int | None = None
) -> None:
    """Note from when on stores that should send, and never have, are silent in their open hours.

    `since`: start of a window, milliseconds since 1970 (UTC); the default is the current window, so
    that no rule calls for alerts of the past.
    """
    start = start_of_window(memory.tick.at) if since is None else since
    for family, store_ids in expected.items():
        for store_id in store_ids:
            key = missing_store_key(family, store_id)
            if key not in memory.silent_from and (family, store_id) not in memory.silent_from:
                memory.begin_store(key, start)


def all_stores(
    active: Mapping[str, Iterable[str]], expected: Mapping[str, Iterable[str]]
) -> FamilyStoreIds:
    """The stores by family that send data or should send it."""
    found: FamilyStoreIds = defaultdict(set)
    for family, store_ids in (*active.items(), *expected.items()):
        found[family].update(store_ids)
    return found


def begin_stores(memory: PartitionMemory, stores: FirstDays) -> None:
    """Note from when on each store is silent where it sends nothing.

    The first event of a store says nothing about the hours before it arrived, and a till with a
    wrong clock may have its first event in any month. So a store begins with the window in which it
    was first seen; stores known at the evaluator's first pass begin with the day after their first
    event.
    """
    is_first = memory.last_tick == NO_TICK
    for family, first_days in stores.items():
        for store_id, first_day in first_days.items():
            if (family, store_id) not in memory.silent_from:
                day_after = utc_span(first_day + ONE_DAY).start
                start = day_after if is_first else start_of_window(memory.tick.at)
                memory.begin_store((family, store_id), start)
