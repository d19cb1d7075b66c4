"""One pass over a partition: what has come is looked at, judged, and counted as judged."""

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

# Runs to its end what reads.
Run = Callable[[Coroutine[Any, Any, Any]], Any]
# Rules times days of stores that one pass judges because of generations: what closes meanwhile
# waits for its end. What is left comes with the next tick.
MOST_RULE_DAYS = 500_000
# A day of a store is read once for all rules, in the time in which so many judge it; and so are the
# weeks before it, for what is usual.
_READ_AS_RULES, _USUAL_AS_RULES = 100, 2_000
# So many things, and what one store takes, are in memory together; so many are read side by side.
_MOST_READINGS, _MOST_AT_ONCE = 250, 50


class PassReading(NamedTuple):
    """What is read in a pass, and what runs the reading to its end."""

    moment: ViewsMoment
    stores: ActiveStores
    run: Run


class _SomeStores(NamedTuple):
    """Stores that are judged together, and all that has to be read for them."""

    stores: list[tuple[str, NamedDays]]
    wanted: dict[ReadingWanted, None]


class PartitionPass:
    """Looks at one partition. The memory has all as judged and told, to be stored or forgotten."""

    def __init__(self, rules: JudgedRules, memory: PartitionMemory, reading: PassReading) -> None:
        self._rules, self._memory = rules, memory
        self._moment, self._stores, self._run = reading
        self._judge = PartitionJudge(rules, memory, reading.moment, self._read_now)
        # Of the last window that has begun: what has not is not looked at yet.
        self._judged = WindowSpan(
            first_judged(memory), start_of_window(memory.tick.at) + WINDOW_MILLIS
        )

    def alerts(self) -> Iterator[list[Alert]]:
        """What is to be told, in its order, of a rule at a store at a time; nothing where some of
        what that takes was read.

        Between two of them all can be stored that was told so far, and the memory is to learn
        nothing. Raises ViewsUnreachable: what was not stored is to be forgotten then.
        """
        if not self._memory.tick.at:
            # Before the first tick nobody knows what time it is; with it all is judged anyway.
            self._memory.hints.clear()
            return
        closed = self._closed()
        all_moved = {family: self._moved(family, closed) for family in self._rules.families}
        if self._is_everywhere(closed, all_moved) or self._has_strangers():
            # After the pointers: who has rows in a generation is among its stores by then.
            self._run(self._stores.read(self._rules.families))
        active = self._stores.of(self._memory.number)
        begin_stores(self._memory, active)
        expected = self._stores.expected(self._memory.number, self._rules, self._opens)
        begin_expected(self._memory, expected)
        stores = all_stores(active, expected)
        chosen = {
            family: one.newest(self._most(stores, family)) for family, one in all_moved.items()
        }
        forced = force_ends(self._memory, self._rules)
        yield from unjudged_ends(self._memory, self._rules, forced)
        yield from self._told(stores, chosen, forced)
        unfinished = [one for one in chosen if chosen[one].days != all_moved[one].days]
        self._count_as_judged(chosen, unfinished)

    def _told(
        self,
        stores: FamilyStores,
        chosen: Mapping[str, MovedDays],
        forced: Sequence[ForcedWindow],
    ) -> Iterator[list[Alert]]:
        self._judge.judged_now = _judged_now(chosen)
        days = {family: one.everywhere for family, one in chosen.items()}
        causes = {family: one.causes for family, one in chosen.items()}
        ticks = self._memory.last, self._memory.tick
        since = Since(*ticks, self._hints(), days, self._judged)
        of_stores = named_days(since, self._rules.rules, stores, self._moment.days)
        named = with_forced(of_stores, forced, self._moment.days)
        for some in _some_at_a_time(named, self._judge.wanted):
            # A year of one store may take minutes to be read.
            for lot in chunks([*some.wanted], _MOST_AT_ONCE):
                self._read_now(lot)
                yield []
            for store_id, of_store in some.stores:
                yield from self._judge.judge(store_id, of_store, causes)
            self._moment.forget(store_id for store_id, _ in some.stores)

    def _closed(self) -> dict[str, set[WindowSpan]]:
        """By family the windows that the tick closes in all stores."""
        before, now = self._memory.last, self._memory.tick
        found: dict[str, set[WindowSpan]] = {}
        since: dict[Hashable, JudgedRule] = {}
        for rule in self._rules.rules:
            # Of those that close alike the one that was there first.
            first = since.setdefault(rule.delays, rule)
            since[rule.delays] = rule if rule.since < first.since else first
        for rule in since.values():
            judged = WindowSpan(max(rule.since, self._judged.start), self._judged.end)
            for families, span in closed_spans(rule, before, now):
                if (inside := judged.within(span)).windows:
                    for family in families:
                        found.setdefault(family, set()).add(inside)
        return found

    def _moved(self, family: str, closed: Mapping[str, Collection[WindowSpan]]) -> MovedDays:
        since = max(self._judged.start, self._rules.since(family))
        judged = WindowSpan(since, max(since, self._judged.end))
        if has_news(self._memory, family):
            days = {*judged_days(judged)}
        else:
            # Read for them anyway: if another generation serves by now, that is news too.
            hints = (one.window for one in self._hints() if one.family == family)
            hinted = [WindowSpan(one, one + 1) for one in hints]
            looked_at = (*hinted, *closed.get(family, ()))
            days = {day for span in looked_at for day in judged_days(judged.within(span))}
        served = self._run(self._moment.published(family, sorted(days)))
        definition = self._moment.definition(family)
        return moved(self._memory, family, sorted(days), served, definition)

    def _hints(self) -> list[Hint]:
        """Those of windows that have begun."""
        return [one for one in self._memory.hints if one.window < self._judged.end]

    def _is_everywhere(
        self, closed: Mapping[str, Collection[WindowSpan]], all_moved: Mapping[str, MovedDays]
    ) -> bool:
        # At once with a rule, and not with the first window that it judges: from then on a store
        # may be silent.
        return (
            bool(closed)
            or any(one.days for one in all_moved.values())
            or self._stores.lacks(self._rules.families)
        )

    def _has_strangers(self) -> bool:
        """Whether a hint is of a store of which nobody has heard."""
        known = self._stores.of(self._memory.number)
        return any(
            one.store_id not in known.get(one.family, ())
            for one in self._hints()
            if one.family in self._rules.families
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
        for family, one in chosen.items():
            for day in one.days:
                # Of the generation that was read, whichever serves by now.
                memory.mark_judged((family, day), one.judged[day])
        memory.hints = {one for one in memory.hints if one.window >= self._judged.end}
        memory.resolutions.clear()
        if memory.last.at // DAY_MILLIS < memory.tick.at // DAY_MILLIS:
            memory.forget_before(memory.tick.at - REMEMBERED)
        memory.close(unfinished)

    def _most(self, stores: FamilyStores, family: str) -> int:
        """Of how many days all stores of the family are judged in one pass; at least of one."""
        rules = [rule for rule in self._rules.rules if family in rule.families]
        if any(one.carries_over for one in rules):
            # With a day all behind it are judged too: some at a time would be all of them again.
            return JUDGED_BACK // DAY_MILLIS + 1
        usual = len({one for rule in rules for one in rule.usual})
        each = _READ_AS_RULES + _USUAL_AS_RULES * usual + len(rules)
        count = sum(1 for _ in stores.get(family, ()))
        return max(1, MOST_RULE_DAYS // max(1, each * count))


def _judged_now(chosen: Mapping[str, MovedDays]) -> dict[FamilyDay, JudgedDay]:
    found: dict[FamilyDay, JudgedDay] = {}
    for family, one in chosen.items():
        found |= {(family, day): one.judged[day] for day in one.days}
    return found


def _some_at_a_time(
    named: Iterable[tuple[str, NamedDays]],
    wanted: Callable[[str, NamedDays], Iterable[ReadingWanted]],
) -> Iterator[_SomeStores]:
    """The stores in their order: each time as many as there is memory for, at least one."""
    some = _SomeStores([], {})
    for one in named:
        some.stores.append(one)
        some.wanted.update(dict.fromkeys(wanted(*one)))
        # At once for all of them, and not one after the other where they are folded.
        if len(some.wanted) >= _MOST_READINGS:
            yield some
            some = _SomeStores([], {})
    yield some
