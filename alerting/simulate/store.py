"""Simulates a rule in one store, from a day on that no earlier one affects."""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from datetime import date
from itertools import islice
from typing import NamedTuple

from alerting.alert.ids import WHOLE_STORE, subject_text
from alerting.episodes.fold import Episode, WindowVerdict
from alerting.evaluate.scope.calendar import WindowSpan, max_run_windows, utc_span
from alerting.evaluate.scope.rule_set import RuleSet, VersionedRule
from alerting.evaluate.scope.scope import begin_missing_stores, begin_stores
from alerting.evaluate.snapshot.snapshot_reader import ReadRequest, SnapshotReader
from alerting.evaluate.snapshot.stock import DayShelves
from alerting.evaluate.snapshot.window_facts import DayWindow
from alerting.evaluate.state.memory import PartitionMemory
from alerting.evaluate.verdicts.store_evaluator import StoreEvaluator, alert_value
from alerting.evaluate.verdicts.verdicts import ReadNow, Verdicts
from tally.alerts.message import Alert
from tally.alerts.tick import Tick
from tally.time.instants import DAY_MILLIS, parse_instant, to_millis
from tally.time.windows import WINDOW_MILLIS

# An article without any document: its windows are served as completely as those of any other.
NO_ARTICLE = subject_text("item")
# A chart shows no values if there are more subjects.
MAX_SUBJECTS_WITH_VALUES = 6
# How many days before the span are searched for a point of rest; each step doubles the number.
_LEAD_DAYS = (1, 2, 4, 8, 16, 32)
# Most shops have an article that for weeks is neither out of stock nor plentiful; it stays unsure.
MAX_LEAD_DAYS_ARTICLES = 8


class SimulatedEpisode(NamedTuple):
    """An episode; its windows are given by their starts in milliseconds since 1970 (UTC).

    `value`: the number of the window that raised it, in the metric's unit; `threshold`: the number
    that it was compared with. `is_complete`: whether all windows from the begin of its first day to
    its end are served complete.
    """

    store_id: str
    subject: str
    episode: Episode
    value: float | None
    threshold: float | None
    is_complete: bool


class IncompleteDay(NamedTuple):
    """A local day with windows that are not served complete.

    `incomplete_windows`: their number, among the `requested_windows` requested windows of the day;
    these lie in [start, end), in milliseconds since 1970 (UTC).
    """

    store_id: str
    day: date
    start: int
    end: int
    incomplete_windows: int
    requested_windows: int


class WindowValue(NamedTuple):
    """The number by which the rule evaluated a window, in the metric's unit.

    `window`: its start, ms since 1970 (UTC). `value`: None if the window is not served complete,
    silent, or withheld.
    """

    window: int
    value: int | float | None


class SimulatedStore(NamedTuple):
    """A store's episodes in the requested span, and the parts of it that are uncertain.

    `since`: the first evaluated window, ms since 1970 (UTC). `is_certain`: whether no window before
    it could change the result. `articles`: how many articles a stock rule has looked at. `values`:
    by subject the values of the windows of the span, if they were requested.
    """

    store_id: str
    episodes: tuple[SimulatedEpisode, ...]
    incomplete_days: tuple[IncompleteDay, ...]
    since: int
    is_certain: bool
    articles: int = 0
    values: Mapping[str, tuple[WindowValue, ...]] = {}


class SimulatedRules(NamedTuple):
    """The simulated rule, together with all rules that it waits for."""

    rule: VersionedRule
    together: RuleSet

    @property
    def is_per_article(self) -> bool:
        """Whether the rule, or one that it waits for, evaluates articles one by one."""
        return any(rule.is_cumulative for rule in self.together.rules)


