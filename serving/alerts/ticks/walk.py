"""Up to when everything that had arrived has been read, of one family: a function of what was seen.

A record travels from its raw topic through the normaliser to a canonical topic, and from there into
the rows of the speed layer. So the walk goes: at an instant T the ends of the raw topic are looked
at; once the normaliser's positions have passed them, all that had arrived by T lies in the
canonical topic, below its ends of now; once the speed layer has passed those, it has been read.

A busy pipeline never stands at its ends. So what has been looked at is kept until it is passed,
over as many looks as it takes: the oldest, so that a slow pipeline comes to it, and the newest, so
that one that has caught up is told of at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from runtime.offsets import Offsets
from tally.alerts.tick import SpeedEpoch


class ReadReach(NamedTuple):
    """How far the speed layer has read a partition: first offset not in its rows, and by what."""

    until: int
    epoch: SpeedEpoch


class Milestone(NamedTuple):
    """Behind which offsets everything lies that had arrived by `at` (ms since 1970, UTC)."""

    at: int
    ends: Offsets


@dataclass(frozen=True)
class Glance:
    """What was seen of one family, from top to bottom: each was asked for after those above it.

    `at` is an instant that had come by the brokers' clock before. `raw_ends` and `written` are ends
    of the raw and the canonical topic with what lies in open transactions, `stable` the ends
    without it; `positions` are those of the normaliser. An offset that is not there was not told.
    """

    at: int
    raw_ends: Offsets = field(default_factory=dict)
    positions: Offsets = field(default_factory=dict)
    written: Offsets = field(default_factory=dict)
    reached: Mapping[int, ReadReach] = field(default_factory=dict)
    stable: Offsets = field(default_factory=dict)


@dataclass(frozen=True)
class Said:
    """What may be said of a partition of the family.

    Everything that had arrived before `through` (ms since 1970, UTC; None: nothing is known) has
    been read under the epoch.
    """

    epoch: SpeedEpoch
    through: int | None = None


@dataclass(frozen=True)
class FamilyWalk:
    """Where the walk stands, between two looks.

    `raw` are milestones that the normaliser has to pass, `canonical` those of the speed layer by
    partition; `said` is what holds of each partition.
    """

    raw: tuple[Milestone, ...] = ()
    canonical: Mapping[int, tuple[Milestone, ...]] = field(default_factory=dict)
    said: Mapping[int, Said] = field(default_factory=dict)


def walked(walk: FamilyWalk, look: Glance) -> FamilyWalk:
    """The walk after one more look; what it says of a partition never falls within an epoch.

    What is not known holds it back: everything stays as it was until somebody says more.
    """
    ahead = walk.raw
    if look.raw_ends:
        ahead = _with(ahead, Milestone(look.at, look.raw_ends))
    passed, raw = _passed(ahead, look.positions)
    canonical = dict(walk.canonical)
    if passed is not None:
        # Ends of this look and of no earlier one: only now all that had arrived by then lies below
        # them, since the normaliser's positions move with its records, in one transaction.
        for number, end in look.written.items():
            one = Milestone(passed, {number: end})
            canonical[number] = _with(canonical.get(number, ()), one)
    said = dict(walk.said)
    for number, reach in look.reached.items():
        read = _read(look, number, reach)
        at, canonical[number] = _passed(canonical.get(number, ()), read)
        said[number] = _more(said.get(number), Said(reach.epoch, at))
    return FamilyWalk(raw, canonical, said)


def _read(look: Glance, number: int, reach: ReadReach) -> Offsets:
    # Who has read beyond the end, which was asked for later, has read another log: the topic was
    # made anew, or was cut. And nobody who reads committed records has passed an open transaction.
    is_of_this_log = reach.until <= look.stable.get(number, -1)
    return {number: reach.until} if is_of_this_log else {}


def _with(waiting: Sequence[Milestone], newest: Milestone) -> tuple[Milestone, ...]:
    """The oldest of those that lie no further than the newest, and that."""
    # An end that falls back is one of another log: what was looked at in the one before is gone.
    kept = [one for one in waiting if _lies_behind(one.ends, newest.ends)]
    return (*kept[:1], newest)


def _passed(
    waiting: tuple[Milestone, ...], offsets: Offsets
) -> tuple[int | None, tuple[Milestone, ...]]:
    """The latest instant whose milestone lies behind the offsets, and the milestones ahead."""
    passed = [one.at for one in waiting if _lies_behind(one.ends, offsets)]
    if not passed:
        return None, waiting
    return max(passed), tuple(one for one in waiting if one.at > max(passed))


def _lies_behind(ends: Offsets, offsets: Offsets) -> bool:
    # A partition that nobody has told of is not behind anything, be it empty.
    return all(end <= offsets.get(number, -1) for number, end in ends.items())


def _more(before: Said | None, now: Said) -> Said:
    if before is None or before.epoch.epoch < now.epoch.epoch:
        # Rows of the earlier epoch are out of force: what was read for them is to be read anew.
        return now
    if before.epoch.epoch > now.epoch.epoch:
        return before
    instants = [one.through for one in (before, now) if one.through is not None]
    return Said(max(before.epoch, now.epoch), max(instants, default=None))
