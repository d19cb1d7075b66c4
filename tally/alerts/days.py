"""Selection of the local days of a chain that are folded again after some days have changed.

The selection is the smallest one whose published alerts are the same as after a fold of all days.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache

from msgspec import Struct

from tally.alerts.fold import Episode, FoldState, JudgedStretch, Judgement, fold
from tally.alerts.fold_line import FoldLine
from tally.alerts.told import ToldAlert
from tally.windows import WINDOW_MILLIS

# The windows of a day that have begun, in order, by the start of the day.
JudgedOf = Callable[[int], Sequence[Judgement | JudgedStretch]]
# The chain's alerts that reach an instant (milliseconds since 1970, UTC): those of a later window,
# each with its raise or its end; the result may also hold earlier ones.
ToldSince = Callable[[int], Iterable[ToldAlert]]
# Stores times days that are folded at once; all rules of a store share these sets of windows.
_MOST_KNOWN = 1_000


class FoldedDays(Struct, frozen=True):
    """Consecutive days that were folded together, [start, until) in milliseconds since 1970 (UTC).

    `begin`: the state at their start. `episodes`: those that overlap these days; the last may be
    open here and have ended later. `settled`: starts of the windows that are served complete, and
    before which all windows of the same day are served complete too.
    """

    start: int
    until: int
    begin: FoldState
    episodes: tuple[Episode, ...]
    settled: frozenset[int]

    @property
    def since(self) -> int:
        """The start of the first window that an episode may contain, milliseconds since 1970."""
        reached = self.begin.reaches_back_to
        return self.start if reached is None else reached


class Refolding(Struct, frozen=True):
    """The stretches of days that were folded again, and the states of each one's days by start."""

    stretches: tuple[FoldedDays, ...]
    states: tuple[dict[int, FoldState], ...]


class DayLine(Struct, frozen=True):
    """The local days of a store on which one chain is judged.

    `borders`: starts of all judged days, ascending, followed by the end of the last window that has
    begun; milliseconds since 1970 (UTC). `states`: the fold's state at the starts of days. `named`:
    starts of the days with a change. `new_from`: start of the first day that had not begun when the
    chain was last judged.
    """

    borders: Sequence[int]
    states: FoldLine
    named: Collection[int]
    new_from: int

    @property
    def count(self) -> int:
        """The number of days."""
        return len(self.borders) - 1

    def begin(self, day: int) -> FoldState:
        """The state at the start of a day, by the day's number from 0 on."""
        return self.states.at(self.borders[day])

    def is_named(self, day: int) -> bool:
        """Whether the day must be folded regardless of the fold before it.

        A new day has never been folded, and the day before it had no end yet.
        """
        starts = self.borders[day : min(day + 2, self.count)]
        return starts[0] in self.named or starts[-1] >= self.new_from

    @property
    def named_days(self) -> list[int]:
        """The numbers of the days that must be folded, ascending."""
        # A test of each day would go through a year of days for a few changed ones.
        new = bisect_left(self.borders, self.new_from, 0, self.count)
        first = self.count if new == self.count else max(0, new - 1)
        numbers = {*range(first, self.count)}
        for start in self.named:
            day = bisect_right(self.borders, start, 0, self.count) - 1
            if day >= 0 and self.borders[day] == start:
                numbers.add(day)
        return sorted(numbers)


def refold(line: DayLine, told_since: ToldSince, judged_of: JudgedOf) -> Refolding:
    """The named days folded again, with the days that must be folded with them.

    In:  `told_since`: the chain's alerts; `judged_of`: called once for each day that is folded, and
         for no other day.
    Out: stretches of days, ascending, each an argument for transitions().

    A fold continues into the next day if it ends in another state than that day began with. It
    begins and stops only at a midnight that separates no alert from the windows that decide it.
    """
    standing = _StandingAlerts(told_since)
    stretches: list[FoldedDays] = []
    states: list[dict[int, FoldState]] = []
    done = 0
    for day in line.named_days:
        if day < done:
            continue
        # Goes back to a midnight that separates no alert; never into the previous stretch, because
        # that one has stopped at such a midnight.
        while day > 0 and _separates_alerts(line.borders[day], line.begin(day), standing):
            day -= 1
        growing = _GrowingDays(line, day)
        done = growing.fold_on(standing, judged_of)
        stretches.append(growing.folded(done))
        states.append(growing.states)
    return Refolding(tuple(stretches), tuple(states))


