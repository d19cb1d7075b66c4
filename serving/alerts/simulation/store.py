"""One store: what a rule calls for on the windows that were asked for."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from serving.alerts.evaluator.calendar import WindowSpan
from serving.alerts.evaluator.judged_rules import JudgedRule, JudgedRules
from serving.alerts.evaluator.judgements import chain_of
from serving.alerts.evaluator.memory import PartitionMemory
from serving.alerts.evaluator.messages import told_threshold, told_value, usual_in
from serving.alerts.evaluator.moment import ReadingWanted
from serving.alerts.evaluator.partition import DAY_MILLIS
from serving.alerts.simulation.findings import (
    IncompleteDay,
    JudgedValue,
    SimulatedEpisode,
    SimulatedStore,
)
from serving.alerts.simulation.folds import StoreFolds, StoreReading
from tally.alerts.fold import Episode
from tally.alerts.ids import Chain
from tally.alerts.simulated import FoldedSpan
from tally.windows import WINDOW_MILLIS


class _AskedSpan(NamedTuple):
    """The windows that were asked for, and which of them and of those around are complete."""

    span: WindowSpan
    complete: Collection[int]


class StoreSimulation:
    """Judges one store by what is known of its partition; nothing of it is told."""

    def __init__(
        self, store_id: str, rules: JudgedRules, memory: PartitionMemory, reading: StoreReading
    ) -> None:
        self._store_id = store_id
        self._folds = StoreFolds(store_id, rules, memory, reading)

    def wanted(self, rule: JudgedRule, span: WindowSpan) -> list[ReadingWanted]:
        """What has to be read of the days of the span, and of the day before it."""
        before = max(0, span.start - DAY_MILLIS)
        around = WindowSpan(before, self._folds.end(rule, span))
        return [
            one
            for start in self._folds.starts(around)
            for one in self._folds.judgements.wanted(rule, self._store_id, start)
        ]

    def simulated(self, rule: JudgedRule, span: WindowSpan, most_lead: int) -> SimulatedStore:
        """The rule on the span, at all that it judges. Raises what reading raises."""
        folds = self._folds
        end = folds.end(rule, span)
        since, unsure = folds.begin(rule, WindowSpan(span.start, end), most_lead)
        whole = WindowSpan(since, end)
        chains = folds.chains(rule, whole)
        spans = {one.subject: self._span_of(rule, one, span, whole) for one in chains}
        asked = _AskedSpan(span, folds.complete(rule, whole))
        articles = folds.articles(rule, span)
        return SimulatedStore(
            self._store_id,
            spans,
            tuple(self._episodes(rule, chains, spans, asked)),
            tuple(self._incomplete(asked)),
            since,
            unsure,
            len(articles),
        )

    def others(
        self, rule: JudgedRule, found: SimulatedStore, span: WindowSpan, subjects: Iterable[str]
    ) -> dict[str, FoldedSpan]:
        """The subjects that nothing calls for, as found was folded: something was told of them."""
        whole = WindowSpan(found.since, self._folds.end(rule, span))
        chains = (chain_of(rule, self._store_id, one) for one in subjects)
        return {one.subject: self._span_of(rule, one, span, whole) for one in chains}

    def values(self, rule: JudgedRule, span: WindowSpan, subject: str) -> tuple[JudgedValue, ...]:
        """The subject's numbers in the windows of the span that have begun."""
        return tuple(
            JudgedValue(
                one.judgement.window,
                told_value(rule, one, subject) if one.is_whole else None,
            )
            for one in self._folds.judged(rule, span, subject)
            if one.judgement.window in span.windows
        )

    def _span_of(
        self, rule: JudgedRule, chain: Chain, span: WindowSpan, whole: WindowSpan
    ) -> FoldedSpan:
        # Of the days around too: an episode may have begun in them.
        folded = self._folds.folded(rule, chain, whole)
        is_cut = whole.end < self._folds.judgements.end
        return FoldedSpan(span.start, span.end, folded.episodes, folded.settled, is_cut)

    def _episodes(
        self,
        rule: JudgedRule,
        chains: Sequence[Chain],
        spans: Mapping[str, FoldedSpan],
        asked: _AskedSpan,
    ) -> list[SimulatedEpisode]:
        """Of all chains, by begin."""
        found = (
            self._told(rule, one, chain.subject, asked)
            for chain in chains
            for one in spans[chain.subject].asked
        )
        return sorted(found, key=lambda one: (one.episode.start, one.subject))

    def _told(
        self, rule: JudgedRule, episode: Episode, subject: str, asked: _AskedSpan
    ) -> SimulatedEpisode:
        place = self._store_id, episode.raised, subject
        window = self._folds.judgements.window(rule, *place)
        # What has ended behind the span is open at its end, however much of that was looked at.
        end = asked.span.end
        ended = None if episode.ended is None or episode.ended >= end else episode.ended
        begin = self._folds.days.day(episode.start).start
        until = min(end if ended is None else ended + WINDOW_MILLIS, end)
        # The one in force in that window, as in the message of an alert.
        by = window.version.rule if window and window.version else rule.versions[-1].rule
        value = told_value(rule, window, subject)
        return SimulatedEpisode(
            self._store_id,
            subject,
            structs.replace(episode, ended=ended),
            value,
            told_threshold(by, "raise", usual_in(window), value),
            all(one in asked.complete for one in WindowSpan(begin, until).windows),
        )

    def _incomplete(self, asked: _AskedSpan) -> Iterator[IncompleteDay]:
        # Of days that have not begun too: of them it is told as little.
        for start in self._folds.days.days_of(asked.span):
            day = self._folds.days.day(start).within(asked.span)
            if missing := sum(one not in asked.complete for one in day.windows):
                counts = missing, len(day.windows)
                date = self._folds.days.date(day.start)
                yield IncompleteDay(self._store_id, date, *day, *counts)
