"""Folds one store's days for all subjects of a rule, from a day on that no earlier one affects."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from typing import NamedTuple

from alerting.alert.ids import Chain
from alerting.alert.published import PublishedAlert
from alerting.episodes.affected_days import ChainDays, FoldedDays, refold
from alerting.episodes.fold import IDLE_STATE, VerdictRange
from alerting.episodes.fold_line import FoldTimeline
from alerting.evaluate.scope.rule_set import RuleSet, VersionedRule
from alerting.evaluate.scope.stores import missing_store_key
from alerting.evaluate.snapshot.calendar import WindowSpan, utc_span
from alerting.evaluate.snapshot.grains import max_run_windows
from alerting.evaluate.snapshot.shelves import DayShelves
from alerting.evaluate.snapshot.snapshot_reader import SnapshotReader
from alerting.evaluate.state.memory import PartitionMemory
from alerting.evaluate.verdicts.verdicts import (
    WHOLE_STORE,
    DayWindow,
    ReadNow,
    Verdicts,
    build_chain,
)
from alerting.simulate.articles import NO_ARTICLE, day_shelves, is_never_counted
from alerting.simulate.comparison import find_idle_window
from tally.time.instants import DAY_MILLIS
from tally.time.windows import WINDOW_MILLIS

# How many days before the span are searched for a point of rest; each step doubles the number.
LEAD_DAYS = tuple(1 << power for power in range(9))


class StoreReading(NamedTuple):
    """The views of one moment, and `read_now`, which reads more of them and returns once it has.

    `first_days`: the UTC day of the store's first event, by family.
    """

    snapshot: SnapshotReader
    read_now: ReadNow
    first_days: Mapping[str, date]


class StoreFolds:
    """Folds a store with the memory of its partition, which it changes; no alert is sent."""

    def __init__(
        self, store_id: str, rules: RuleSet, memory: PartitionMemory, reading: StoreReading
    ) -> None:
        self._store_id, self._rules, self._memory = store_id, rules, memory
        self.days, self._reading = reading.snapshot.days(store_id), reading
        self.verdicts = Verdicts(rules, memory, reading.snapshot, reading.read_now)

    def decisive_end(self, rule: VersionedRule, span: WindowSpan) -> int:
        """The end of the days that decide about the span: a run begun in it may continue."""
        longest = max(max_run_windows(version.rule) for version in rule.versions)
        last = self.days.day(span.end + (longest - 2) * WINDOW_MILLIS)
        return min(last.end, self.verdicts.end)

    def find_start(
        self, rule: VersionedRule, span: WindowSpan, most_lead: int
    ) -> tuple[int, frozenset[str]]:
        """The start of the day to fold from, and the subjects that earlier days may still affect.

        The rules that the rule waits for are folded over the same days, to the end of the span.
        """
        others = self._rules.all_dependencies(rule)
        search = _IdleSearch((*others, rule), {}, {})
        at_rest = {known.rule_id: self._idle_until(known) for known in search.rules}
        # A rule is at rest before its first version, when nothing was judged, and before the first
        # event of the store, when the store cannot be silent.
        first = min((*at_rest.values(), span.start))
        since = self.days.day(span.start).start
        for lead in (days for days in LEAD_DAYS if days <= most_lead):
            since = self.days.day(max(0, span.start - lead * DAY_MILLIS, first)).start
            is_last = since <= first or 2 * lead > most_lead
            before = WindowSpan(since, self.days.day(span.start).start)
            self._read(rule, before)
            self._search_idle(search, before, at_rest, is_last=is_last)
            if is_last or rule.rule_id in search.certain:
                break
        self.verdicts.drop_dependent()
        for other in others:
            self._fold_chains(other, WindowSpan(since, span.end))
        return since, frozenset(search.uncertain.get(rule.rule_id, ()))

    def _search_idle(
        self,
        search: "_IdleSearch",
        before: WindowSpan,
        at_rest: Mapping[str, int],
        *,
        is_last: bool,
    ) -> None:
        """Search the windows for a point of rest of each rule that has none yet.

        A rule comes after those that it waits for: its verdicts are uncertain while theirs are.
        """
        self.verdicts.drop_dependent()
        *_, last = search.rules
        for rule in search.rules:
            if rule.rule_id in search.certain:
                continue
            waited = self._rules.find_dependencies(rule, rule.unless)
            known = [search.certain.get(awaited.rule_id) for awaited in waited]
            # The last step searches no further back: the awaited rules count as at rest there.
            ends = [before.start if is_last and window is None else window for window in known]
            if None not in ends:
                certain = max((end for end in ends if end is not None), default=before.start)
                self._record_idle(search, rule, before, (certain, at_rest[rule.rule_id]))
            if rule is not last:
                self._fold_chains(rule, before)

    def _record_idle(
        self, search: "_IdleSearch", rule: VersionedRule, before: WindowSpan, since: tuple[int, int]
    ) -> None:
        """Note the subjects at rest; `since`: start of certain verdicts, end of sure rest (ms)."""
        certain, at_rest = since
        if at_rest >= certain:
            search.certain[rule.rule_id] = before.start
            search.uncertain.pop(rule.rule_id, None)
            return
        known_unsure = search.uncertain.get(rule.rule_id)
        subjects = self._subjects(rule, before) if known_unsure is None else known_unsure
        found = self._find_idle_windows(rule, before, subjects, certain)
        rest_windows = [window for window in found.values() if window is not None]
        # A subject that was at rest within these days is independent of all earlier days.
        unsure = {subject for subject, end in found.items() if end is None}
        search.uncertain[rule.rule_id] = unsure
        if not unsure:
            search.certain[rule.rule_id] = max(rest_windows, default=before.start)

    def list_chains(self, rule: VersionedRule, span: WindowSpan) -> list[Chain]:
        """The chains that the rule may call for on the span; plus NO_ARTICLE for a stock rule."""
        found = self.verdicts.list_chains(rule, self._store_id, self.day_starts(span))
        # NO_ARTICLE shows up to where articles are settled, even if none of them runs out.
        return found + [build_chain(rule, self._store_id, NO_ARTICLE)] * rule.is_cumulative

    def fold_chain(self, rule: VersionedRule, chain: Chain, span: WindowSpan) -> FoldedDays:
        """Fold all days of the span at once; the memory gets the state at the start of each day."""
        starts = self.day_starts(span)
        line = ChainDays([*starts, span.end], FoldTimeline(), starts, 0)
        found = refold(line, _no_alerts, partial(self._read_verdicts, rule, chain.subject))
        for states in found.states:
            self._memory.chains.set_days(chain, states, None)
        # All days are named, so there is one stretch; there is none if no window has begun.
        nothing = FoldedDays(span.start, span.start, IDLE_STATE, (), frozenset())
        return found.stretches[0] if found.stretches else nothing

    def evaluate_windows(
        self, rule: VersionedRule, span: WindowSpan, subject: str = WHOLE_STORE
    ) -> Iterator[DayWindow]:
        """The windows that have begun on the days of the span."""
        for start in self.day_starts(span):
            yield from self.verdicts.day_windows(rule, self._store_id, start, subject)

    def complete_windows(self, rule: VersionedRule, span: WindowSpan) -> frozenset[int]:
        """The starts of the windows that are served complete to the versions that judge them."""
        # A version for whole stores does not show how articles are served, nor the reverse.
        probes = (WHOLE_STORE, NO_ARTICLE) if rule.is_cumulative else (WHOLE_STORE,)
        complete = (
            {
                window.verdict.window
                for window in self.evaluate_windows(rule, span, subject)
                if window.verdict.is_complete
            }
            for subject in probes
        )
        return frozenset.intersection(*map(frozenset, complete))

    def day_starts(self, span: WindowSpan) -> list[int]:
        """The local days that have a window in the span, by their starts."""
        return self.days.day_starts(span.cut_at(self.verdicts.end))

    def articles(self, rule: VersionedRule, span: WindowSpan) -> set[str]:
        """The articles that a stock rule looks at on the days of the span."""
        return {subject for shelves in self._shelves(rule, span) for subject in shelves.subjects}

    def _shelves(self, rule: VersionedRule, span: WindowSpan) -> Iterator[DayShelves]:
        for start in self.day_starts(span) if rule.is_cumulative else ():
            self._reading.read_now([*self.verdicts.list_requests(rule, self._store_id, start)])
            day = self.verdicts.span(self._store_id, start)
            yield from day_shelves(rule, self._reading.snapshot, self._store_id, day)

    def _find_idle_windows(
        self, rule: VersionedRule, before: WindowSpan, subjects: Iterable[str], certain: int
    ) -> dict[str, int | None]:
        """By subject the first window from which it is certainly at rest; None if there is none.

        Only windows that begin at `certain` (ms since 1970, UTC) or later are considered.
        """
        shelves = [*self._shelves(rule, before)]
        rests: dict[Hashable, int | None] = {}
        found: dict[str, int | None] = {}
        for subject in subjects:
            # Articles with equal stock levels are judged alike, and most have equals.
            key = subject == WHOLE_STORE, *(day.steps_for(subject) for day in shelves)
            if key not in rests:
                judged = self.evaluate_windows(rule, before, subject)
                rests[key] = _find_idle_window(judged, subject, certain)
            found[subject] = rests[key]
        return found

    def _read(self, rule: VersionedRule, span: WindowSpan) -> None:
        for start in self.day_starts(span):
            self._reading.read_now([*self.verdicts.list_requests(rule, self._store_id, start)])

    def _subjects(self, rule: VersionedRule, span: WindowSpan) -> set[str]:
        """All subjects that the rule looks at, whether it calls for anything or not."""
        found = self.articles(rule, span)
        return found | {WHOLE_STORE} if rule.evaluates_stores else found

    def _idle_until(self, rule: VersionedRule) -> int:
        """Up to when the rule is at rest in any case, ms since 1970 (UTC)."""
        return max(rule.since, self._first_event_millis(rule))

    def _first_event_millis(self, rule: VersionedRule) -> int:
        """The store's first event, before which no window can raise, ms since 1970 (UTC)."""
        found = []
        for family in rule.families:
            if day := self._reading.first_days.get(family):
                found.append(utc_span(day).start)
            # The evaluator may have seen the store first, and older events may have come later.
            for key in (family, self._store_id), missing_store_key(family, self._store_id):
                silent = self._memory.silent_from.get(key)
                found += [] if silent is None else [silent]
        return min(found, default=0)

    def _fold_chains(self, rule: VersionedRule, span: WindowSpan) -> None:
        """Fold all chains of a rule that others wait for."""
        for chain in self.verdicts.list_chains(rule, self._store_id, self.day_starts(span)):
            self.fold_chain(rule, chain, span)

    def _read_verdicts(self, rule: VersionedRule, subject: str, start: int) -> list[VerdictRange]:
        return self.verdicts.stretches(rule, build_chain(rule, self._store_id, subject), start)


def _no_alerts(_since: int) -> Iterable[PublishedAlert]:
    return ()


class _IdleSearch(NamedTuple):
    """A rule after all rules that it waits for, in their order, and the findings for each rule.

    `certain`: the first window from which its state is certain; `uncertain`: for the other rules,
    the subjects that may still have an open episode from before.
    """

    rules: Sequence[VersionedRule]
    certain: dict[str, int]
    uncertain: dict[str, set[str]]


def _find_idle_window(judged: Iterable[DayWindow], subject: str, certain: int) -> int | None:
    known = [window for window in judged if window.counts and window.verdict.window >= certain]
    rests = find_idle_window(window.verdict for window in known)
    # An article that was never counted has no open episode.
    uncounted = (window.verdict.window for window in known if is_never_counted(window, subject))
    found = [start for start in (rests, next(uncounted, None)) if start is not None]
    return min(found) + WINDOW_MILLIS if found else None
