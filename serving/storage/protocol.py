"""The values that the serving tables hold, and the protocol of their readers."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import NamedTuple, Protocol, TypeAlias

from serving.storage.alerts import AlertReader
from serving.storage.receipts import ReceiptReader
from tally.alerts.baseline_snapshot import BaselineSnapshot
from tally.algebra.merge import Axes
from tally.algebra.parts import Value
from tally.families.family import Family
from tally.families.generation import AnsweredSpan, Generation, GenerationRange

# First and last UTC day, both inclusive.
DayRange: TypeAlias = tuple[date, date]
# By UTC day and generation.
AnsweredSpans: TypeAlias = Mapping[tuple[date, int], AnsweredSpan]


class ViewRow(NamedTuple):
    """One row of a view with the window's totals; parts are in the order of the family.

    `excluded` is () in the speed layer.
    """

    window_start: datetime
    axes: Axes
    epoch: int
    events: int
    parts: tuple[Value, ...]
    excluded: tuple[Value, ...] = ()


class GenerationSpan(NamedTuple):
    """Days of one generation, and the span of instants whose rows are read.

    The span is [start, end).
    """

    generation: int
    days: tuple[date, ...]
    start: datetime
    end: datetime


class Activity(NamedTuple):
    """First and last UTC day on which a store had events in any family."""

    store_id: str
    first_day: date
    last_day: date


class Gap(NamedTuple):
    """Records of a topic-partition that were gone before they were read.

    They arrived between the two instants.
    """

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    first_arrival: datetime
    last_arrival: datetime
    reason: str


class TillFinding(NamedTuple):
    """A till of the asked store, and how many of its records of a day are conflicts.

    `accepted` is the number of conflicts that an operator has accepted.
    """

    day: date
    till_id: str
    records: int
    conflicts: int
    accepted: int = 0

    @property
    def is_open(self) -> bool:
        """Whether the day is not final because of it."""
        return self.conflicts > self.accepted


class BaselineReader(Protocol):
    """Reads of the baselines that the nightly job has written."""

    async def snapshot_for(self, day: date) -> BaselineSnapshot | None:
        """The newest snapshot that begins on or before a local day; None before the first.

        Raises ViewsUnreachable.
        """
        ...


class ViewReader(Protocol):
    """Reads of the serving tables.

    Every method raises ViewsUnreachable rather than answer in part.
    """

    @property
    def receipts(self) -> ReceiptReader:
        """The reader of the receipts that the views' numbers are computed from."""
        ...

    @property
    def alerts(self) -> AlertReader:
        """The reader of the alerts that the views' numbers raised."""
        ...

    @property
    def baselines(self) -> BaselineReader:
        """The reader of the baselines that rules compare with."""
        ...

    async def current_generations(
        self, family: Family, days: Sequence[date]
    ) -> dict[date, Generation]:
        """The generation that serves each UTC day now, in one linearizable read.

        Days without one are absent.
        """
        ...

    async def newest(self, family: Family, first: date, last: date) -> int:
        """The highest generation that serves a day of the span now, linearizable; 0 without one."""
        ...

    async def coverings(
        self,
        family: Family,
        days: Sequence[date],
    ) -> dict[date, list[GenerationRange]]:
        """The coverage of every generation that ever served a UTC day, by day, in order of flips.

        Days without one are absent.
        """
        ...

    async def history(
        self,
        family: Family,
        days: Sequence[date],
    ) -> dict[date, list[Generation]]:
        """The same generations as in coverings(), each with all of its columns."""
        ...

    async def speed_rows(
        self, family: Family, store_id: str, days: Sequence[date]
    ) -> list[ViewRow]:
        """The rows of the speed layer, in no order."""
        ...

    async def batch_rows(
        self, family: Family, store_id: str, generations: Mapping[date, int]
    ) -> list[ViewRow]:
        """The rows of one generation for each day, in no order."""
        ...

    async def batch_span(
        self, family: Family, store_id: str, span: GenerationSpan
    ) -> list[ViewRow]:
        """The rows of one generation that begin in the span, in no order."""
        ...

    async def read_answered_spans(
        self, family: Family, store_id: str, days: Sequence[date]
    ) -> AnsweredSpans:
        """The spans of the store's windows that the generations of a day answer for.

        Generations that answer for none are absent.
        """
        ...

    async def findings(
        self,
        family: Family,
        store_id: str,
        days: Sequence[date],
    ) -> list[TillFinding]:
        """The store's tills with conflicts that are not accepted, by day and till."""
        ...

    async def master_until(
        self, family: Family, days: Sequence[date]
    ) -> dict[tuple[date, int], int]:
        """The first offset not yet in the master dataset, by (day of the event, partition)."""
        ...

    async def master_current(self, family: Family) -> datetime | None:
        """The instant at which the master ingest last had read everything that was committed.

        None if it never said so.
        """
        ...

    async def gaps(self, topics: Sequence[str]) -> list[Gap]:
        """Every accepted gap of the topics, in no order."""
        ...

    async def speed_until(self, family: Family) -> dict[int, int]:
        """The first offset that the speed layer has not read, by partition."""
        ...

    async def late_since(self, family: Family, since: datetime) -> int | None:
        """The number of records, of all stores, that the speed layer dropped as late since `since`.

        None if that is too much to count.
        """
        ...

    async def activity(self) -> list[Activity]:
        """Every store that ever had events, in no order."""
        ...

    async def active_stores(self, family: Family) -> list[Activity]:
        """Every store that ever had events of the family, in no order."""
        ...

    async def has_events(self, store_id: str, families: Sequence[Family]) -> bool:
        """Whether the store ever had an event of one of the families."""
        ...

    async def axis_values(
        self,
        family: Family,
        axis: str,
        days: Mapping[str, DayRange],
        most: int,
    ) -> dict[str, list[str]]:
        """The values of the axis in the events of each store's days, by store, ascending.

        Only the first `most` of them are read; a store without any is absent.
        """
        ...

    async def check(self) -> None:
        """Return when the tables can be read; raise ViewsUnreachable when they cannot."""
        ...
