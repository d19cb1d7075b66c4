"""Simulates a rule in one store on the requested windows."""

from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from alerting.episodes.fold import Episode
from alerting.evaluate.snapshot.calendar import WindowSpan
from alerting.evaluate.snapshot.grains import max_run_windows
from alerting.evaluate.snapshot.snapshot_reader import ReadRequest
from alerting.evaluate.verdicts.messages import alert_value
from alerting.evaluate.verdicts.verdicts import WHOLE_STORE
from alerting.simulate.begin import find_begin
from alerting.simulate.findings import IncompleteDay, SimulatedEpisode, SimulatedStore, WindowValue
from alerting.simulate.runs import SimulatedRules, StoreRun, StoreSource
from tally.alerts.message import Alert
from tally.time.instants import DAY_MILLIS, parse_instant, to_millis
from tally.time.windows import WINDOW_MILLIS

# A chart shows no values if there are more subjects.
MAX_SUBJECTS_WITH_VALUES = 6


class StoreSimulation:
    """Simulates a rule in a store on a span of windows (milliseconds since 1970, UTC)."""

    def __init__(
        self, rules: SimulatedRules, source: StoreSource, span: WindowSpan, now: int
    ) -> None:
        self._rules, self._source, self._span, self._now = rules, source, span, now
        self._days = source.snapshot.days(source.store_id)
        # A run of windows that begins in the span may continue after it.
        longest = max(max_run_windows(version.rule) for version in rules.rule.versions)
        self._end = self._days.day(span.end + (longest - 2) * WINDOW_MILLIS).end

    def list_requests(self) -> list[ReadRequest]:
        """The readings needed for the days of the span and the day before it."""
        around = WindowSpan(max(0, self._span.start - DAY_MILLIS), self._end)
        return self._run(around).list_requests(self._rules.rule, around)

    def simulate(self, with_values: bool) -> SimulatedStore:
        """Simulate the rule for all its subjects. Raises what reading raises."""
        start = self._span.start
        since, is_certain = find_begin(self._rules, self._source, start, self._run)
        run = self._run(WindowSpan(since, self._end))
        alerts = run.alerts()
        complete = run.complete_windows()
        episodes = sorted(
            self._episodes(alerts, complete), key=lambda found: (found.episode.start, found.subject)
        )
        shelves = run.shelves(self._rules.rule, self._span)
        return SimulatedStore(
            self._source.store_id,
            tuple(episodes),
            tuple(self._incomplete_days(complete)),
            since,
            is_certain,
            len({subject for day in shelves for subject in day.subjects}),
            self._values(run, episodes) if with_values else {},
        )

    def _run(self, span: WindowSpan) -> StoreRun:
        return StoreRun(self._rules, self._source, span, self._now)

    def _episodes(
        self, alerts: Iterable[Alert], complete: Collection[int]
    ) -> Iterator[SimulatedEpisode]:
        """The episodes that are open in a window of the span and were raised before its end."""
        start, end = self._span
        for alert in alerts:
            if (alert.edge, alert.rule_id) != ("raise", self._rules.rule.rule_id):
                continue
            begun, raised = _millis(alert.episode.start), _millis(alert.window.start)
            ended = None if alert.episode.ended is None else _millis(alert.episode.ended)
            if raised >= end or (ended is not None and ended <= start):
                continue
            # An episode that ended after the span counts as open, however far the run went.
            ended = None if ended is None or ended >= end else ended
            until = min(end if ended is None else ended + WINDOW_MILLIS, end)
            whole = WindowSpan(self._days.day(begun).start, until)
            yield SimulatedEpisode(
                self._source.store_id,
                alert.subject,
                Episode(begun, raised, alert.rule_version, ended),
                alert.value,
                alert.threshold,
                all(window in complete for window in whole.windows),
            )

    def _incomplete_days(self, complete: Collection[int]) -> Iterator[IncompleteDay]:
        # Days that have not begun are reported too: they are just as incomplete.
        for start in self._days.day_starts(self._span):
            day = self._days.day(start).intersect(self._span)
            if missing := sum(window not in complete for window in day.windows):
                counts = missing, len(day.windows)
                date = self._days.date(day.start)
                yield IncompleteDay(self._source.store_id, date, *day, *counts)

    def _values(
        self, run: StoreRun, episodes: Iterable[SimulatedEpisode]
    ) -> dict[str, tuple[WindowValue, ...]]:
        """By subject the numbers of the store, or of the first articles with an episode."""
        rule = self._rules.rule
        subjects = dict.fromkeys([WHOLE_STORE] if rule.evaluates_stores else ())
        subjects |= dict.fromkeys(episode.subject for episode in episodes)
        return {
            subject: tuple(
                WindowValue(
                    window.verdict.window,
                    alert_value(rule, window, subject) if window.is_complete else None,
                )
                for window in run.windows(rule, self._span, subject)
                if window.verdict.window in self._span.windows
            )
            for subject in islice(subjects, MAX_SUBJECTS_WITH_VALUES)
        }


def _millis(text: str) -> int:
    return to_millis(parse_instant(text, "alert"))
