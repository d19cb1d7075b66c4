"""What the serving tables hold, as values, and the protocol of whoever reads them."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import NamedTuple, Protocol, TypeAlias

from serving.merge.alerts import AlertReader
from serving.merge.baselines import BaselineReader
from serving.merge.receipts import ReceiptReader
from tally.algebra.merge import Axes
from tally.algebra.parts import Value
from tally.families import Family
from tally.generation import AnsweredSpan, Covering, Generation

# First and last UTC day, both inclusive.
Days: TypeAlias = tuple[date, date]
# By UTC day and generation.
AnsweredSpans: TypeAlias = Mapping[tuple[date, int], AnsweredSpan]


class ViewRow(NamedTuple):
    """One row of a view, of the window's totals: parts in the order of the family.

    `excluded` is () in the speed layer.
    """

    window_start: datetime
    axes: Axes
    epoch: int
    events: int
    parts: tuple[Value, ...]
    excluded: tuple[Value, ...] = ()


class GenerationSpan(NamedTuple):
    """Days of one generation, and the span of instants whose rows are asked for.

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


class Finding(NamedTuple):
    """A till of the asked store of which so many of a day's records are conflicts.

    `accepted`: so many of them somebody lets stand.
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


class ViewReader(Protocol):
    """Reads of the serving tables.

    Every method raises ViewsUnreachable rather than answer in part.
    """

    @property
    def receipts(self) -> ReceiptReader:
        """The receipts that the views' numbers are of."""
        ...

    @property
    def alerts(self) -> AlertReader:
        """The alerts that the views' numbers called for."""
        ...

    @property
    def baselines(self) -> BaselineReader:
        """What is usual, as rules compare with it."""
        ...

    async def published(self, family: Family, days: Sequence[date]) -> dict[date, Generation]:
        """By UTC day the generation that serves it now, in one linearizable read.

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
    ) -> dict[date, list[Covering]]:
        """By UTC day what every generation that ever served it covered, in order of their flips.

        Days without one are absent.
        """
        ...

    async def history(
        self,
        family: Family,
        days: Sequence[date],
    ) -> dict[date, list[Generation]]:
        """The same, each generation whole."""
        ...

    async def speed_rows(
        self, family: Family, store_id: str, days: Sequence[date]
    ) -> list[ViewRow]:
        """Rows of the speed layer, in no order."""
        ...

    async def batch_rows(
        self, family: Family, store_id: str, generations: Mapping[date, int]
    ) -> list[ViewRow]:
        """Rows of one generation a day, in no order."""
        ...

    async def batch_span(
        self, family: Family, store_id: str, span: GenerationSpan
    ) -> list[ViewRow]:
        """Rows of one generation that begin in the span, in no order."""
        ...

    async def answered(self, family: Family, store_id: str, days: Sequence[date]) -> AnsweredSpans:
        """For which of the store's windows the generations of a day answer.

        Those that answer for none are absent.
        """
        ...

    async def findings(
        self,
        family: Family,
        store_id: str,
        days: Sequence[date],
    ) -> list[Finding]:
        """The store's tills with conflicts that nobody has accepted, by day and till."""
        ...

    async def master_until(
        self, family: Family, days: Sequence[date]
    ) -> dict[tuple[date, int], int]:
        """First offset not yet in the master dataset, by (day of the event, partition)."""
        ...

    async def master_current(self, family: Family) -> datetime | None:
        """When the master ingest last had read everything that was committed.

        None if it never said.
        """
        ...

    async def gaps(self, topics: Sequence[str]) -> list[Gap]:
        """Every accepted gap of the topics, in no order."""
        ...

    async def speed_until(self, family: Family) -> dict[int, int]:
        """First offset that the speed layer has not read, by partition."""
        ...

    async def late_since(self, family: Family, since: datetime) -> int | None:
        """Records of all stores that the speed layer has dropped as late after an instant.

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
        days: Mapping[str, Days],
        most: int,
    ) -> dict[str, list[str]]:
        """By store the values of the axis that its events of its days name, ascending.

        The first `most` of them; a store without any is absent.
        """
        ...

    async def check(self) -> None:
        """Return when the tables can be read; raise ViewsUnreachable when they cannot."""
        ...
