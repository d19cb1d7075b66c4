"""One store's days, folded at all that a rule judges from where nothing before them counts."""

from collections.abc import Iterator, Mapping
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
from serving.alerts.evaluator.stores import expected_key
from serving.alerts.simulation.articles import NO_ARTICLE, SimulatedArticles, is_uncounted
from tally.alerts.days import DayLine, FoldedDays, refold
from tally.alerts.fold import AT_REST, JudgedStretch
from tally.alerts.ids import Chain
from tally.alerts.simulated import rests_for_sure
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

        The rules that it waits for are folded up to the end of the span too, each from its own.
        """
        rest = max(rule.since, self._first_event(rule))
        since, unsure = span.start, frozenset[str]()
        leads = [one for one in LEADS if one <= most_lead]
        for lead in leads:
            earliest = max(0, span.start - lead * DAY_MILLIS, min(rest, span.start))
            since = self.days.day(earliest).start
            for other in self._rules.waits_for(rule, rule.unless):
                begin, _ = self.begin(other, WindowSpan(since, span.end), most_lead)
                self._fold_all(other, WindowSpan(begin, span.end))
            # Before its first version nothing was judged, and before its first event no store is
            # silent: there it was at rest.
            if since <= rest:
                return since, frozenset()
            before = WindowSpan(since, self.days.day(span.start).start)
            # Who has been at rest behind a day is so whatever was before that day.
            left = self._subjects(rule, before) if lead == leads[0] else unsure
            unsure = frozenset(one for one in left if not self._rests(rule, before, one))
            if not unsure:
                break
        return since, unsure

    def chains(self, rule: JudgedRule, span: WindowSpan) -> list[Chain]:
        """What the rule may call for on the days of the span; of articles one more, NO_ARTICLE."""
        found = self.judgements.chains(rule, self._store_id, self.starts(span))
        # It says up to where articles are settled, also where none of them runs out.
        return found + [chain_of(rule, self._store_id, NO_ARTICLE)] * rule.carries_over

    def folded(self, rule: JudgedRule, chain: Chain, span: WindowSpan) -> FoldedDays:
        """All days of the span in one go; the memory has the state at the start of each."""
        starts = self.starts(span)
        line = DayLine([*starts, span.end], {}, starts, 0)
        found = refold(line, (), partial(self._judgements_of, rule, chain.subject))
        for start in starts:
            self._memory.begin_day(chain, start, found.states.get(start, AT_REST))
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

    def articles(self, rule: JudgedRule, span: WindowSpan) -> SimulatedArticles:
        """The articles that a rule of stock looks at on the days of the span."""
        found = SimulatedArticles()
        for start in self.starts(span) if rule.carries_over else ():
            self._reading.read_now([*self.judgements.wanted(rule, self._store_id, start)])
            day = self.judgements.span(self._store_id, start)
            found.add(rule, self._reading.moment, self._store_id, day)
        return found

    def _rests(self, rule: JudgedRule, before: WindowSpan, subject: str) -> bool:
        """Whether it is at rest behind the windows, whatever came before them."""
        judged = [*self.judged(rule, before, subject)]
        return rests_for_sure(one.judgement for one in judged if one.counts) or any(
            is_uncounted(one, subject) for one in judged
        )

    def _subjects(self, rule: JudgedRule, span: WindowSpan) -> set[str]:
        """All that the rule looks at, whether it calls for anything or not."""
        found = {*self.articles(rule, span).looked_at}
        return found | {WHOLE_STORE} if rule.judges_stores else found

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
