"""The border of the layers: which generation of the batch rows serves a day, and what it covers.

A rebuild writes it, a reader merges by it, the audit proves it. The columns are those of the
tables batch_pointer and batch_pointer_history (schemas/views/control.cql).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any

from tally.algebra.merge import WindowState
from tally.windows import WINDOW

COVERING_COLUMNS = "day, generation, epoch, covered_from, covered_until"
GENERATION_COLUMNS = f"{COVERING_COLUMNS}, table_version, flipped_at, pinned, through"


# Two classes: the maps of the second are long, and of all generations that ever were an answer of
# now needs the first alone.
@dataclass(frozen=True)
class Covering:
    """One generation of one day, by what it covers.

    That is the windows that begin at or after covered_from and end by covered_until: there no row
    means that nothing happened.
    """

    day: date
    generation: int
    epoch: int
    covered_from: datetime
    covered_until: datetime

    def covers(self, start: datetime) -> bool:
        """Whether it holds everything committed for the window when it was made."""
        # Wholly: of a window in which the border lies some records may not have arrived.
        return self.covered_from <= start and start + WINDOW <= self.covered_until

    def state_of(self, start: datetime, held: WindowState | None) -> WindowState | None:
        """Its state of the window, of which its rows are `held`.

        A covered window without a row is an empty one, of the generation's epoch.
        """
        if held is None and self.covers(start):
            return WindowState(self.epoch, 0, {})
        return held


@dataclass(frozen=True)
class Generation(Covering):
    """A generation of a day whole.

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


def covering_of(row: Sequence[Any]) -> Covering:
    """A row in the columns COVERING_COLUMNS, as Cassandra's driver gives it."""
    return Covering(*_coverage(row))


def generation_of(row: Sequence[Any]) -> Generation:
    """A row in the columns GENERATION_COLUMNS, as Cassandra's driver gives it."""
    version, flipped_at, pinned, through = row[5:9]
    instants = {partition: utc(instant) for partition, instant in (through or {}).items()}
    return Generation(
        *_coverage(row),
        version,
        utc(flipped_at),
        dict(pinned or {}),
        instants,
    )


def _coverage(row: Sequence[Any]) -> tuple[date, int, int, datetime, datetime]:
    day = row[0].date()
    generation, epoch, covered_from, covered_until = row[1:5]
    # A row of before the column was there covers its day from the start.
    start = utc(covered_from) if covered_from else datetime.combine(day, time.min, UTC)
    return day, generation, epoch, start, utc(covered_until)


def utc(instant: datetime) -> datetime:
    """The instant that Cassandra's driver gave: UTC, without saying so."""
    return instant.replace(tzinfo=UTC)
