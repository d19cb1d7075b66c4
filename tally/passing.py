"""In which windows some of a lot of sightings may bring something that all of them do not.

Whoever reads the same sightings in smaller lots writes what was so in between, and may end after
it. Who goes on from an earlier point, in a larger lot, has to write these windows too, though they
are for it as they were.

What a device brings hangs on its runs of minutes (tally/visits.py). A sighting changes the run that
it comes to lie in, and no other one; so what was so in between is a run of that run's parts: its
runs from before, and minutes of the lot.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tally.visit_parts import window_of
from tally.visits import Heard, PeriodHours, VisitRules, signal_runs


class HeardLot(NamedTuple):
    """A device before and after a lot of sightings, and the minute that its store has come to."""

    earlier: Heard
    later: Heard
    frontier: int


def passing_windows(lot: HeardLot, rules: VisitRules, hours: PeriodHours) -> set[int]:
    """The windows (minutes since 1970), beside those of the lot's own minutes and those of which
    the device brings something else than before."""
    earlier, later = lot.earlier, lot.later
    new = {at for at, dbm in later.items() if earlier.get(at) != dbm}
    before = [*signal_runs(lot.earlier, rules)]
    found = set()
    for run in signal_runs(lot.later, rules):
        own = [at for at in run if at in new]
        if not own:
            continue
        parts = [one for one in before if run[0] <= one[0] <= run[-1]]
        if _may_be_cleaner(own, parts, rules, hours):
            # Nothing of its day would have counted, and with that other visits would be first ones.
            return {window_of(at) for at in lot.later}
        for part in parts:
            # Else the store has not come to where it would be over: it never counted.
            if part[-1] + rules.gap_minutes < lot.frontier:
                found |= {window_of(at) for at in _begins(part, lot.earlier, rules)}
    return found


def _begins(run: Sequence[int], minutes: Heard, rules: VisitRules) -> Iterator[int]:
    """Where a presence may begin whose first minutes are the run's: as a pass, and as a visit."""
    yield run[0]
    yield from (at for at in run if minutes[at] >= rules.enter_dbm)


def _may_be_cleaner(
    own: Sequence[int], parts: Sequence[Sequence[int]], rules: VisitRules, hours: PeriodHours
) -> bool:
    """Whether some of it may have been a visit wholly outside the opening hours, and long enough.

    The one by which a device is static for a moment: that it was there for long never ends.
    """
    outside = [at for at in own if not _is_open(at, hours)]
    if not outside:
        return False
    ends = (at for one in parts for at in (one[0], one[-1]))
    outside += [at for at in ends if not _is_open(at, hours)]
    return max(outside) - min(outside) + 1 >= rules.closed_minutes


def _is_open(minute: int, hours: PeriodHours) -> bool:
    spans = hours.open_at
    return spans is None or any(first <= minute <= last for first, last in spans)
