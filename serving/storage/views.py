"""Reads of the serving tables.

Views are read with LOCAL_QUORUM, pointers with SERIAL consistency.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import TypeVar

from runtime.cassandra.reads import chunks
from runtime.http.work_pools import run_in_thread_if_large
from runtime.records.gaps import AcceptedGap, parse_gap
from runtime.registry.sources import FAMILIES
from serving.storage import statements
from serving.storage.alerts import AlertReader
from serving.storage.baselines import BaselineReader
from serving.storage.connection import Connection, CqlRow
from serving.storage.receipts import ReceiptReader
from serving.storage.rows import (
    Activity,
    AnsweredSpans,
    DayRange,
    TillFinding,
    ViewRow,
    view_rows,
)
from tally.config.settings import Settings
from tally.families.family import Family
from tally.families.generation import (
    Generation,
    GenerationRange,
    GenerationSpan,
    parse_answered_span,
    parse_generation,
    parse_generation_range,
)
from tally.time.instants import assume_utc

# Partitions that one SELECT names with IN: few requests, and no coordinator gathers for long.
DAYS_AT_ONCE = 16
# Partitions of stores, or rows of one partition, that one SELECT names.
STORES_AT_ONCE = 200
# Records that the speed layer dropped are counted over at most this many of its micro-batches: the
# oldest question must not read years of them.
MAX_LATE_ROWS = 5_000

_CoveringT = TypeVar("_CoveringT", bound=GenerationRange)


class ViewReader:
    """Reads over one connection, which is made on first use and again after a failure.

    Every method raises ViewsUnreachable rather than answer in part.
    """

    def __init__(self, settings: Settings) -> None:
        self._connection = Connection(settings)
        self.receipts = ReceiptReader(self._connection)
        self.alerts = AlertReader(self._connection)
        self.baselines = BaselineReader(self._connection)

    async def current_generations(
        self, family: Family, days: Sequence[date]
    ) -> dict[date, Generation]:
        """The generation that serves each UTC day now, in one linearizable read (SERIAL).

        Days without one are absent.
        """
        if not days:
            return {}
        rows = await self._connection.rows(
            statements.CURRENT_GENERATIONS, (family.name, min(days), max(days)), is_serial=True
        )
        wanted = set(days)  # the span may hold others; one SELECT per day would be as many moments
        found = [parse_generation(row) for row in rows]
        return {serving.day: serving for serving in found if serving.day in wanted}

    async def newest(self, family: Family, first: date, last: date) -> int:
        """The highest generation that serves a day of the span now, linearizable; 0 without one."""
        rows = await self._connection.rows(
            statements.NEWEST, (family.name, first, last), is_serial=True
        )
        return max((generation for (generation,) in rows), default=0)

    async def coverings(
        self, family: Family, days: Sequence[date]
    ) -> dict[date, list[GenerationRange]]:
        """The coverage of every generation that ever served a UTC day, by day, in order of flips.

        Days without one are absent. The newest may be, for its row is copied after a flip.
        """
        rows = await self._read_days(statements.COVERINGS, days, family.name)
        return _by_day(parse_generation_range(row) for row in rows)

    async def history(
        self,
        family: Family,
        days: Sequence[date],
    ) -> dict[date, list[Generation]]:
        """The same generations as in coverings(), each with all of its columns."""
        rows = await self._read_days(statements.HISTORY, days, family.name)
        return _by_day(parse_generation(row) for row in rows)

    async def speed_rows(
        self, family: Family, store_id: str, days: Sequence[date]
    ) -> list[ViewRow]:
        """The rows of the speed layer, in no order.

        Each (store, day) partition is read whole, so that no window is seen half written.
        """
        rows = await self._read_days(statements.speed_statement(family), days, store_id)
        return await run_in_thread_if_large(len(rows), view_rows, family, rows)

    async def batch_rows(
        self, family: Family, store_id: str, generations: Mapping[date, int]
    ) -> list[ViewRow]:
        """The rows of one generation for each day, in no order."""
        # Days of one generation go into one IN: a month after its full rebuild is two queries and
        # not thirty.
        by_generation: dict[int, list[date]] = defaultdict(list)
        for day, generation in generations.items():
            by_generation[generation].append(day)
        values = (
            (store_id, lot, generation)
            for generation, days in by_generation.items()
            for lot in chunks(days, DAYS_AT_ONCE)
        )
        rows = await self._connection.gather(statements.batch_statement(family), values)
        return await run_in_thread_if_large(len(rows), view_rows, family, rows)

    async def batch_span(
        self, family: Family, store_id: str, span: GenerationSpan
    ) -> list[ViewRow]:
        """The rows of one generation that begin in the span, in no order."""
        statement = statements.span_statement(family)
        after = (span.generation, *span.starts)
        rows = await self._read_days(statement, span.days, store_id, after=after)
        return view_rows(family, rows)

    async def read_answered_spans(
        self, family: Family, store_id: str, days: Sequence[date]
    ) -> AnsweredSpans:
        """The spans of the store's windows that the generations of a day answer for.

        Generations that answer for none are absent.
        """
        rows = await self._read_days(statements.ANSWERED_SPANS, days, store_id, family.name)
        return dict(map(parse_answered_span, rows))

    async def findings(
        self, family: Family, store_id: str, days: Sequence[date]
    ) -> list[TillFinding]:
        """The store's tills with conflicts that are not accepted, by day and till."""
        rows = await self._read_days(statements.FINDINGS, days, family.name, after=(store_id,))
        found = (
            TillFinding(day.date(), till, records or 0, conflicts or 0, accepted or 0)
            for day, till, records, conflicts, accepted in rows
        )
        return sorted(finding for finding in found if finding.is_open)

    async def master_until(
        self, family: Family, days: Sequence[date]
    ) -> dict[tuple[date, int], int]:
        """The first offset not yet in the master dataset, by (day of the event, partition)."""
        rows = await self._read_days(statements.MASTER_UNTIL, days, family.name)
        return {(day.date(), partition): until for day, partition, until in rows}

    async def master_current(self, family: Family) -> datetime | None:
        """The instant at which the master ingest last had read everything that was committed.

        None if it never said so.
        """
        rows = await self._connection.rows(statements.MASTER_CURRENT, (family.name,))
        return next((assume_utc(current_at) for (current_at,) in rows if current_at), None)

    async def gaps(self, topics: Sequence[str]) -> list[AcceptedGap]:
        """Every accepted gap of the topics, in no order: few, for an operator entered each."""
        rows = await self._connection.rows(statements.GAPS, ([*topics],))
        return [*map(parse_gap, rows)]

    async def speed_until(self, family: Family) -> dict[int, int]:
        """The first offset that the speed layer has not read, by partition."""
        rows: list[CqlRow] = await self._connection.rows(statements.SPEED_UNTIL, (family.name,))
        return dict(rows)

    async def late_since(self, family: Family, since: datetime) -> int | None:
        """The number of records, of all stores, that the speed layer dropped as late since `since`.

        None if that is too much to count. It is a cross-check, not a ledger.
        """
        rows = await self._connection.rows(
            statements.LATE_RECORDS, (family.name, since, MAX_LATE_ROWS)
        )
        # At the bound the sum would be too low, and hide late records.
        return None if len(rows) == MAX_LATE_ROWS else sum(dropped for (dropped,) in rows)

    async def activity(self) -> list[Activity]:
        """Every store that ever had events, in no order."""
        each = await asyncio.gather(*map(self.active_stores, FAMILIES.values()))
        spans: dict[str, Activity] = {}
        for store in (store for stores in each for store in stores):
            first, last = spans.get(store.store_id, store)[1:]
            days = min(first, store.first_day), max(last, store.last_day)
            spans[store.store_id] = Activity(store.store_id, *days)
        return list(spans.values())

    async def active_stores(self, family: Family) -> list[Activity]:
        """Every store that ever had events of the family, in no order."""
        rows = await self._connection.rows(statements.ACTIVITY, (family.name,))
        # The two days are separate writes, and a store is known once both have arrived.
        return [
            Activity(store_id, first_day.date(), last_day.date())
            for store_id, first_day, last_day in rows
            if first_day and last_day
        ]

    async def has_events(self, store_id: str, families: Sequence[Family]) -> bool:
        """Whether the store ever had an event of one of the families.

        It counts once both days of its span are there.
        """
        rows = await self._connection.gather(
            statements.STORE_ACTIVITY, ((family.name, store_id) for family in families)
        )
        return any(first and last for first, last in rows)

    async def axis_values(
        self, family: Family, axis: str, days: Mapping[str, DayRange], most: int
    ) -> dict[str, list[str]]:
        """The values of the axis in the events of each store's days, by store, ascending.

        Only the first `most` of them are read; a store without any is absent.
        """
        stores: dict[DayRange, list[str]] = defaultdict(list)
        for store_id, span in days.items():
            stores[span].append(store_id)
        rows = await self._connection.gather(
            statements.AXIS_VALUES,
            (
                (family.name, axis, lot, last, first, most)
                for (first, last), of_span in stores.items()
                for lot in chunks(of_span, STORES_AT_ONCE)
            ),
        )
        found: dict[str, list[str]] = defaultdict(list)
        for store_id, value in rows:
            found[store_id].append(value)
        return dict(found)

    async def check(self) -> None:
        """Return when the tables can be read; raise ViewsUnreachable when they cannot.

        Every table that answers come from is read, with keys that do not exist: if a node lacks a
        single one of them, each answer fails.
        """
        family = next(iter(FAMILIES.values()))
        pointers = self.current_generations(family, [date(1970, 1, 1)])
        rest = (self._connection.rows(*query) for query in statements.probe_queries())
        await asyncio.gather(pointers, *rest)

    async def _read_days(
        self,
        statement: str,
        days: Sequence[date],
        *before: object,
        after: Sequence[object] = (),
    ) -> list[CqlRow]:
        """The rows of the days, from a statement that has values before and after its days."""
        lots = chunks(days, DAYS_AT_ONCE)
        bindings = ((*before, lot, *after) for lot in lots)
        return await self._connection.gather(statement, bindings)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


def _by_day(found: Iterable[_CoveringT]) -> dict[date, list[_CoveringT]]:
    by_day: dict[date, list[_CoveringT]] = defaultdict(list)
    for covering in found:
        by_day[covering.day].append(covering)
    for coverings in by_day.values():
        coverings.sort(key=lambda covering: covering.generation)
    return dict(by_day)
