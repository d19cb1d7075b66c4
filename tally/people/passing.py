"""Windows to which a part of a lot of sightings may contribute something that the whole does not.

A reader that takes the same sightings in smaller lots writes the intermediate states, and may end
after one. A reader that resumes from an earlier offset, with a larger lot, has to write these
windows too, although they are unchanged for it.

A device's contribution depends on its runs of minutes (tally/people/visits.py). A sighting changes
the run that it falls into and no other one; so an intermediate state is a run of that run's parts:
its runs from before, and minutes of the lot.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tally.people.visit_parts import window_start_minute
from tally.people.visits import MinuteSignals, PeriodHours, VisitRules, signal_runs


class SightingBatch(NamedTuple):
    """A device before and after a lot of sightings, and its store's frontier (a minute)."""

    earlier: MinuteSignals
    later: MinuteSignals
    frontier: int


def transient_windows(lot: SightingBatch, rules: VisitRules, hours: PeriodHours) -> set[int]:
    """The windows (minutes since 1970) that an intermediate state of the lot may have changed.

    They come in addition to the windows of the lot's own minutes, and to those in which the
    device's contribution is another one afterwards.
    """
    earlier, later = lot.earlier, lot.later
    new = {at for at, dbm in later.items() if earlier.get(at) != dbm}
    before = [*signal_runs(lot.earlier, rules)]
    found = set()
    for run in signal_runs(lot.later, rules):
        own = [at for at in run if at in new]
        if not own:
            continue
        parts = [earlier_run for earlier_run in before if run[0] <= earlier_run[0] <= run[-1]]
        if _may_be_static(own, parts, rules, hours):
            # Nothing of the device's day would have counted then; other visits would be first ones.
            return {window_start_minute(at) for at in lot.later}
        for part in parts:
            # Otherwise the frontier has not passed the end of this presence: it never counted.
            if part[-1] + rules.gap_minutes < lot.frontier:
                found |= {
                    window_start_minute(at) for at in _possible_starts(part, lot.earlier, rules)
                }
    return found


def _possible_starts(
    run: Sequence[int], minutes: MinuteSignals, rules: VisitRules
) -> Iterator[int]:
    """Minutes at which a presence with the run's first minutes may begin, as a pass or a visit."""
    yield run[0]
    yield from (at for at in run if minutes[at] >= rules.enter_dbm)


def _may_be_static(
    own: Sequence[int], parts: Sequence[Sequence[int]], rules: VisitRules, hours: PeriodHours
) -> bool:
    """Whether a part of the run may have been a long enough visit wholly outside opening hours.

    Only this rule can make a device static temporarily: a long total stay is never taken back.
    """
    outside = [at for at in own if not _is_open(at, hours)]
    if not outside:
        return False
    ends = (at for part in parts for at in (part[0], part[-1]))
    outside += [at for at in ends if not _is_open(at, hours)]
    return max(outside) - min(outside) + 1 >= rules.closed_minutes


def _is_open(minute: int, hours: PeriodHours) -> bool:
    spans = hours.open_at
    return spans is None or any(first <= minute <= last for first, last in spans)
