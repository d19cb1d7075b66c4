"""Which local days of a chain are folded anew when something of some of them has changed.

As many as it takes for what is told to be the same as if all had been folded, and no more.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache

from msgspec import Struct

from tally.alerts.fold import Episode, FoldState, JudgedStretch, Judgement, fold
from tally.alerts.fold_line import FoldLine
from tally.alerts.told import ToldAlert
from tally.windows import WINDOW_MILLIS

# By the start of a day its windows that have begun, in their order.
JudgedOf = Callable[[int], Sequence[Judgement | JudgedStretch]]
# The chain's alerts that reach an instant (milliseconds since 1970, UTC): those of a later window,
# each with its raise or its end; earlier ones may be among them.
ToldSince = Callable[[int], Iterable[ToldAlert]]
# Stores times days that are folded at once: all rules of a store have the same ones.
_MOST_KNOWN = 1_000


class FoldedDays(Struct, frozen=True):
    """Consecutive days that were folded in one go, [start, until) in milliseconds since 1970 (UTC).

    `begin`: the state at their start. `episodes`: those they have a part in; the last may be open
    here and have ended later. `settled`: starts of the windows that are served complete, as all
    before them in the same day are.
    """

    start: int
    until: int
    begin: FoldState
    episodes: tuple[Episode, ...]
    settled: frozenset[int]

    @property
    def since(self) -> int:
        """Start of the first window that one of the episodes may hold, milliseconds since 1970."""
        reached = self.begin.reaches_back_to
        return self.start if reached is None else reached


class Refolding(Struct, frozen=True):
    """What was folded anew, and of each stretch by its start the state of each of its days."""

    stretches: tuple[FoldedDays, ...]
    states: tuple[dict[int, FoldState], ...]


class DayLine(Struct, frozen=True):
    """The local days of a store, as one chain is judged on them.

    `borders`: starts of all days that are judged, ascending, and behind them the end of the last
    window that has begun; milliseconds since 1970 (UTC). `states`: the fold's state at the starts
    of days. `named`: starts of the days of which something has changed.
    `new_from`: start of the first day that had not begun when the chain was last judged.
    """

    borders: Sequence[int]
    states: FoldLine
    named: Collection[int]
    new_from: int

    @property
    def count(self) -> int:
        """How many days there are."""
        return len(self.borders) - 1

    def begin(self, day: int) -> FoldState:
        """The state at the start of a day, by its number from 0 on."""
        return self.states.at(self.borders[day])

    def is_named(self, day: int) -> bool:
        """Whether the day is to be folded whatever the fold before it says.

        A new one has never been folded, and the one before it had no end yet.
        """
        starts = self.borders[day : min(day + 2, self.count)]
        return starts[0] in self.named or starts[-1] >= self.new_from

    @property
    def named_days(self) -> list[int]:
        """The numbers of those days, ascending."""
        # One after the other would be a year of them for each of a few.
        new = bisect_left(self.borders, self.new_from, 0, self.count)
        first = self.count if new == self.count else max(0, new - 1)
        found = {*range(first, self.count)}
        for start in self.named:
            day = bisect_right(self.borders, start, 0, self.count) - 1
            if day >= 0 and self.borders[day] == start:
                found.add(day)
        return sorted(found)


def refold(line: DayLine, told_since: ToldSince, judged_of: JudgedOf) -> Refolding:
    """The days that are named, and those that must be folded with them.

    In:  `told_since`: the chain's alerts; `judged_of`: it is asked once for each day that is
         folded, and for no other.
    Out: stretches of days, ascending, each to be given to transitions().

    A fold goes on into the next day where it ends otherwise than that day began. It begins and
    stops only at a midnight that parts no alert from what decides about it.
    """
    standing = _StandingAlerts(told_since)
    stretches: list[FoldedDays] = []
    states: list[dict[int, FoldState]] = []
    done = 0
    for day in line.named_days:
        if day < done:
            continue
        # Back to where all that decides is on one side; no farther than a stretch before this one.
        while day > 0 and _parts(line.borders[day], line.begin(day), standing):
            day -= 1
        one = _GrowingDays(line, day)
        done = one.fold_on(standing, judged_of)
        stretches.append(one.folded(done))
        states.append(one.states)
    return Refolding(tuple(stretches), tuple(states))


class _StandingAlerts:
    """The chain's alerts that were not taken back, as far back as somebody has asked."""

    def __init__(self, told_since: ToldSince) -> None:
        self._told_since = told_since
        self._since: int | None = None
        self._known: list[ToldAlert] = []

    def reaching(self, instant: int) -> Sequence[ToldAlert]:
        """All that reach the instant (milliseconds since 1970, UTC), and perhaps others."""
        if self._since is None or instant < self._since:
            self._since = instant
            self._known = [one for one in self._told_since(instant) if one.is_standing]
        return self._known


