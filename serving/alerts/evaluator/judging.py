"""One pass over a partition: new records are examined, judged, and marked as judged."""

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

from runtime.chunks import chunks
from serving.alerts.evaluator.calendar import WindowSpan, start_of_window, tells_hours
from serving.alerts.evaluator.ending import (
    ForcedWindow,
    force_ends,
    unjudged_ends,
    with_forced,
)
from serving.alerts.evaluator.judged_rules import JudgedRule, JudgedRules
from serving.alerts.evaluator.memory import FamilyDay, Hint, JudgedDay, PartitionMemory
from serving.alerts.evaluator.moment import ReadingWanted, ViewsMoment
from serving.alerts.evaluator.partition import (
    DAY_MILLIS,
    JUDGED_BACK,
    REMEMBERED,
    PartitionJudge,
    first_judged,
)
from serving.alerts.evaluator.pointers import MovedDays, has_news, judged_days, moved
from serving.alerts.evaluator.scope import FamilyStores, NamedDays, Since, closed_spans, named_days
from serving.alerts.evaluator.stores import (
    ActiveStores,
    all_stores,
    begin_expected,
    begin_stores,
)
from tally.alerts.message import Alert
from tally.windows import WINDOW_MILLIS

# Runs a reading coroutine to its end.
Run = Callable[[Coroutine[Any, Any, Any]], Any]
# The most rules times store days that one pass judges because of new generations: windows that
# close meanwhile wait until the pass ends. The rest is judged with the next tick.
MOST_RULE_DAYS = 500_000
# Cost of reads in units of one rule judging one store day. A day is read once for all rules; the
# second number is for the weeks before it, which a baseline needs.
_READ_AS_RULES, _USUAL_AS_RULES = 100, 2_000
# The most readings that are in memory together, plus those of one store; and the most that are read
# concurrently.
_MOST_READINGS, _MOST_AT_ONCE = 250, 50


class PassReading(NamedTuple):
    """The sources that a pass reads, and the function that runs a read to its end."""

    moment: ViewsMoment
    stores: ActiveStores
    run: Run


class _StoreGroup(NamedTuple):
    """Stores that are judged together, and everything that has to be read for them."""

    stores: list[tuple[str, NamedDays]]
    wanted: dict[ReadingWanted, None]


