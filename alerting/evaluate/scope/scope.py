"""The selection of the store days to evaluate.

A day is evaluated when a hint, a closed window, another generation or a new day concerns it.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from alerting.evaluate.scope.rule_set import VersionedRule
from alerting.evaluate.snapshot.calendar import StoreCalendarDays, WindowSpan, utc_span
from alerting.evaluate.state.memory import FamilyStore, Hint
from tally.alerts.tick import Tick, last_closed_end
from tally.time.windows import WINDOW_MILLIS

# The starts of local days of one store by rule id, milliseconds since 1970 (UTC).
RuleDays = Mapping[str, Collection[int]]
# The stores by family that have ever sent data.
FamilyStores = Mapping[str, Iterable[str]]
CalendarLookup = Callable[[str], StoreCalendarDays]


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
    hints = _group_hints(since.hints)
    scopes = _scopes(since, rules)
    candidates = [(candidate, candidate_stores(candidate.rules[0], stores)) for candidate in scopes]
    for store_id in sorted({name for family_stores in stores.values() for name in family_stores}):
        days = days_of(store_id)
        is_woken = _has_new_day(since, days)
        named: dict[str, Collection[int]] = {}
        for scope, scope_stores in candidates:
            if store_id not in scope_stores:
                continue
            found = _days_of_scope(scope, store_id, days, hints)
            if scope.span.windows and (found or is_woken):
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
        timing = rule.families_each, rule.delays
        if timing not in news:
            spans = _spans_everywhere(since, rule, since.span)
            news[timing] = [part for part in spans if part.windows]
    starts = (part.start for parts in news.values() for part in parts)
    hinted = (hint.window for hint in since.hints)
    begun = min((*starts, *hinted, since.span.end - WINDOW_MILLIS))
    found: dict[Hashable, _RuleScope] = {}
    for rule in rules:
        # How old a rule is makes no difference before the first window with news.
        first = rule.since if rule.is_cumulative else max(rule.since, begun)
        span = WindowSpan(max(since.span.start, first), since.span.end)
        timing = rule.families_each, rule.delays
        key = span, timing, rule.is_cumulative, rule.store_ids
        if key not in found:
            everywhere = [part for part in map(span.intersect, news[timing]) if part.windows]
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
    found = {
        store_id
        for families in rule.families_each
        for store_id in set.intersection(*(_store_ids(stores, family) for family in families))
    }
    return found if rule.store_ids is None else found & rule.store_ids


def find_closed_spans(
    rule: VersionedRule, before: Tick, now: Tick
) -> Iterator[tuple[tuple[str, ...], WindowSpan]]:
    """The families of each version, and the windows that `now` closes and `before` does not."""
    for families, delay in rule.delays:
        first, end = (last_closed_end(tick, families, delay) for tick in (before, now))
        yield families, WindowSpan(first, max(first, end))


def _spans_everywhere(
    since: PartitionChanges, rule: VersionedRule, span: WindowSpan
) -> Iterator[WindowSpan]:
    """The windows of the span that have to be evaluated in all stores of the rule."""
    for _, closed in find_closed_spans(rule, since.last_tick, since.tick):
        yield span.intersect(closed)
    for family in rule.families:
        for day in since.changed_days.get(family, ()):
            yield span.intersect(utc_span(day))


def _has_new_day(since: PartitionChanges, days: StoreCalendarDays) -> bool:
    """Whether a local day of the store has begun since the last evaluation."""
    return days.day(since.last_tick.at).end < since.span.end


def _store_ids(stores: FamilyStores, family: str) -> set[str]:
    return {*stores.get(family, ())}


def _group_hints(hints: Iterable[Hint]) -> dict[FamilyStore, set[int]]:
    found: dict[FamilyStore, set[int]] = defaultdict(set)
    for hint in hints:
        found[hint.family, hint.store_id].add(hint.window)
    return found
