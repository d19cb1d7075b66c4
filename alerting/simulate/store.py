"""Simulates a rule in one store on the requested windows."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from alerting.alert.ids import Chain
from alerting.episodes.fold import Episode
from alerting.evaluate.scope.rule_set import RuleSet, VersionedRule
from alerting.evaluate.snapshot.calendar import WindowSpan
from alerting.evaluate.snapshot.snapshot_reader import ReadRequest
from alerting.evaluate.state.memory import PartitionMemory
from alerting.evaluate.verdicts.messages import alert_threshold, alert_value, find_baseline
from alerting.evaluate.verdicts.verdicts import build_chain
from alerting.simulate.comparison import ComparisonSpan
from alerting.simulate.findings import IncompleteDay, SimulatedEpisode, SimulatedStore, WindowValue
from alerting.simulate.folds import StoreFolds, StoreReading
from tally.time.instants import DAY_MILLIS
from tally.time.windows import WINDOW_MILLIS


class _RequestedSpan(NamedTuple):
    """The requested windows, and the complete windows among them and around them."""

    span: WindowSpan
    complete: Collection[int]


class StoreSimulation:
    """Judges one store with the memory of its partition; no alert is sent."""

    def __init__(
        self, store_id: str, rules: RuleSet, memory: PartitionMemory, reading: StoreReading
    ) -> None:
        self._store_id = store_id
        self._folds = StoreFolds(store_id, rules, memory, reading)

    def list_requests(self, rule: VersionedRule, span: WindowSpan) -> list[ReadRequest]:
        """The readings needed for the days of the span and the day before it."""
        before = max(0, span.start - DAY_MILLIS)
        around = WindowSpan(before, self._folds.decisive_end(rule, span))
        return [
            reading
            for start in self._folds.day_starts(around)
            for reading in self._folds.verdicts.list_requests(rule, self._store_id, start)
        ]

    def simulate(self, rule: VersionedRule, span: WindowSpan, most_lead: int) -> SimulatedStore:
        """Simulate the rule on the span for all its subjects. Raises what reading raises."""
        folds = self._folds
        end = folds.decisive_end(rule, span)
        since, unsure = folds.find_start(rule, WindowSpan(span.start, end), most_lead)
        whole = WindowSpan(since, end)
        chains = folds.list_chains(rule, whole)
        spans = {chain.subject: self._fold_span(rule, chain, span, whole) for chain in chains}
        requested = _RequestedSpan(span, folds.complete_windows(rule, whole))
        articles = folds.articles(rule, span)
        return SimulatedStore(
            self._store_id,
            spans,
            tuple(self._episodes(rule, chains, spans, requested)),
            tuple(self._incomplete_days(requested)),
            since,
            unsure,
            len(articles),
        )

    def fold_others(
        self, rule: VersionedRule, found: SimulatedStore, span: WindowSpan, subjects: Iterable[str]
    ) -> dict[str, ComparisonSpan]:
        """Fold further subjects over the windows of `found`: alerts of them were sent."""
        whole = WindowSpan(found.since, self._folds.decisive_end(rule, span))
        chains = (build_chain(rule, self._store_id, subject) for subject in subjects)
        return {chain.subject: self._fold_span(rule, chain, span, whole) for chain in chains}

    def values(
        self, rule: VersionedRule, span: WindowSpan, subject: str
    ) -> tuple[WindowValue, ...]:
        """The subject's values in the windows of the span that have begun."""
        return tuple(
            WindowValue(
                window.verdict.window,
                alert_value(rule, window, subject) if window.is_complete else None,
            )
            for window in self._folds.evaluate_windows(rule, span, subject)
            if window.verdict.window in span.windows
        )

    def _fold_span(
        self, rule: VersionedRule, chain: Chain, span: WindowSpan, whole: WindowSpan
    ) -> ComparisonSpan:
        # The days around are folded too, because an episode may have begun in them.
        folded = self._folds.fold_chain(rule, chain, whole)
        is_cut = whole.end < self._folds.verdicts.end
        return ComparisonSpan(span.start, span.end, folded.episodes, folded.settled, is_cut)

    def _episodes(
        self,
        rule: VersionedRule,
        chains: Sequence[Chain],
        spans: Mapping[str, ComparisonSpan],
        requested: _RequestedSpan,
    ) -> list[SimulatedEpisode]:
        """The episodes of all chains, sorted by begin."""
        found = (
            self._build_episode(rule, episode, chain.subject, requested)
            for chain in chains
            for episode in spans[chain.subject].episodes_in_span
        )
        return sorted(found, key=lambda entry: (entry.episode.start, entry.subject))

    def _build_episode(
        self, rule: VersionedRule, episode: Episode, subject: str, requested: _RequestedSpan
    ) -> SimulatedEpisode:
        place = self._store_id, episode.raised, subject
        window = self._folds.verdicts.find_window(rule, *place)
        # An episode that ended after the span counts as open, however far the folds went.
        end = requested.span.end
        ended = None if episode.ended is None or episode.ended >= end else episode.ended
        begin = self._folds.days.day(episode.start).start
        until = min(end if ended is None else ended + WINDOW_MILLIS, end)
        # The rule version in force in that window, as in the message of an alert.
        rule_in_force = window.version.rule if window and window.version else rule.versions[-1].rule
        value = alert_value(rule, window, subject)
        return SimulatedEpisode(
            self._store_id,
            subject,
            structs.replace(episode, ended=ended),
            value,
            alert_threshold(rule_in_force, "raise", find_baseline(window), value),
            all(start in requested.complete for start in WindowSpan(begin, until).windows),
        )

    def _incomplete_days(self, requested: _RequestedSpan) -> Iterator[IncompleteDay]:
        # Days that have not begun are reported too: they are just as incomplete.
        for start in self._folds.days.day_starts(requested.span):
            day = self._folds.days.day(start).intersect(requested.span)
            if missing := sum(window not in requested.complete for window in day.windows):
                counts = missing, len(day.windows)
                date = self._folds.days.date(day.start)
                yield IncompleteDay(self._store_id, date, *day, *counts)
