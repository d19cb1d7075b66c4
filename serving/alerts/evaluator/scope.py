"""Which days of which stores have to be judged: those that a hint, a closed window, a generation or
a new day speaks of, and no others."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from serving.alerts.evaluator.calendar import (
    StoreCalendarDays,
    WindowSpan,
    start_of_window,
    utc_span,
)
from serving.alerts.evaluator.judged_rules import JudgedRule
from serving.alerts.evaluator.memory import FamilyStore, Hint
from tally.alerts.tick import Tick

# By rule and store the starts of its local days, milliseconds since 1970 (UTC).
NamedDays = Mapping[tuple[str, str], set[int]]
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
    since: Since, rules: Iterable[JudgedRule], stores: FamilyStores, days_of: DaysOf
) -> NamedDays:
    """The days of each rule and store that have to be judged, perhaps none."""
    named: dict[tuple[str, str], set[int]] = {}
    hints = _by_place(since.hints)
    each = {store_id for some in stores.values() for store_id in some}
    woken = {store_id for store_id in each if _has_new_day(since, days_of(store_id))}
    for rule in rules:
        span = WindowSpan(max(since.judged.start, rule.since), since.judged.end)
        everywhere = [one for one in _everywhere(since, rule, span) if one.windows]
        asked = stores_of(rule, stores)
        if not everywhere:
            # Most ticks close nothing, and most hints are of a few stores.
            hinted = {store_id for family, store_id in hints if family in rule.families}
            asked &= woken | hinted
        for store_id in sorted(asked):
            days = days_of(store_id)
            found = {day for one in everywhere for day in days.days_of(one)}
            for family in rule.families:
                windows = hints.get((family, store_id), ())
                found |= {days.day(one).start for one in windows if one in span.windows}
            if span.windows and (found or store_id in woken):
                named[rule.rule_id, store_id] = found
    return named


def stores_of(rule: JudgedRule, stores: FamilyStores) -> set[str]:
    """The stores that have sent something of all families of a version of the rule."""
    return {
        store_id
        for families in rule.families_each
        for store_id in set.intersection(*(_all_of(stores, one) for one in families))
    }


def closed_spans(
    rule: JudgedRule, before: Tick, now: Tick
) -> Iterator[tuple[tuple[str, ...], WindowSpan]]:
    """Of each version its families, and the windows that the tick `now` closes and `before` not."""
    for families, delay in rule.delays:
        first, end = (closed_until(one, families, delay) for one in (before, now))
        yield families, WindowSpan(first, max(first, end))


def closed_until(tick: Tick, families: Iterable[str], delay_millis: int) -> int:
    """End of the last window that the tick closes in all families, ms since 1970 (UTC); 0: none."""
    # A family that no tick has spoken of closes nothing.
    instants = [tick.through.get(one, 0) - delay_millis for one in families]
    return max(0, start_of_window(min(instants, default=0)))


def _everywhere(since: Since, rule: JudgedRule, span: WindowSpan) -> Iterator[WindowSpan]:
    """Windows that are to be judged in all stores of the rule."""
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
