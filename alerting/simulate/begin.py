"""The day from which a store is judged, so that no earlier day can change the result."""

from collections.abc import Callable, Hashable, Iterable

from alerting.episodes.fold import WindowVerdict
from alerting.evaluate.scope.rule_set import VersionedRule
from alerting.evaluate.snapshot.calendar import WindowSpan, utc_span
from alerting.evaluate.verdicts.verdicts import WHOLE_STORE, DayWindow
from alerting.simulate.runs import SimulatedRules, StoreRun, StoreSource
from tally.time.instants import DAY_MILLIS
from tally.time.windows import WINDOW_MILLIS

# How many days before the span are searched for a point of rest; each step doubles the number.
_LEAD_DAYS = (1, 2, 4, 8, 16, 32)
# Most shops have an article that for weeks is neither out of stock nor plentiful; it stays unsure.
MAX_LEAD_DAYS_ARTICLES = 8
# Judges the days of a span.
RunSpan = Callable[[WindowSpan], StoreRun]


def find_begin(
    rules: SimulatedRules, source: StoreSource, start: int, run: RunSpan
) -> tuple[int, bool]:
    """The start of the day to judge from, and whether no day before it can change the result.

    `start`: the start of the first requested window, milliseconds since 1970 (UTC).
    """
    days = source.snapshot.days(source.store_id)
    begin = days.day(start).start
    most = MAX_LEAD_DAYS_ARTICLES if rules.is_per_article else _LEAD_DAYS[-1]
    # A store is at rest before its first event, when it cannot be silent.
    first = min((start, *(_first_event(rule, source) for rule in rules.together.rules)))
    for lead in _LEAD_DAYS:
        since = days.day(max(0, start - lead * DAY_MILLIS, first)).start
        is_last = since <= first or lead >= most
        lead_run = run(WindowSpan(since, begin))
        lead_run.alerts()
        is_certain = _Search(rules, source, lead_run, is_last).is_certain()
        if is_certain or is_last:
            break
    return since, is_certain


def find_idle_window(judgements: Iterable[WindowVerdict]) -> int | None:
    """The start of the first window (ms since 1970, UTC) after which a fold is at rest.

    This holds for any state before the windows; None where there is no such window. The fold is at
    rest after `clear_for` windows in a row that clear: an episode ends there at the latest, and a
    run of windows that raise is broken.
    """
    run = 0
    # Windows that raise are no such proof, because an open episode may have begun before them.
    for judgement in judgements:
        run = run + 1 if judgement.verdict == -1 else 0
        if run and run >= judgement.clear_for:
            return judgement.window
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
                since = max((end for end in ends if end is not None), default=self._run.span.start)
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
            # Articles with equal stock levels are judged alike, and most have equals.
            key = subject == WHOLE_STORE, *(day.steps_for(subject) for day in shelves)
            if key not in rests:
                judged = self._run.windows(rule, before, subject)
                rests[key] = _find_subject_rest(judged, subject, certain)
        found = [window for window in rests.values() if window is not None]
        return max(found, default=before.start) if len(found) == len(rests) else None


def _first_event(rule: VersionedRule, source: StoreSource) -> int:
    """The store's first event, before which no window can raise, ms since 1970 (UTC)."""
    # A store that never sent although it should may have been silent since ever.
    if source.missing & rule.families:
        return 0
    days = (source.first_days[name] for name in rule.families if name in source.first_days)
    return min((utc_span(day).start for day in days), default=0)


def _find_subject_rest(judged: Iterable[DayWindow], subject: str, certain: int) -> int | None:
    known = [window for window in judged if window.counts and window.verdict.window >= certain]
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
    # In a window that is not served complete, the receipts may be missing instead.
    return window.verdict.is_complete and (reached is None or reached.level is None)
