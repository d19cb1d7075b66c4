"""Selection of the local days of a chain that are folded again after some days have changed.

The selection is the smallest one whose published alerts are the same as after a fold of all days.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache

from msgspec import Struct

from alerting.alert.published import PublishedAlert
from alerting.episodes.fold import Episode, FoldState, VerdictRange, WindowVerdict, fold
from alerting.episodes.fold_line import FoldTimeline
from tally.time.windows import WINDOW_MILLIS

# The windows of a day that have begun, in order, by the start of the day.
DayEvaluator = Callable[[int], Sequence[WindowVerdict | VerdictRange]]
# The chain's alerts that reach an instant (milliseconds since 1970, UTC): those of a later window,
# each with its raise or its end; the result may also hold earlier ones.
PublishedSince = Callable[[int], Iterable[PublishedAlert]]
# Stores times days that are folded at once; all rules of a store share these sets of windows.
_CACHE_SIZE = 1_000


class FoldedDays(Struct, frozen=True):
    """Consecutive days that were folded together, [start, until) in milliseconds since 1970 (UTC).

    `start_state`: the state at their start. `episodes`: those that overlap these days; the last may
    be open here and have ended later. `covered`: starts of the windows that are covered by a
    generation, as are all windows before them on the same day, and nothing newer was read instead.
    """

    start: int
    until: int
    start_state: FoldState
    episodes: tuple[Episode, ...]
    covered: frozenset[int]

    @property
    def since(self) -> int:
        """The start of the first window that an episode may contain, milliseconds since 1970."""
        reached = self.start_state.earliest_start
        return self.start if reached is None else reached


class Refolding(Struct, frozen=True):
    """The spans of days that were folded again, and the states of each one's days by start."""

    spans: tuple[FoldedDays, ...]
    states: tuple[dict[int, FoldState], ...]


class ChainDays(Struct, frozen=True):
    """The local days of a store on which one chain is evaluated.

    `boundaries`: starts of all evaluated days, ascending, followed by the end of the last window
    that has begun; milliseconds since 1970 (UTC). `states`: the fold's state at the starts of days.
    `changed_days`: starts of the days with a change. `new_from`: start of the first day that had
    not begun when the chain was last evaluated.
    """

    boundaries: Sequence[int]
    states: FoldTimeline
    changed_days: Collection[int]
    new_from: int

    @property
    def count(self) -> int:
        """The number of days."""
        return len(self.boundaries) - 1

    def start_state(self, day: int) -> FoldState:
        """The state at the start of a day, by the day's number from 0 on."""
        return self.states.state_at(self.boundaries[day])

    def must_fold(self, day: int) -> bool:
        """Whether the day must be folded regardless of the fold before it.

        A new day has never been folded, and the day before it had no end yet.
        """
        starts = self.boundaries[day : min(day + 2, self.count)]
        return starts[0] in self.changed_days or starts[-1] >= self.new_from

    @property
    def days_to_fold(self) -> list[int]:
        """The numbers of the days that must be folded, ascending."""
        # A test of each day would go through a year of days for a few changed ones.
        new = bisect_left(self.boundaries, self.new_from, 0, self.count)
        first = self.count if new == self.count else max(0, new - 1)
        numbers = {*range(first, self.count)}
        for start in self.changed_days:
            day = bisect_right(self.boundaries, start, 0, self.count) - 1
            if day >= 0 and self.boundaries[day] == start:
                numbers.add(day)
        return sorted(numbers)


def refold(
    line: ChainDays, published_since: PublishedSince, evaluate_day: DayEvaluator
) -> Refolding:
    """The named days folded again, with the days that must be folded with them.

    In:  `published_since`: the chain's alerts; `evaluate_day`: called once for each day that is
         folded, and for no other day.
    Out: spans of days, ascending, each an argument for diff_alerts().

    A fold continues into the next day if it ends in another state than that day began with. It
    begins and stops only at a midnight that separates no alert from the windows that decide it.
    """
    standing = _UnretractedAlerts(published_since)
    spans: list[FoldedDays] = []
    states: list[dict[int, FoldState]] = []
    done = 0
    for day in line.days_to_fold:
        if day < done:
            continue
        # Goes back to a midnight that separates no alert; never into the previous span, because
        # that one has stopped at such a midnight.
        while day > 0 and _separates_alerts(line.boundaries[day], line.start_state(day), standing):
            day -= 1
        growing = _FoldedDaysBuilder(line, day)
        done = growing.fold_days(standing, evaluate_day)
        spans.append(growing.build(done))
        states.append(growing.states)
    return Refolding(tuple(spans), tuple(states))


