"""Simulates a rule in one store, from a day on that no earlier one affects."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from itertools import islice

from alerting.alert.ids import WHOLE_STORE
from alerting.episodes.fold import Episode, WindowVerdict
from alerting.evaluate.scope.rule_set import VersionedRule
from alerting.evaluate.snapshot.calendar import WindowSpan, utc_span
from alerting.evaluate.snapshot.grains import max_run_windows
from alerting.evaluate.snapshot.snapshot_reader import ReadRequest
from alerting.evaluate.snapshot.window_facts import DayWindow
from alerting.evaluate.verdicts.messages import alert_value
from alerting.simulate.findings import IncompleteDay, SimulatedEpisode, SimulatedStore, WindowValue
from alerting.simulate.runs import SimulatedRules, StoreRun, StoreSource
from tally.alerts.message import Alert
from tally.time.instants import DAY_MILLIS, parse_instant, to_millis
from tally.time.windows import WINDOW_MILLIS

# A chart shows no values if there are more subjects.
MAX_SUBJECTS_WITH_VALUES = 6
# How many days before the span are searched for a point of rest; each step doubles the number.
_LEAD_DAYS = (1, 2, 4, 8, 16, 32)
# Most shops have an article that for weeks is neither out of stock nor plentiful; it stays unsure.
MAX_LEAD_DAYS_ARTICLES = 8
# Evaluates the days of a span.
RunSpan = Callable[[WindowSpan], StoreRun]


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
        covered = run.list_covered_windows()
        episodes = sorted(
            self._episodes(alerts, covered), key=lambda found: (found.episode.start, found.subject)
        )
        shelves = run.shelves(self._rules.rule, self._span)
        return SimulatedStore(
            self._source.store_id,
            tuple(episodes),
            tuple(self._incomplete_days(covered)),
            since,
            is_certain,
            len({subject for day in shelves for subject in day.subjects}),
            self._values(run, episodes) if with_values else {},
        )

    def _run(self, span: WindowSpan) -> StoreRun:
        return StoreRun(self._rules, self._source, span, self._now)

    def _episodes(
        self, alerts: Iterable[Alert], covered: Collection[int]
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
                all(window in covered for window in whole.windows),
            )

    def _incomplete_days(self, covered: Collection[int]) -> Iterator[IncompleteDay]:
        # Days that have not begun are reported too: they are not covered either.
        for start in self._days.day_starts(self._span):
            day = self._days.day(start).intersect(self._span)
            if missing := sum(window not in covered for window in day.windows):
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
                    alert_value(rule, window, subject) if window.is_covered else None,
                )
                for window in run.windows(rule, self._span, subject)
                if window.verdict.window in self._span.windows
            )
            for subject in islice(subjects, MAX_SUBJECTS_WITH_VALUES)
        }


def _millis(text: str) -> int:
    return to_millis(parse_instant(text, "alert"))


def find_begin(
    rules: SimulatedRules, source: StoreSource, start: int, run: RunSpan
) -> tuple[int, bool]:
    """The start of the day to evaluate from, and whether no day before it can change the result.

    `start`: the start of the first requested window, milliseconds since 1970 (UTC).
    """
    days = source.snapshot.days(source.store_id)
    begin = days.day(start).start
    most = MAX_LEAD_DAYS_ARTICLES if rules.is_per_article else _LEAD_DAYS[-1]
    # A store is at rest before its first event, when it cannot be silent.
    first_events = (_first_event(rule, source) for rule in rules.together.rules)
    first = min((start, *first_events))
    for lead in _LEAD_DAYS:
        since = days.day(max(0, start - lead * DAY_MILLIS, first)).start
        is_last = since <= first or lead >= most
        lead_run = run(WindowSpan(since, begin))
        lead_run.alerts()
        is_certain = _Search(rules, source, lead_run, is_last).is_certain()
        if is_certain or is_last:
            break
    return since, is_certain


def find_idle_window(verdicts: Iterable[WindowVerdict]) -> int | None:
    """The start of the first window (ms since 1970, UTC) after which a fold is at rest.

    This holds for any state before the windows; None where there is no such window. The fold is at
    rest after `clear_for` windows in a row that clear: an episode ends there at the latest, and a
    run of windows that raise is broken.
    """
    run = 0
    # Windows that raise are no such proof, because an open episode may have begun before them.
    for verdict in verdicts:
        run = run + 1 if verdict.verdict == -1 else 0
        if run and run >= verdict.clear_for:
            return verdict.window
    return None


class _Search:
    """Searches the days before the span for a point of rest of each rule.

    A rule comes after those that it waits for: its verdicts are uncertain while theirs are.
    """

    def __init__(
        self, rules: SimulatedRules, source: StoreSource, run: StoreRun, is_last: bool
    ) -> None:
        self._rules, self._source, self._run, self._is_last = rules, source, run, is_last

    def is_certain(self) -> bool:
        """Whether the rule is certainly at rest in some window, for every subject."""
        # By rule the first window from which its state is certain.
        certain: dict[str, int] = {}
        for rule in self._rules.together.rules:
            waited = self._rules.together.find_dependencies(rule, rule.unless)
            known = [certain.get(other.rule_id) for other in waited]
            # Nothing further back is searched: the awaited rules count as at rest there.
            begin = self._run.span.start if self._is_last else None
            ends = [begin if window is None else window for window in known]
            if None not in ends:
                known_ends = (end for end in ends if end is not None)
                since = max(known_ends, default=self._run.span.start)
                if (window := self._find_rest(rule, since)) is not None:
                    certain[rule.rule_id] = window
        return self._rules.rule.rule_id in certain

    def _find_rest(self, rule: VersionedRule, certain: int) -> int | None:
        """The window from which all subjects are certainly at rest; None where one is not.

        Only windows that begin at `certain` or later are considered. All are milliseconds since
        1970 (UTC).
        """
        if _first_event(rule, self._source) >= certain:
            return self._run.span.start
        before = self._run.span
        shelves = [*self._run.shelves(rule, before)]
        subjects = {subject for day in shelves for subject in day.subjects}
        rests: dict[Hashable, int | None] = {}
        for subject in subjects | ({WHOLE_STORE} if rule.evaluates_stores else set()):
            # Articles with equal stock levels are evaluated alike, and most have equals.
            key = subject == WHOLE_STORE, *(day.steps_for(subject) for day in shelves)
            if key not in rests:
                windows = self._run.windows(rule, before, subject)
                rests[key] = _find_subject_rest(windows, subject, certain)
        found = [window for window in rests.values() if window is not None]
        return max(found, default=before.start) if len(found) == len(rests) else None


def _first_event(rule: VersionedRule, source: StoreSource) -> int:
    """The store's first event, before which no window can raise, ms since 1970 (UTC)."""
    # A store that never sent although it should may have been silent since ever.
    if source.missing & rule.families:
        return 0
    days = (source.first_days[name] for name in rule.families if name in source.first_days)
    return min((utc_span(day).start for day in days), default=0)


def _find_subject_rest(windows: Iterable[DayWindow], subject: str, certain: int) -> int | None:
    known = [window for window in windows if window.counts and window.verdict.window >= certain]
    rests = find_idle_window(window.verdict for window in known)
    # An article that was never counted has no open episode.
    uncounted = (window.verdict.window for window in known if _is_never_counted(window, subject))
    found = [start for start in (rests, next(uncounted, None)) if start is not None]
    return min(found) + WINDOW_MILLIS if found else None


def _is_never_counted(window: DayWindow, subject: str) -> bool:
    """Whether the article was certainly never counted so far, so that no alert of it is open."""
    if window.cells is None or window.cells.metric.shelves is None:
        return False
    reached = window.cells.metric.shelves.levels(subject)
    # In a window that is not covered, the receipts may be missing instead.
    return window.verdict.is_covered and (reached is None or reached.level is None)