class PartitionPass:
    """One pass over one partition.

    The pass marks everything in the memory as judged and published; the caller then stores the
    changes or forgets the memory.
    """

    def __init__(self, rules: JudgedRules, memory: PartitionMemory, reading: PassReading) -> None:
        self._rules, self._memory = rules, memory
        self._moment, self._stores, self._run = reading
        self._judge = PartitionJudge(rules, memory, reading.moment, self._read_now)
        # Up to the last window that has begun; later windows are not judged yet.
        self._judged = WindowSpan(
            first_judged(memory), start_of_window(memory.tick.at) + WINDOW_MILLIS
        )

    def alerts(self) -> Iterator[list[Alert]]:
        """The alerts to publish, in order, a list at a time.

        A list has the alerts of one rule at one store, or is empty after a step of reading.
        Between two lists the caller may store what was published so far, but the memory must not
        learn new records. Raises ViewsUnreachable when the views cannot be read; what was not
        stored must then be forgotten.
        """
        if not self._memory.tick.at:
            # Before the first tick the time is unknown, and the first tick judges everything.
            self._memory.hints.clear()
            return
        closed = self._closed_spans()
        all_moved = {family: self._moved_days(family, closed) for family in self._rules.families}
        if self._is_everywhere(closed, all_moved) or self._has_unknown_stores():
            # Stores are read after the pointers: by then the list has every store with rows in a
            # generation.
            self._run(self._stores.read(self._rules.families))
        active = self._stores.of(self._memory.number)
        begin_stores(self._memory, active)
        expected = self._stores.expected(self._memory.number, self._rules, self._opens)
        begin_expected(self._memory, expected)
        stores = all_stores(active, expected)
        chosen = {
            family: days.newest(self._most_days(stores, family))
            for family, days in all_moved.items()
        }
        forced = force_ends(self._memory, self._rules)
        yield from unjudged_ends(self._memory, self._rules, forced)
        yield from self._judge_stores(stores, chosen, forced)
        unfinished = [name for name in chosen if chosen[name].days != all_moved[name].days]
        self._count_as_judged(chosen, unfinished)

    def _judge_stores(
        self,
        stores: FamilyStores,
        chosen: Mapping[str, MovedDays],
        forced: Sequence[ForcedWindow],
    ) -> Iterator[list[Alert]]:
        self._judge.judged_now = _judged_by_day(chosen)
        days = {family: moved_days.everywhere for family, moved_days in chosen.items()}
        causes = {family: moved_days.causes for family, moved_days in chosen.items()}
        ticks = self._memory.last, self._memory.tick
        since = Since(*ticks, self._hints(), days, self._judged)
        of_stores = named_days(since, self._rules.rules, stores, self._moment.days)
        named = with_forced(of_stores, forced, self._moment.days)
        for group in _group_stores(named, self._judge.wanted):
            # Read in chunks, because reading a year of one store may take minutes.
            for chunk in chunks([*group.wanted], _MOST_AT_ONCE):
                self._read_now(chunk)
                yield []
            for store_id, store_days in group.stores:
                yield from self._judge.judge(store_id, store_days, causes)
            self._moment.forget(store_id for store_id, _ in group.stores)

    def _closed_spans(self) -> dict[str, set[WindowSpan]]:
        """The windows by family that the tick closes in all stores."""
        before, now = self._memory.last, self._memory.tick
        found: dict[str, set[WindowSpan]] = {}
        since: dict[Hashable, JudgedRule] = {}
        for rule in self._rules.rules:
            # Rules with equal delays close windows alike, so only the earliest of them is kept.
            first = since.setdefault(rule.delays, rule)
            since[rule.delays] = rule if rule.since < first.since else first
        for rule in since.values():
            judged = WindowSpan(max(rule.since, self._judged.start), self._judged.end)
            for families, span in closed_spans(rule, before, now):
                if (inside := judged.within(span)).windows:
                    for family in families:
                        found.setdefault(family, set()).add(inside)
        return found

    def _moved_days(self, family: str, closed: Mapping[str, Collection[WindowSpan]]) -> MovedDays:
        since = max(self._judged.start, self._rules.since(family))
        judged = WindowSpan(since, max(since, self._judged.end))
        if has_news(self._memory, family):
            days = {*judged_days(judged)}
        else:
            # These days are read anyway: a generation that was replaced meanwhile is news too.
            windows = (hint.window for hint in self._hints() if hint.family == family)
            hinted = [WindowSpan(window, window + 1) for window in windows]
            looked_at = (*hinted, *closed.get(family, ()))
            days = {day for span in looked_at for day in judged_days(judged.within(span))}
        served = self._run(self._moment.published(family, sorted(days)))
        definition = self._moment.definition(family)
        return moved(self._memory, family, sorted(days), served, definition)

    def _hints(self) -> list[Hint]:
        """The hints of windows that have begun."""
        return [hint for hint in self._memory.hints if hint.window < self._judged.end]

    def _is_everywhere(
        self, closed: Mapping[str, Collection[WindowSpan]], all_moved: Mapping[str, MovedDays]
    ) -> bool:
        # A new rule needs the stores at once, and not only in the first window that it judges:
        # from that moment on a store may be silent.
        return (
            bool(closed)
            or any(moved_days.days for moved_days in all_moved.values())
            or self._stores.lacks(self._rules.families)
        )

    def _has_unknown_stores(self) -> bool:
        """Whether a hint names a store that is not in the known stores of its family."""
        known = self._stores.of(self._memory.number)
        return any(
            hint.store_id not in known.get(hint.family, ())
            for hint in self._hints()
            if hint.family in self._rules.families
        )

    def _opens(self, store_id: str) -> bool:
        """Whether the stores file says when the store is open on the tick's day."""
        days = self._moment.days(store_id)
        return tells_hours(days, days.date(self._memory.tick.at))

    def _read_now(self, wanted: Sequence[ReadingWanted]) -> None:
        if missing := self._moment.missing(wanted):
            self._run(self._moment.read(missing))

    def _count_as_judged(self, chosen: Mapping[str, MovedDays], unfinished: Sequence[str]) -> None:
        memory = self._memory
        for family, moved_days in chosen.items():
            for day in moved_days.days:
                # By the generation that was read, even if another one serves by now.
                memory.mark_judged((family, day), moved_days.judged[day])
        memory.hints = {hint for hint in memory.hints if hint.window >= self._judged.end}
        memory.resolutions.clear()
        if memory.last.at // DAY_MILLIS < memory.tick.at // DAY_MILLIS:
            memory.forget_before(memory.tick.at - REMEMBERED)
        memory.close(unfinished)

    def _most_days(self, stores: FamilyStores, family: str) -> int:
        """The most days of the family that one pass judges in all stores; at least 1."""
        rules = [rule for rule in self._rules.rules if family in rule.families]
        if any(judged.carries_over for judged in rules):
            # A day makes all later days be judged too, so every part would judge them all again.
            return JUDGED_BACK // DAY_MILLIS + 1
        baselines = len({baseline for rule in rules for baseline in rule.usual})
        cost = _READ_AS_RULES + _USUAL_AS_RULES * baselines + len(rules)
        count = sum(1 for _ in stores.get(family, ()))
        return max(1, MOST_RULE_DAYS // max(1, cost * count))


def _judged_by_day(chosen: Mapping[str, MovedDays]) -> dict[FamilyDay, JudgedDay]:
    found: dict[FamilyDay, JudgedDay] = {}
    for family, moved_days in chosen.items():
        found |= {(family, day): moved_days.judged[day] for day in moved_days.days}
    return found


def _group_stores(
    named: Iterable[tuple[str, NamedDays]],
    wanted: Callable[[str, NamedDays], Iterable[ReadingWanted]],
) -> Iterator[_StoreGroup]:
    """The stores in order, in groups of as many as memory has room for, at least one store each."""
    group = _StoreGroup([], {})
    for store in named:
        group.stores.append(store)
        group.wanted.update(dict.fromkeys(wanted(*store)))
        # Collected for the whole group, so that reads are concurrent and not one for each fold.
        if len(group.wanted) >= _MOST_READINGS:
            yield group
            group = _StoreGroup([], {})
    yield group