class _StandingAlerts:
    """The chain's alerts that were not retracted, read as far back as they were needed."""

    def __init__(self, told_since: ToldSince) -> None:
        self._told_since = told_since
        self._since: int | None = None
        self._known: list[ToldAlert] = []

    def reaching(self, instant: int) -> Sequence[ToldAlert]:
        """The alerts that reach the instant (milliseconds since 1970, UTC), and perhaps others."""
        if self._since is None or instant < self._since:
            self._since = instant
            self._known = [alert for alert in self._told_since(instant) if alert.is_standing]
        return self._known


class _GrowingDays:
    """A stretch of days that grows from its first day on."""

    def __init__(self, line: DayLine, first: int) -> None:
        self.line, self.first, self.state = line, first, line.begin(first)
        self.episodes: list[Episode] = []
        self.settled: frozenset[int] = frozenset()
        self.states: dict[int, FoldState] = {}

    def fold_on(self, standing: _StandingAlerts, judged_of: JudgedOf) -> int:
        """Folds day after day, and returns the number of the day before which the stretch ends."""
        day = self.first
        while True:
            self.states[self.line.borders[day]] = self.state
            self._add_day(judged_of(self.line.borders[day]))
            day += 1
            if day == self.line.count:
                return day
            goes_on = self.line.is_named(day) or self.line.begin(day) != self.state
            # From here on the fold and the published alerts would not change.
            if not goes_on and not _separates_alerts(self.line.borders[day], self.state, standing):
                return day

    def folded(self, until: int) -> FoldedDays:
        """The stretch up to the day with the number `until`."""
        borders, line = self.line.borders, self.line
        return FoldedDays(
            borders[self.first],
            borders[until],
            line.begin(self.first),
            tuple(self.episodes),
            self.settled,
        )

    def _add_day(self, judged: Sequence[Judgement | JudgedStretch]) -> None:
        if self.episodes and self.state.open is not None:
            # The open episode continues, and the fold of this day returns the whole of it.
            self.episodes.pop()
        folded = fold(judged, self.state)
        self.state = folded.state
        self.episodes += folded.episodes
        if more_settled := _settled_starts(judged):
            self.settled = self.settled | more_settled if self.settled else more_settled


def _settled_starts(judged: Sequence[Judgement | JudgedStretch]) -> frozenset[int]:
    """The starts of the windows before the first one that is not served complete."""
    complete = 0
    # An incomplete window leaves all later ones open, where an episode may still begin or end.
    for judgement in judged:
        stretch = judgement.stretch if isinstance(judgement, Judgement) else judgement
        complete += stretch.complete
        if stretch.complete < len(stretch.verdicts):
            break
    if not complete:
        return frozenset()
    first = judged[0]
    return _window_starts(first.window if isinstance(first, Judgement) else first.start, complete)


@lru_cache(maxsize=_MOST_KNOWN)
def _window_starts(start: int, count: int) -> frozenset[int]:
    return frozenset(range(start, start + count * WINDOW_MILLIS, WINDOW_MILLIS))


def _separates_alerts(midnight: int, state: FoldState, alerts: _StandingAlerts) -> bool:
    """Whether windows on one side of midnight decide alerts on the other side.

    The state has the start of an open episode, so an alert of that episode before midnight does not
    count. These alerts count: a raise in a run that may still become an episode, the first alert of
    an open episode when it is after midnight, an end inside of the episode, and an end that was
    published for a later window than the one that ends its episode now.
    """
    since, episode = state.reaches_back_to, state.open
    standing = alerts.reaching(midnight if since is None else min(since, midnight))
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
