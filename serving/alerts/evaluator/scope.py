"""Which days of which stores have to be judged: those that a hint, a closed window, a generation or
a new day speaks of, and no others."""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from serving.alerts.evaluator.calendar import StoreCalendarDays, WindowSpan, utc_span
from serving.alerts.evaluator.judged_rules import JudgedRule
from serving.alerts.evaluator.memory import FamilyStore, Hint
from tally.alerts.tick import Tick, closed_until
from tally.windows import WINDOW_MILLIS

# By rule the starts of local days of one store, milliseconds since 1970 (UTC).
NamedDays = Mapping[str, Collection[int]]
# By family those that have ever sent something.
FamilyStores = Mapping[str, Iterable[str]]
DaysOf = Callable[[str], StoreCalendarDays]


class Since(NamedTuple):
    """What has come since the last judgement, of one partition.

    `before` and `now`: the ticks. `judged`: the windows that are judged at all, up to the last one
    that has begun. `moved`: by family the UTC days whose generation is not the one that was judged,
    or whose speed rows count otherwise.
    """

    before: Tick
    now: Tick
    hints: Iterable[Hint]
    moved: Mapping[str, Sequence[date]]
    judged: WindowSpan


def named_days(
    since: Since, rules: Sequence[JudgedRule], stores: FamilyStores, days_of: DaysOf
) -> Iterator[tuple[str, NamedDays]]:
    """Store by store, ascending, the days of each rule that have to be judged, perhaps none.

    A store of which nothing has to be judged is left out.
    """
    hints = _by_place(since.hints)
    scopes = _scopes(since, rules)
    asked = [(one, stores_of(one.rules[0], stores)) for one in scopes]
    for store_id in sorted({store_id for some in stores.values() for store_id in some}):
        days = days_of(store_id)
        is_woken = _has_new_day(since, days)
        named: dict[str, Collection[int]] = {}
        for scope, of in asked:
            if store_id not in of:
                continue
            found = _days_of_scope(scope, store_id, days, hints)
            if scope.span.windows and (found or is_woken):
                named.update(dict.fromkeys((rule.rule_id for rule in scope.rules), found))
        if named:
            yield store_id, named


class _RuleScope(NamedTuple):
    """Rules of which the same days are named; `everywhere`: windows to be judged in all stores."""

    rules: list[JudgedRule]
    span: WindowSpan
    everywhere: list[WindowSpan]


def _scopes(since: Since, rules: Sequence[JudgedRule]) -> list[_RuleScope]:
    spoken: dict[Hashable, list[WindowSpan]] = {}
    for rule in rules:
        of = rule.families_each, rule.delays
        if of not in spoken:
            each = _everywhere(since, rule, since.judged)
            spoken[of] = [one for one in each if one.windows]
    starts = (one.start for some in spoken.values() for one in some)
    hinted = (one.window for one in since.hints)
    begun = min((*starts, *hinted, since.judged.end - WINDOW_MILLIS))
    found: dict[Hashable, _RuleScope] = {}
    for rule in rules:
        # Rules are as old as they like: before what is spoken of it makes no difference.
        first = rule.since if rule.carries_over else max(rule.since, begun)
        span = WindowSpan(max(since.judged.start, first), since.judged.end)
        of = rule.families_each, rule.delays
        key = span, of, rule.carries_over, rule.named_stores
        if key not in found:
            everywhere = [one for one in map(span.within, spoken[of]) if one.windows]
            found[key] = _RuleScope([], span, everywhere)
        found[key].rules.append(rule)
    return [*found.values()]


def _days_of_scope(
    scope: _RuleScope,
    store_id: str,
    days: StoreCalendarDays,
    hints: Mapping[FamilyStore, set[int]],
) -> set[int]:
    rule, span = scope.rules[0], scope.span
    found = {day for one in scope.everywhere for day in days.days_of(one)}
    for family in rule.families:
        windows = hints.get((family, store_id), ())
        # Also of one before the rule's first: what there is then hangs on it.
        reached = (max(one, span.start) if rule.carries_over else one for one in windows)
        found |= {days.day(one).start for one in reached if one in span.windows}
    if rule.carries_over and found:
        # What there is on a day hangs on all days before it.
        first = max(min(found), span.start)
        found = {*days.days_of(WindowSpan(first, span.end))}
    return found


def stores_of(rule: JudgedRule, stores: FamilyStores) -> set[str]:
    """The stores that have sent something of all families of a version of the rule, and that one
    may be about."""
    found = {
        store_id
        for families in rule.families_each
        for store_id in set.intersection(*(_all_of(stores, one) for one in families))
    }
    return found if rule.named_stores is None else found & rule.named_stores


def closed_spans(
    rule: JudgedRule, before: Tick, now: Tick
) -> Iterator[tuple[tuple[str, ...], WindowSpan]]:
    """Of each version its families, and the windows that the tick `now` closes and `before` not."""
    for families, delay in rule.delays:
        first, end = (closed_until(one, families, delay) for one in (before, now))
        yield families, WindowSpan(first, max(first, end))


def _everywhere(since: Since, rule: JudgedRule, span: WindowSpan) -> Iterator[WindowSpan]:
    """Windows that are to be judged in all stores of the rule, of those of the span."""
    for _, closed in closed_spans(rule, since.before, since.now):
        yield span.within(closed)
    for family in rule.families:
        for day in since.moved.get(family, ()):
            yield span.within(utc_span(day))


def _has_new_day(since: Since, days: StoreCalendarDays) -> bool:
    """Whether a local day of the store has begun since the last judgement."""
    return days.day(since.before.at).end < since.judged.end


def _all_of(stores: FamilyStores, family: str) -> set[str]:
    return {*stores.get(family, ())}


def _by_place(hints: Iterable[Hint]) -> dict[FamilyStore, set[int]]:
    found: dict[FamilyStore, set[int]] = defaultdict(set)
    for one in hints:
        found[one.family, one.store_id].add(one.window)
    return found
