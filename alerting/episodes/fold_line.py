"""The state of a chain's fold at the start of each day, stored only where it changes.

An episode that is open for years takes one entry, and a chain at rest takes none.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping

from alerting.episodes.fold import IDLE_STATE, FoldState

# The state at the starts of days, milliseconds since 1970 (UTC).
DayStates = Mapping[int, FoldState]


class FoldTimeline:
    """A step function of the instants at which days start, in milliseconds since 1970 (UTC)."""

    def __init__(self, entries: DayStates | None = None) -> None:
        self._states = dict(entries or {})
        self._starts = sorted(self._states)

    @property
    def entries(self) -> DayStates:
        """The state from each entry on, by the start of a day (milliseconds since 1970, UTC)."""
        return self._states

    @property
    def is_idle(self) -> bool:
        """Whether the fold is at rest from the last entry on."""
        return not self._starts or self._states[self._starts[-1]] == IDLE_STATE

    def state_at(self, start: int) -> FoldState:
        """The state at the start of a day, in milliseconds since 1970 (UTC)."""
        place = bisect_right(self._starts, start)
        return self._states[self._starts[place - 1]] if place else IDLE_STATE

    def set_entry(self, start: int, state: FoldState | None) -> None:
        """Sets the entry of an instant (milliseconds since 1970, UTC); None removes the entry."""
        place = bisect_left(self._starts, start)
        entries = {} if state is None else {start: state}
        self._replace(place, place + (start in self._states), entries)

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
        before = self._states[self._starts[low - 1]] if low else IDLE_STATE
        entries = dict(_changes(before, new_states.items()))
        starts = self._starts[low:high]
        changed: dict[int, FoldState | None] = {
            start: None for start in starts if start not in entries
        }
        for start, state in entries.items():
            if self._states.get(start) != state:
                changed[start] = state
        self._replace(low, high, entries)
        return changed

    def forget_before(self, horizon: int) -> list[int]:
        """Drops the entries that no day from an instant on needs, and returns their starts.

        The instant and the starts are milliseconds since 1970 (UTC).
        """
        place = bisect_right(self._starts, horizon)
        # The last of them still holds for later days, unless it is the state at rest.
        if place and self._states[self._starts[place - 1]] != IDLE_STATE:
            place -= 1
        gone = self._starts[:place]
        self._replace(0, place, {})
        return gone

    def _replace(self, low: int, high: int, entries: DayStates) -> None:
        for start in self._starts[low:high]:
            del self._states[start]
        self._starts[low:high] = entries
        self._states |= entries


def _changes(
    before: FoldState, states: Iterable[tuple[int, FoldState]]
) -> Iterable[tuple[int, FoldState]]:
    for start, state in states:
        if state != before:
            yield start, state
        before = state