class _GrowingDays:
    """A stretch while it grows, from the start of a day on."""

    def __init__(self, line: DayLine, first: int) -> None:
        self.line, self.first, self.state = line, first, line.begin(first)
        self.episodes: list[Episode] = []
        self.settled: frozenset[int] = frozenset()
        self.states: dict[int, FoldState] = {}

    def fold_on(self, standing: _StandingAlerts, judged_of: JudgedOf) -> int:
        """The number of the day before which it may stop, once those before it are folded."""
        day = self.first
        while True:
            self.states[self.line.borders[day]] = self.state
            self._add(judged_of(self.line.borders[day]))
            day += 1
            if day == self.line.count:
                return day
            goes_on = self.line.is_named(day) or self.line.begin(day) != self.state
            # From here on all would be as it was, and was told.
            if not goes_on and not _parts(self.line.borders[day], self.state, standing):
                return day

    def folded(self, until: int) -> FoldedDays:
        """The stretch up to the day of that number."""
        borders, line = self.line.borders, self.line
        return FoldedDays(
            borders[self.first],
            borders[until],
            line.begin(self.first),
            tuple(self.episodes),
            self.settled,
        )

    def _add(self, judged: Sequence[Judgement | JudgedStretch]) -> None:
        if self.episodes and self.state.open is not None:
            # It goes on: the fold of this day has it whole.
            self.episodes.pop()
        folded = fold(judged, self.state)
        self.state = folded.state
        self.episodes += folded.episodes
        if settled := _settled(judged):
            self.settled = self.settled | settled if self.settled else settled


def _settled(judged: Sequence[Judgement | JudgedStretch]) -> frozenset[int]:
    """Starts of the windows that are served complete, as all before them are."""
    complete = 0
    # A hole leaves what is behind it open: there an episode may still begin or end.
    for one in judged:
        stretch = one.stretch if isinstance(one, Judgement) else one
        complete += stretch.complete
        if stretch.complete < len(stretch.verdicts):
            break
    if not complete:
        return frozenset()
    first = judged[0]
    return _windows(first.window if isinstance(first, Judgement) else first.start, complete)


@lru_cache(maxsize=_MOST_KNOWN)
def _windows(start: int, count: int) -> frozenset[int]:
    return frozenset(range(start, start + count * WINDOW_MILLIS, WINDOW_MILLIS))


def _parts(midnight: int, state: FoldState, alerts: _StandingAlerts) -> bool:
    """Whether alerts on one side are decided by windows on the other, beyond what the state says.

    The state has the start of an open episode, so an alert of it before midnight is none of them.
    Others are: a raise in a run that may still become an episode, the first alert of an open one
    when that is behind midnight, an end inside of it, and an end that was told of a later window
    than that of which it is now.
    """
    since, episode = state.reaches_back_to, state.open
    standing = alerts.reaching(midnight if since is None else min(since, midnight))
    if not standing:
        # Of most chains nothing was told.
        return episode is not None
    before = [one for one in standing if one.window < midnight]
    inside = {one.edge for one in before if since is not None and since <= one.window}
    if inside != (set() if episode is None else {"raise"}):
        return True
    raises = {one.alert_id: one.window for one in before if one.edge == "raise"}
    behind = [one.of for one in standing if one.window >= midnight]
    begun = [raises[of] for of in behind if of in raises]
    return any(episode is None or not episode.contains(window) for window in begun)