class _UnretractedAlerts:
    """The chain's alerts that were not retracted, read as far back as they were needed."""

    def __init__(self, published_since: PublishedSince) -> None:
        self._published_since = published_since
        self._since: int | None = None
        self._known: list[PublishedAlert] = []

    def load_reaching(self, instant: int) -> Sequence[PublishedAlert]:
        """The alerts that reach the instant (milliseconds since 1970, UTC), and perhaps others."""
        if self._since is None or instant < self._since:
            self._since = instant
            self._known = [
                alert for alert in self._published_since(instant) if alert.is_unretracted
            ]
        return self._known


class _FoldedDaysBuilder:
    """A span of days that grows from its first day on."""

    def __init__(self, line: ChainDays, first: int) -> None:
        self.line, self.first, self.state = line, first, line.start_state(first)
        self.episodes: list[Episode] = []
        self.covered: frozenset[int] = frozenset()
        self.states: dict[int, FoldState] = {}

    def fold_days(self, standing: _UnretractedAlerts, evaluate_day: DayEvaluator) -> int:
        """Folds day after day, and returns the number of the day before which the span ends."""
        day = self.first
        while True:
            self.states[self.line.boundaries[day]] = self.state
            self._add_day(evaluate_day(self.line.boundaries[day]))
            day += 1
            if day == self.line.count:
                return day
            goes_on = self.line.must_fold(day) or self.line.start_state(day) != self.state
            # From here on the fold and the published alerts would not change.
            if not goes_on and not _separates_alerts(
                self.line.boundaries[day], self.state, standing
            ):
                return day

    def build(self, until: int) -> FoldedDays:
        """The span up to the day with the number `until`."""
        borders, line = self.line.boundaries, self.line
        return FoldedDays(
            borders[self.first],
            borders[until],
            line.start_state(self.first),
            tuple(self.episodes),
            self.covered,
        )

    def _add_day(self, verdicts: Sequence[WindowVerdict | VerdictRange]) -> None:
        if self.episodes and self.state.open is not None:
            # The open episode continues, and the fold of this day returns the whole of it.
            self.episodes.pop()
        folded = fold(verdicts, self.state)
        self.state = folded.state
        self.episodes += folded.episodes
        if more_covered := _find_covered_starts(verdicts):
            self.covered = self.covered | more_covered if self.covered else more_covered


def _find_covered_starts(verdicts: Sequence[WindowVerdict | VerdictRange]) -> frozenset[int]:
    """The starts of the windows before the first one that is not covered."""
    covered_count = 0
    # A window that is not covered leaves all later ones open: an episode may still begin there.
    for verdict in verdicts:
        verdict_range = verdict.verdict_range if isinstance(verdict, WindowVerdict) else verdict
        covered_count += verdict_range.covered_count
        if verdict_range.covered_count < len(verdict_range.verdicts):
            break
    if not covered_count:
        return frozenset()
    first = verdicts[0]
    return _window_starts(
        first.window if isinstance(first, WindowVerdict) else first.start, covered_count
    )


@lru_cache(maxsize=_CACHE_SIZE)
def _window_starts(start: int, count: int) -> frozenset[int]:
    return frozenset(range(start, start + count * WINDOW_MILLIS, WINDOW_MILLIS))


def _separates_alerts(midnight: int, state: FoldState, alerts: _UnretractedAlerts) -> bool:
    """Whether windows on one side of midnight decide alerts on the other side.

    The state has the start of an open episode, so an alert of that episode before midnight does not
    count. These alerts count: a raise in a run that may still become an episode, the first alert of
    an open episode when it is after midnight, an end inside of the episode, and an end that was
    published for a later window than the one that ends its episode now.
    """
    since, episode = state.earliest_start, state.open
    standing = alerts.load_reaching(midnight if since is None else min(since, midnight))
    if not standing:
        # Most chains have no published alerts.
        return episode is not None
    before = [alert for alert in standing if alert.window < midnight]
    inside = {alert.edge for alert in before if since is not None and since <= alert.window}
    if inside != (set() if episode is None else {"raise"}):
        return True
    raises = {alert.alert_id: alert.window for alert in before if alert.edge == "raise"}
    after = [alert.of for alert in standing if alert.window >= midnight]
    begun = [raises[raise_id] for raise_id in after if raise_id in raises]
    return any(episode is None or not episode.contains(window) for window in begun)
