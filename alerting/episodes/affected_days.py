"""Selection of the local days of a chain that are folded again after some days have changed.

The selection is the smallest one whose published alerts are the same as after a fold of all days.
The state at the start of each day is stored only where it changes: an episode that is open for
years takes one entry, and a chain at rest takes none.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from alerting.alert.published import PublishedAlert
from alerting.episodes.fold import IDLE_STATE, Episode, FoldState, VerdictRange, WindowVerdict, fold
from tally.time.windows import WINDOW_MILLIS

# The state at the starts of days, milliseconds since 1970 (UTC).
DayStates = Mapping[int, FoldState]
# The windows of a day that have begun, in order, by the start of the day.
DayEvaluator = Callable[[int], Sequence[WindowVerdict | VerdictRange]]
# The chain's alerts that reach an instant (milliseconds since 1970, UTC): those of a later window,
# each with its raise or its end; the result may also hold earlier ones.
PublishedSince = Callable[[int], Iterable[PublishedAlert]]


class FoldTimeline:
    """A step function of the instants at which days start, in milliseconds since 1970 (UTC)."""

    def __init__(self, entries: DayStates | None = None) -> None:
        # The state from each entry on, by the start of a day.
        self.entries = dict(entries or {})
        self._starts = sorted(self.entries)

    @property
    def is_idle(self) -> bool:
        """Whether the fold is at rest from the last entry on."""
        return not self._starts or self.entries[self._starts[-1]] == IDLE_STATE

    def state_at(self, start: int) -> FoldState:
        """The state at the start of a day, in milliseconds since 1970 (UTC)."""
        place = bisect_right(self._starts, start)
        return self.entries[self._starts[place - 1]] if place else IDLE_STATE

    def set_entry(self, start: int, state: FoldState | None) -> None:
        """Sets the entry of an instant (milliseconds since 1970, UTC); None removes the entry."""
        place = bisect_left(self._starts, start)
        entries = {} if state is None else {start: state}
        self._replace(place, place + (start in self.entries), entries)

    def set_days(self, states: DayStates, until: int | None) -> dict[int, FoldState | None]:
        """Replaces the states of consecutive days; those of all other days stay as they are.

        In:  `states`: by the start of the day (milliseconds since 1970, UTC), ascending; `until`:
             start of the day after them, None where no later day was ever folded.
        Out: the entries that have changed; None for a removed one.
        """
        if not states:
            return {}
        first = next(iter(states))
        new_states = dict(states)
        if until is not None:
            new_states[until] = self.state_at(until)
        low = bisect_left(self._starts, first)
        high = len(self._starts) if until is None else bisect_right(self._starts, until)
        before = self.entries[self._starts[low - 1]] if low else IDLE_STATE
        entries: dict[int, FoldState] = {}
        for start, state in new_states.items():
            if state != before:
                entries[start] = before = state
        removed = (start for start in self._starts[low:high] if start not in entries)
        changed: dict[int, FoldState | None] = dict.fromkeys(removed)
        for start, state in entries.items():
            if self.entries.get(start) != state:
                changed[start] = state
        self._replace(low, high, entries)
        return changed

    def forget_before(self, horizon: int) -> list[int]:
        """Drops entries that no later day needs; returns their starts, ms since 1970 (UTC)."""
        place = bisect_right(self._starts, horizon)
        # The last of them still holds for later days, unless it is the state at rest.
        if place and self.entries[self._starts[place - 1]] != IDLE_STATE:
            place -= 1
        gone = self._starts[:place]
        self._replace(0, place, {})
        return gone

    def _replace(self, low: int, high: int, entries: DayStates) -> None:
        for start in self._starts[low:high]:
            del self.entries[start]
        self._starts[low:high] = entries
        self.entries |= entries


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
        """Whether a day must be folded: a new one never was, and the one before had no end yet."""
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
        span, states_of_days = _fold_from(line, day, standing, evaluate_day)
        done = day + len(states_of_days)
        spans.append(span)
        states.append(states_of_days)
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
            known = self._published_since(instant)
            self._known = [alert for alert in known if alert.is_unretracted]
        return self._known


def _fold_from(
    line: ChainDays, first: int, standing: _UnretractedAlerts, evaluate_day: DayEvaluator
) -> tuple[FoldedDays, dict[int, FoldState]]:
    """A span of days from the day with the number `first` on, and the states of its days."""
    borders, state = line.boundaries, line.start_state(first)
    states: dict[int, FoldState] = {}
    episodes: list[Episode] = []
    covered: frozenset[int] = frozenset()
    for day in range(first, line.count):
        goes_on = not states or line.must_fold(day) or line.start_state(day) != state
        # From here on the fold and the published alerts would not change.
        if not goes_on and not _separates_alerts(borders[day], state, standing):
            break
        states[borders[day]] = state
        verdicts = evaluate_day(borders[day])
        if episodes and state.open is not None:
            # The open episode continues, and the fold of this day returns the whole of it.
            episodes.pop()
        folded = fold(verdicts, state)
        state = folded.state
        episodes += folded.episodes
        if more_covered := _find_covered_starts(verdicts):
            covered = covered | more_covered if covered else more_covered
    start, until = borders[first], borders[first + len(states)]
    begun = line.start_state(first)
    return FoldedDays(start, until, begun, tuple(episodes), covered), states


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
    start = first.window if isinstance(first, WindowVerdict) else first.start
    return _window_starts(start, covered_count)


# All rules of a store share the sets of the days that are folded at once.
@lru_cache(maxsize=1_000)
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
