"""One store's days, folded at all that a rule judges from where nothing before them counts."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from typing import NamedTuple

from serving.alerts.evaluator.calendar import WindowSpan, utc_span
from serving.alerts.evaluator.grains import most_windows
from serving.alerts.evaluator.judged_rules import JudgedRule, JudgedRules
from serving.alerts.evaluator.judgements import (
    WHOLE_STORE,
    DayWindow,
    Judgements,
    ReadNow,
    chain_of,
)
from serving.alerts.evaluator.memory import PartitionMemory
from serving.alerts.evaluator.moment import ViewsMoment
from serving.alerts.evaluator.partition import DAY_MILLIS
from serving.alerts.evaluator.shelves import DayShelves
from serving.alerts.evaluator.stores import expected_key
from serving.alerts.simulation.articles import NO_ARTICLE, day_shelves, is_uncounted
from tally.alerts.days import DayLine, FoldedDays, refold
from tally.alerts.fold import AT_REST, JudgedStretch
from tally.alerts.fold_line import FoldLine
from tally.alerts.ids import Chain
from tally.alerts.simulated import rests_behind
from tally.alerts.told import ToldAlert
from tally.windows import WINDOW_MILLIS

# Days before the span that are looked at for where the rule was at rest, twice as many each time.
LEADS = tuple(1 << power for power in range(9))


class StoreReading(NamedTuple):
    """What is read by, and what reads more of it and comes back when it is there.

    `first_days`: by family the UTC day of the store's first event.
    """

    moment: ViewsMoment
    read_now: ReadNow
    first_days: Mapping[str, date]


class StoreFolds:
    """Folds by what is known of the store's partition, which it changes; nothing of it is told."""

    def __init__(
        self, store_id: str, rules: JudgedRules, memory: PartitionMemory, reading: StoreReading
    ) -> None:
        self._store_id, self._rules, self._memory = store_id, rules, memory
        self.days, self._reading = reading.moment.days(store_id), reading
        self.judgements = Judgements(rules, memory, reading.moment, reading.read_now)

    def end(self, rule: JudgedRule, span: WindowSpan) -> int:
        """End of the days that decide about the span: a run that has begun in it may go on."""
        longest = max(most_windows(one.rule) for one in rule.versions)
        last = self.days.day(span.end + (longest - 2) * WINDOW_MILLIS)
        return min(last.end, self.judgements.end)

    def begin(
        self, rule: JudgedRule, span: WindowSpan, most_lead: int
    ) -> tuple[int, frozenset[str]]:
        """Start of the day from which to fold, and the subjects to which may make a difference what
        was before.

        The rules that it waits for are folded from there on up to the end of the span too.
        """
        others = self._rules.behind(rule)
        search = _RestSearch((*others, rule), {}, {})
        at_rest = {one.rule_id: self._at_rest(one) for one in search.rules}
        # Before its first version nothing was judged, and before its first event no store is
        # silent: there it was at rest.
        first = min((*at_rest.values(), span.start))
        since = self.days.day(span.start).start
        for lead in (one for one in LEADS if one <= most_lead):
            since = self.days.day(max(0, span.start - lead * DAY_MILLIS, first)).start
            is_last = since <= first or 2 * lead > most_lead
            before = WindowSpan(since, self.days.day(span.start).start)
            self._read(rule, before)
            self._search(search, before, at_rest, is_last=is_last)
            if is_last or rule.rule_id in search.certain:
                break
        self.judgements.judge_anew()
        for other in others:
            self._fold_all(other, WindowSpan(since, span.end))
        return since, frozenset(search.unsure.get(rule.rule_id, ()))

    def _search(
        self,
        search: "_RestSearch",
        before: WindowSpan,
        at_rest: Mapping[str, int],
        *,
        is_last: bool,
    ) -> None:
        """Looks in the windows for where each rule that is not known to be at rest is so.

        Behind the others: who is held back by one of which nobody knows clears nothing for sure.
        """
        self.judgements.judge_anew()
        *_, last = search.rules
        for rule in search.rules:
            if rule.rule_id in search.certain:
                continue
            waited = self._rules.waits_for(rule, rule.unless)
            known = [search.certain.get(one.rule_id) for one in waited]
            # Farther back nobody looks: then they are taken to have been at rest.
            ends = [before.start if is_last and one is None else one for one in known]
            if None not in ends:
                certain = max((one for one in ends if one is not None), default=before.start)
                self._settle(search, rule, before, (certain, at_rest[rule.rule_id]))
            if rule is not last:
                self._fold_all(rule, before)

    def _settle(
        self, search: "_RestSearch", rule: JudgedRule, before: WindowSpan, since: tuple[int, int]
    ) -> None:
        """`since`: from when on the verdicts are certain, and up to when it was at rest anyway."""
        certain, at_rest = since
        if at_rest >= certain:
            search.certain[rule.rule_id] = before.start
            search.unsure.pop(rule.rule_id, None)
            return
        left = search.unsure.get(rule.rule_id)
        subjects = self._subjects(rule, before) if left is None else left
        found = self._resting(rule, before, subjects, certain)
        ends = [one for one in found.values() if one is not None]
        # Who has been at rest behind a day is so whatever was before that day.
        unsure = {one for one, end in found.items() if end is None}
        search.unsure[rule.rule_id] = unsure
        if not unsure:
            search.certain[rule.rule_id] = max(ends, default=before.start)

    def chains(self, rule: JudgedRule, span: WindowSpan) -> list[Chain]:
        """What the rule may call for on the days of the span; of articles one more, NO_ARTICLE."""
        found = self.judgements.chains(rule, self._store_id, self.starts(span))
        # It says up to where articles are settled, also where none of them runs out.
        return found + [chain_of(rule, self._store_id, NO_ARTICLE)] * rule.carries_over

    def folded(self, rule: JudgedRule, chain: Chain, span: WindowSpan) -> FoldedDays:
        """All days of the span in one go; the memory has the state at the start of each."""
        starts = self.starts(span)
        line = DayLine([*starts, span.end], FoldLine(), starts, 0)
        found = refold(line, _nothing_told, partial(self._judgements_of, rule, chain.subject))
        for states in found.states:
            self._memory.chains.set_days(chain, states, None)
        # All of them are named, so there is one stretch; none where no window has begun.
        nothing = FoldedDays(span.start, span.start, AT_REST, (), frozenset())
        return found.stretches[0] if found.stretches else nothing

    def judged(
        self, rule: JudgedRule, span: WindowSpan, subject: str = WHOLE_STORE
    ) -> Iterator[DayWindow]:
        """The windows of the days of the span that have begun."""
        for start in self.starts(span):
            yield from self.judgements.of_day(rule, self._store_id, start, subject)

    def complete(self, rule: JudgedRule, span: WindowSpan) -> frozenset[int]:
        """Starts of the windows that are served complete to the versions that judge them."""
        # Versions about the store say nothing of how articles are served, and the other way round.
        probes = (WHOLE_STORE, NO_ARTICLE) if rule.carries_over else (WHOLE_STORE,)
        each = (
            {
                one.judgement.window
                for one in self.judged(rule, span, subject)
                if one.judgement.is_complete
            }
            for subject in probes
        )
        return frozenset.intersection(*map(frozenset, each))

    def starts(self, span: WindowSpan) -> list[int]:
        """The local days that have a window in the span, by their starts."""
        return self.days.days_of(span.cut(self.judgements.end))

    def articles(self, rule: JudgedRule, span: WindowSpan) -> set[str]:
        """The articles that a rule of stock looks at on the days of the span."""
        return {subject for one in self._shelves(rule, span) for subject in one.subjects}

    def _shelves(self, rule: JudgedRule, span: WindowSpan) -> Iterator[DayShelves]:
        for start in self.starts(span) if rule.carries_over else ():
            self._reading.read_now([*self.judgements.wanted(rule, self._store_id, start)])
            day = self.judgements.span(self._store_id, start)
            yield from day_shelves(rule, self._reading.moment, self._store_id, day)

    def _resting(
        self, rule: JudgedRule, before: WindowSpan, subjects: Iterable[str], certain: int
    ) -> dict[str, int | None]:
        """By subject from which of the windows on it is at rest for sure, of those that begin at
        `certain` or later; None: of none."""
        shelves = [*self._shelves(rule, before)]
        rests: dict[Hashable, int | None] = {}
        found: dict[str, int | None] = {}
        for subject in subjects:
            # Articles that stood alike are judged alike, and most stand as many others do.
            key = subject == WHOLE_STORE, *(one.steps(subject) for one in shelves)
            if key not in rests:
                judged = self.judged(rule, before, subject)
                rests[key] = _rests_from(judged, subject, certain)
            found[subject] = rests[key]
        return found

    def _read(self, rule: JudgedRule, span: WindowSpan) -> None:
        for start in self.starts(span):
            self._reading.read_now([*self.judgements.wanted(rule, self._store_id, start)])

    def _subjects(self, rule: JudgedRule, span: WindowSpan) -> set[str]:
        """All that the rule looks at, whether it calls for anything or not."""
        found = self.articles(rule, span)
        return found | {WHOLE_STORE} if rule.judges_stores else found

    def _at_rest(self, rule: JudgedRule) -> int:
        """Up to when it is at rest whatever was there, ms since 1970 (UTC)."""
        return max(rule.since, self._first_event(rule))

    def _first_event(self, rule: JudgedRule) -> int:
        """Before it no window of the store can raise, ms since 1970 (UTC)."""
        found = []
        for family in rule.families:
            if day := self._reading.first_days.get(family):
                found.append(utc_span(day).start)
            # The evaluator may have seen it first, and events of earlier days after that.
            for key in (family, self._store_id), expected_key(family, self._store_id):
                silent = self._memory.silent_from.get(key)
                found += [] if silent is None else [silent]
        return min(found, default=0)

    def _fold_all(self, rule: JudgedRule, span: WindowSpan) -> None:
        """For whoever waits for it."""
        for chain in self.judgements.chains(rule, self._store_id, self.starts(span)):
            self.folded(rule, chain, span)

    def _judgements_of(self, rule: JudgedRule, subject: str, start: int) -> list[JudgedStretch]:
        return self.judgements.stretches(rule, chain_of(rule, self._store_id, subject), start)


def _nothing_told(_since: int) -> Iterable[ToldAlert]:
    return ()


class _RestSearch(NamedTuple):
    """A rule behind all that it waits for, in their order, and by rule what is known of it.

    `certain`: from which window on its state is certain; `unsure`: subjects of the others of which
    nobody knows whether an episode of before is open.
    """

    rules: Sequence[JudgedRule]
    certain: dict[str, int]
    unsure: dict[str, set[str]]


def _rests_from(judged: Iterable[DayWindow], subject: str, certain: int) -> int | None:
    known = [one for one in judged if one.counts and one.judgement.window >= certain]
    rests = rests_behind(one.judgement for one in known)
    # Of one that nobody has counted nothing is open.
    uncounted = (one.judgement.window for one in known if is_uncounted(one, subject))
    found = [one for one in (rests, next(uncounted, None)) if one is not None]
    return min(found) + WINDOW_MILLIS if found else None
