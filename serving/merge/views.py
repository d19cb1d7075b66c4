"""What the serving tables hold, as values, and the protocol of whoever reads them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import NamedTuple, Protocol

from tally.families import Family
from tally.merge import Axes


class ViewRow(NamedTuple):
    """One row of a view, of the window's totals: parts in the order of the family; excluded is () in the speed layer."""

    window_start: datetime
    axes: Axes
    epoch: int
    events: int
    parts: tuple[int, ...]
    excluded: tuple[int, ...] = ()


@dataclass(frozen=True)
class Published:
    """One generation of one day: pinned is the first offset of each partition that it does not include, through the instant
    up to which every record of the partition that had arrived is counted; windows that end at or before covered_until are covered."""

    day: date
    generation: int
    epoch: int
    table_version: int
    covered_until: datetime
    flipped_at: datetime
    pinned: Mapping[int, int]
    through: Mapping[int, datetime]


class Activity(NamedTuple):
    """First and last UTC day on which a store had events in any family."""

    store_id: str
    first_day: date
    last_day: date


class ViewReader(Protocol):
    """Reads of the serving tables. Every method raises ViewsUnreachable rather than answer in part."""

    async def published(self, family: Family, days: Sequence[date]) -> dict[date, Published]:
        """The generation that serves each day now, in one linearizable read; days without one are absent."""
        ...

    async def history(self, family: Family, days: Sequence[date]) -> dict[date, list[Published]]:
        """Every generation that ever served each day, in the order of their flips; days without one are absent."""
        ...

    async def speed_rows(self, family: Family, store_id: str, days: Sequence[date]) -> list[ViewRow]:
        """Rows of the speed layer, in no order."""
        ...

    async def batch_rows(self, family: Family, store_id: str, generations: Mapping[date, int]) -> list[ViewRow]:
        """Rows of one generation a day, in no order."""
        ...

    async def master_until(self, family: Family, days: Sequence[date]) -> dict[tuple[date, int], int]:
        """First offset not yet in the master dataset, by (day of the event, partition)."""
        ...

    async def speed_until(self, family: Family) -> dict[int, int]:
        """First offset that the speed layer has not read, by partition."""
        ...

    async def late_since(self, family: Family, since: datetime) -> int:
        """Records that the speed layer has dropped as late after an instant, of all stores."""
        ...

    async def activity(self) -> list[Activity]:
        """Every store that ever had events, in no order."""
        ...

    async def check(self) -> None:
        """Nothing when the tables can be read."""
        ...
