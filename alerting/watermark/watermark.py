"""Up to when all arrived records of one family have been read: a pure function of the snapshots.

A record travels from its raw topic through the normaliser to a canonical topic, and from there into
the rows of the speed layer. The watermarks follow it: at an instant T, the ends of the raw topic
are read; once the normaliser's positions have passed them, all that had arrived by T lies in the
canonical topic, below its current ends; once the speed layer has passed those, it has been read.

A busy pipeline never stands at its ends. So barriers are kept until they are passed, over as many
snapshots as it takes: the oldest, so that a slow pipeline reaches it, and the newest, so that a
pipeline that has caught up shows it at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from runtime.kafka.offsets import OffsetBarrier, Offsets
from tally.alerts.tick import SpeedEpoch


class SpeedPosition(NamedTuple):
    """How far the speed layer has read a partition: the first offset not in its rows, the epoch."""

    until: int
    epoch: SpeedEpoch


# Keyed by family, then by partition.
FamilyPositions: TypeAlias = Mapping[str, Mapping[int, SpeedPosition]]
# The end offsets of one family's topic by partition, at an instant in ms since 1970 (UTC).
EndBarrier: TypeAlias = OffsetBarrier[int, int]
# A partition without a known offset is not behind anything, even if it is empty.
_UNKNOWN = -1


@dataclass(frozen=True)
class PipelineSnapshot:
    """A snapshot of a family; each field was read after the fields above it.

    `at`: an instant (ms since 1970, UTC) that had passed by the brokers' clock before. `raw_ends`
    and `canonical_ends`: ends of the raw and the canonical topic, including open transactions;
    `stable_ends`: the ends without them. `positions`: those of the normaliser. Unknown offsets are
    absent.
    """

    at: int
    raw_ends: Offsets = field(default_factory=dict)
    positions: Offsets = field(default_factory=dict)
    canonical_ends: Offsets = field(default_factory=dict)
    speed_positions: Mapping[int, SpeedPosition] = field(default_factory=dict)
    stable_ends: Offsets = field(default_factory=dict)


@dataclass(frozen=True)
class Watermark:
    """How far a partition of the family is known to be read.

    All records that had arrived before `through` (ms since 1970, UTC; None: nothing is known) have
    been read under the epoch.
    """

    epoch: SpeedEpoch
    through: int | None = None


@dataclass(frozen=True)
class FamilyWatermarks:
    """The watermarks of a family between two snapshots.

    `raw_barriers`: barriers that the normaliser has to pass. `canonical_barriers`: by partition
    the barriers that the speed layer has to pass. `watermarks`: how far each partition is known to
    be read.
    """

    raw_barriers: tuple[EndBarrier, ...] = ()
    canonical_barriers: Mapping[int, tuple[EndBarrier, ...]] = field(default_factory=dict)
    watermarks: Mapping[int, Watermark] = field(default_factory=dict)


def advance(before: FamilyWatermarks, snapshot: PipelineSnapshot) -> FamilyWatermarks:
    """The watermarks after a snapshot; `through` of a partition never decreases within an epoch.

    Missing offsets hold the watermarks back: they stay the same until the offsets are known.
    """
    ahead = before.raw_barriers
    if snapshot.raw_ends:
        ahead = _add_barrier(ahead, OffsetBarrier(snapshot.at, snapshot.raw_ends))
    passed, raw = _split_barriers(ahead, snapshot.positions)
    canonical = dict(before.canonical_barriers)
    if passed is not None:
        # The ends of this snapshot and of no earlier one: only now all that had arrived by then is
        # below them, because the normaliser commits its positions and records in one transaction.
        for number, end in snapshot.canonical_ends.items():
            barrier = OffsetBarrier(passed, {number: end})
            canonical[number] = _add_barrier(canonical.get(number, ()), barrier)
    watermarks = dict(before.watermarks)
    for number, position in snapshot.speed_positions.items():
        # A position beyond the end, which was read later, is of another log: the topic was
        # re-created or truncated. And a reader of committed records cannot have passed an open
        # transaction.
        is_of_this_log = position.until <= snapshot.stable_ends.get(number, -1)
        read = {number: position.until} if is_of_this_log else {}
        at, canonical[number] = _split_barriers(canonical.get(number, ()), read)
        now = Watermark(position.epoch, at)
        watermarks[number] = _merge_watermarks(watermarks.get(number), now)
    return FamilyWatermarks(raw, canonical, watermarks)


def _add_barrier(waiting: Sequence[EndBarrier], newest: EndBarrier) -> tuple[EndBarrier, ...]:
    """The oldest barrier that lies no further than the newest, and the newest."""
    # An end that moves back belongs to another log: the barriers of the old log are void.
    behind = [barrier for barrier in waiting if barrier.is_passed(newest.ends, _UNKNOWN)]
    return (*behind[:1], newest)


def _split_barriers(
    waiting: tuple[EndBarrier, ...], offsets: Offsets
) -> tuple[int | None, tuple[EndBarrier, ...]]:
    """The latest instant whose barrier lies behind the offsets, and the barriers ahead."""
    passed = [barrier.at for barrier in waiting if barrier.is_passed(offsets, _UNKNOWN)]
    if not passed:
        return None, waiting
    return max(passed), tuple(barrier for barrier in waiting if barrier.at > max(passed))


def _merge_watermarks(before: Watermark | None, now: Watermark) -> Watermark:
    if before is None or before.epoch.epoch < now.epoch.epoch:
        # Rows of the earlier epoch are out of force: their records have to be read again.
        return now
    if before.epoch.epoch > now.epoch.epoch:
        return before
    instants = [state.through for state in (before, now) if state.through is not None]
    return Watermark(max(before.epoch, now.epoch), max(instants, default=None))
