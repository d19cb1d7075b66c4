"""The border of the layers: which generation of the batch rows serves a day, and what it covers.

A rebuild writes it, a reader merges by it, the audit proves it. A changed number is compared
with that of the first generation that covered its window. The columns are those of the tables
batch_pointer and batch_pointer_history (schemas/views/control.cql).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, NamedTuple, Self, TypeAlias

from tally.algebra.merge import WindowState
from tally.time.instants import assume_utc
from tally.time.windows import WINDOW, TimeRange, day_start, window_start

RANGE_COLUMNS = "day, generation, epoch, covered_from, covered_until"
# Those of the range come first: a history is often read without the others.
GENERATION_COLUMNS = f"{RANGE_COLUMNS}, table_version, flipped_at, pinned, through"
# Instants (UTC), from inclusive, to exclusive.
AnsweredSpan: TypeAlias = tuple[datetime, datetime]


# Apart from Generation: an answer reads every earlier generation, and does not need its large maps.
@dataclass(frozen=True)
class GenerationRange:
    """One generation of one day, with the windows that it covers.

    Those begin at or after covered_from and end by covered_until; a missing row of a covered window
    means that nothing happened in it.
    """

    day: date
    generation: int
    epoch: int
    covered_from: datetime
    covered_until: datetime

    def covers(self, start: datetime) -> bool:
        """Whether the generation holds all that was committed for the window when it was made."""
        # The whole window: if the border lies inside it, some records may not have arrived.
        return self.covered_from <= start and start + WINDOW <= self.covered_until

    def limit_to(self, span: AnsweredSpan | None) -> Self:
        """A copy that covers only the span in which it answers for a store; with None no window."""
        if span is None:
            return replace(self, covered_until=self.covered_from)
        since = max(self.covered_from, span[0])
        return replace(self, covered_from=since, covered_until=min(self.covered_until, span[1]))

    def resolve_state(self, start: datetime, held: WindowState | None) -> WindowState | None:
        """The window's state, with rows `held`; covered and without a row, it is an empty one."""
        if held is None and self.covers(start):
            return WindowState(self.epoch, 0, {})
        return held


@dataclass(frozen=True)
class Generation(GenerationRange):
    """A whole generation of a day.

    `pinned` is the first offset of each partition that it does not include, `through` the instant
    up to which every record of the partition that had arrived is counted; `table_version` is that
    of the master, `flipped_at` by the brokers' clock.
    """

    table_version: int
    flipped_at: datetime
    pinned: Mapping[int, int]
    through: Mapping[int, datetime]

    def is_within(self, until: Mapping[int, int]) -> bool:
        """Whether nothing is pinned beyond the given offsets."""
        pins = self.pinned.items()
        return all(until.get(number, 0) >= offset for number, offset in pins)


def parse_generation_range(row: Sequence[Any]) -> GenerationRange:
    """The range of a row with the columns RANGE_COLUMNS, as Cassandra's driver returns it."""
    day, generation, epoch, covered_from, covered_until = row
    # A row that is older than the column covers its day from the start.
    start = assume_utc(covered_from) if covered_from else day_start(day.date())
    return GenerationRange(day.date(), generation, epoch, start, assume_utc(covered_until))


def parse_generation(row: Sequence[Any]) -> Generation:
    """The Generation of a row with GENERATION_COLUMNS, as Cassandra's driver returns it."""
    *covering, table_version, flipped_at, pinned, through = row
    # The driver returns a map without entries as None.
    instants = (through or {}).items()
    return Generation(
        **vars(parse_generation_range(covering)),
        table_version=table_version,
        flipped_at=assume_utc(flipped_at),
        pinned=dict(pinned or {}),
        through={partition: assume_utc(instant) for partition, instant in instants},
    )


def parse_answered_span(row: Sequence[Any]) -> tuple[tuple[date, int], AnsweredSpan]:
    """Day and generation, and the span, of a row with the columns day, generation, since, until."""
    day, generation, since, until = row
    return (day.date(), generation), (assume_utc(since), assume_utc(until))


class FirstCoverage(NamedTuple):
    """A generation of a day, and the range of its windows that no generation before it covered."""

    covering: GenerationRange
    windows: TimeRange


def first_covering_generations(
    history: Sequence[GenerationRange], serving: GenerationRange
) -> list[FirstCoverage]:
    """The generations before the serving one that first covered a window, in their order."""
    # By window and not by day: the first generation of a day covers only its first hour, and a
    # number of a later hour that changed was compared with nothing (seen).
    found: list[FirstCoverage] = []
    for past in history:
        if past.generation < serving.generation and past.covered_from < past.covered_until:
            found += _new_coverage(past, found)
    return found


def first_covering(firsts: Iterable[FirstCoverage], start: datetime) -> GenerationRange | None:
    """The first of the generations that covers the window; None if none of them does."""
    return next((first.covering for first in firsts if first.covering.covers(start)), None)


def _new_coverage(
    covering: GenerationRange, before: Sequence[FirstCoverage]
) -> list[FirstCoverage]:
    start, end = covering.covered_from, covering.covered_until
    earlier = [first.covering for first in before]
    # At either end, for a day that is later declared as sent whole begins earlier from then on. The
    # window in which the earlier ones ended belongs to this one.
    ends = [window_start(past.covered_until) for past in earlier if past.covered_from <= start]
    starts = [past.covered_from for past in earlier if past.covered_until >= end]
    start, end = max([start, *ends]), min([end, *starts])
    return [FirstCoverage(covering, TimeRange(start, end))] if start < end else []