class StoreSource(NamedTuple):
    """A store, a snapshot of the views, and `read_now`, which returns once it has read more.

    `first_days`: the UTC day of the store's first event, by family. `missing`: the families of
    which the store should send data and never has.
    """

    store_id: str
    snapshot: SnapshotReader
    read_now: ReadNow
    first_days: Mapping[str, date]
    missing: frozenset[str]

    def first_event(self, rule: VersionedRule) -> int:
        """The store's first event, before which no window can raise, ms since 1970 (UTC)."""
        # A store that never sent although it should may have been silent since ever.
        if self.missing & rule.families:
            return 0
        days = (self.first_days[name] for name in rule.families if name in self.first_days)
        return min((utc_span(day).start for day in days), default=0)


class StoreRun:
    """The verdicts and alerts of a store on whole local days, up to the window of `now` at most.

    `span`: from the start of a day to the end of one; `now`: milliseconds since 1970 (UTC).
    """

    def __init__(
        self, rules: SimulatedRules, source: StoreSource, span: WindowSpan, now: int
    ) -> None:
        self._rules, self._source, self.span = rules, source, span
        # The tick says that no family was read: windows without a generation are not known.
        memory = PartitionMemory(0)
        memory.tick = Tick(at=min(now, span.end - WINDOW_MILLIS))
        store_id, days = source.store_id, source.first_days
        begin_stores(memory, {family: {store_id: day} for family, day in days.items()})
        begin_missing_stores(memory, dict.fromkeys(source.missing, (store_id,)), since=0)
        self._days = source.snapshot.days(store_id)
        self._verdicts = Verdicts(rules.together, memory, source.snapshot, source.read_now)
        self._evaluator = StoreEvaluator(
            rules.together, memory, self._verdicts, self._days, span.start
        )

    def alerts(self) -> list[Alert]:
        """The messages that the evaluator would publish, with the rules that the rule waits for.

        Called once; the verdicts of such rules are known only afterwards.
        """
        starts = self.day_starts(self.span)
        named = {rule.rule_id: starts for rule in self._rules.together.rules}
        return [alert for alerts in self._evaluator.evaluate(named, {}) for alert in alerts]

    def day_starts(self, span: WindowSpan) -> list[int]:
        """The local days that have a window in the span that has begun, by their starts."""
        return self._days.day_starts(span.cut_at(self._verdicts.end))

    def list_requests(self) -> list[ReadRequest]:
        """The readings needed to evaluate the simulated rule."""
        place = self._rules.rule, self._source.store_id
        starts = self.day_starts(self.span)
        return [read for day in starts for read in self._verdicts.list_requests(*place, day)]

    def windows(
        self, rule: VersionedRule, span: WindowSpan, subject: str = WHOLE_STORE
    ) -> Iterator[DayWindow]:
        """The windows that have begun on the days of the span."""
        for start in self.day_starts(span):
            yield from self._verdicts.day_windows(rule, self._source.store_id, start, subject)

    def list_covered_windows(self) -> frozenset[int]:
        """The starts of the windows that are covered for the versions that evaluate them."""
        rule = self._rules.rule
        # A version for whole stores does not show how articles are served, nor the reverse.
        probes = (WHOLE_STORE, NO_ARTICLE) if rule.is_cumulative else (WHOLE_STORE,)
        each = (
            (window.verdict for window in self.windows(rule, self.span, subject))
            for subject in probes
        )
        covered = [{found.window for found in verdicts if found.is_covered} for verdicts in each]
        return frozenset(set.intersection(*covered))

    def shelves(self, rule: VersionedRule, span: WindowSpan) -> Iterator[DayShelves]:
        """The articles that a stock rule looks at on the days of the span, day by day."""
        for start in self.day_starts(span) if rule.is_cumulative else ():
            store_id = self._source.store_id
            day = self._verdicts.read_day(rule, store_id, start)
            read = (reading.metrics.metric for reading in rule.split(day).readings)
            metrics = {metric.entry.id: metric for metric in read if metric.stock is not None}
            for metric in metrics.values():
                if shelves := self._source.snapshot.shelves(metric, store_id, day):
                    yield shelves

    def is_certain(self, *, is_last: bool) -> bool:
        """Whether the simulated rule is certainly at rest in some window, for every subject.

        `is_last`: nothing further back is searched.
        """
        # By rule the first window from which its state is certain. A rule comes after those that it
        # waits for: its verdicts are uncertain while theirs are.
        certain: dict[str, int] = {}
        for rule in self._rules.together.rules:
            waited = self._rules.together.find_dependencies(rule, rule.unless)
            # The awaited rules count as at rest where the search ends.
            begin = self.span.start if is_last else None
            ends = [certain.get(other.rule_id, begin) for other in waited]
            known_ends = [end for end in ends if end is not None]
            if len(known_ends) == len(ends):
                since = max(known_ends, default=self.span.start)
                if (window := self._find_rest(rule, since)) is not None:
                    certain[rule.rule_id] = window
        return self._rules.rule.rule_id in certain

    def _find_rest(self, rule: VersionedRule, certain: int) -> int | None:
        """The window from which all subjects are certainly at rest; None where one is not.

        Only windows from `certain` on are considered; both are milliseconds since 1970 (UTC).
        """
        if self._source.first_event(rule) >= certain:
            return self.span.start
        shelves = [*self.shelves(rule, self.span)]
        subjects = {subject for day in shelves for subject in day.subjects}
        rests: dict[Hashable, int | None] = {}
        for subject in subjects | ({WHOLE_STORE} if rule.evaluates_stores else set()):
            # Articles with equal stock levels are evaluated alike, and most have equals.
            key = subject == WHOLE_STORE, *(day.steps_for(subject) for day in shelves)
            if key not in rests:
                windows = self.windows(rule, self.span, subject)
                rests[key] = _find_subject_rest(windows, subject, certain)
        found = [window for window in rests.values() if window is not None]
        return max(found, default=self.span.start) if len(found) == len(rests) else None


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
        start = max(0, self._span.start - DAY_MILLIS)
        return self._run(start, self._end).list_requests()

    def simulate(self, with_values: bool) -> SimulatedStore:
        """Simulate the rule for all its subjects. Raises what reading raises."""
        since, is_certain = self._find_begin()
        run = self._run(since, self._end)
        alerts, covered = run.alerts(), run.list_covered_windows()
        found = self._episodes(alerts, covered)
        episodes = sorted(found, key=lambda each: (each.episode.start, each.subject))
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

    def _run(self, start: int, end: int) -> StoreRun:
        return StoreRun(self._rules, self._source, WindowSpan(start, end), self._now)

    def _find_begin(self) -> tuple[int, bool]:
        """The day to evaluate from (ms since 1970, UTC), and whether no earlier day can matter."""
        start = self._span.start
        most = MAX_LEAD_DAYS_ARTICLES if self._rules.is_per_article else _LEAD_DAYS[-1]
        # A store is at rest before its first event, when it cannot be silent.
        rules = self._rules.together.rules
        first = min((start, *map(self._source.first_event, rules)))
        for lead in _LEAD_DAYS:
            since = self._days.day(max(0, start - lead * DAY_MILLIS, first)).start
            is_last = since <= first or lead >= most
            lead_run = self._run(since, self._days.day(start).start)
            lead_run.alerts()
            is_certain = lead_run.is_certain(is_last=is_last)
            if is_certain or is_last:
                break
        return since, is_certain

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
                place = self._source.store_id, self._days.date(day.start)
                yield IncompleteDay(*place, *day, missing, len(day.windows))

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
                    alert_value(window, subject) if window.is_covered else None,
                )
                for window in run.windows(rule, self._span, subject)
                if window.verdict.window in self._span.windows
            )
            for subject in islice(subjects, MAX_SUBJECTS_WITH_VALUES)
        }


def _millis(text: str) -> int:
    return to_millis(parse_instant(text, "alert"))


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
