"""Reads of the serving tables from Cassandra.

Views are read with LOCAL_QUORUM, pointers with SERIAL consistency.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any, TypeVar

from runtime.cassandra.chunks import chunks
from runtime.records.gaps import AcceptedGap, parse_gap
from runtime.registry.sources import FAMILIES
from serving.storage import statements
from serving.storage.baselines import CassandraBaselines
from serving.storage.cassandra_alerts import CassandraAlerts
from serving.storage.cassandra_receipts import CassandraReceipts
from serving.storage.connection import Connection, CqlRow
from serving.storage.offload import run_in_thread_if_large
from serving.storage.protocol import (
    Activity,
    AnsweredSpans,
    DayRange,
    GenerationSpan,
    TillFinding,
    ViewRow,
)
from tally.config.settings import Settings
from tally.families.family import TOTAL_DIM, Family
from tally.families.generation import (
    Generation,
    GenerationRange,
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


class CassandraViews:
    """A ViewReader over one connection, which is made on first use and again after a failure."""

    def __init__(self, settings: Settings) -> None:
        self._connection = Connection(settings)
        self.receipts = CassandraReceipts(self._connection)
        self.alerts = CassandraAlerts(self._connection)
        self.baselines = CassandraBaselines(self._connection)

    async def current_generations(
        self, family: Family, days: Sequence[date]
    ) -> dict[date, Generation]:
        """One SELECT of one partition of UTC days, SERIAL: never older than an earlier read."""
        if not days:
            return {}
        rows = await self._connection.rows(
            statements.CURRENT_GENERATIONS, (family.name, min(days), max(days)), is_serial=True
        )
        wanted = set(days)  # the span may hold others; one SELECT per day would be as many moments
        found = [parse_generation(row) for row in rows]
        return {serving.day: serving for serving in found if serving.day in wanted}

    async def newest(self, family: Family, first: date, last: date) -> int:
        """One SELECT from one partition, SERIAL."""
        rows = await self._connection.rows(
            statements.NEWEST, (family.name, first, last), is_serial=True
        )
        return max((generation for (generation,) in rows), default=0)

    async def coverings(
        self, family: Family, days: Sequence[date]
    ) -> dict[date, list[GenerationRange]]:
        """As history, by UTC day, without the maps."""
        lots = ((family.name, lot) for lot in _day_lots(days))
        rows = await self._gather(statements.COVERINGS, lots)
        return _by_day(parse_generation_range(row) for row in rows)

    async def history(
        self,
        family: Family,
        days: Sequence[date],
    ) -> dict[date, list[Generation]]:
        """The rows by UTC day; the newest may be absent, for they are copied after a flip."""
        rows = await self._gather(
            statements.HISTORY, ((family.name, lot) for lot in _day_lots(days))
        )
        return _by_day(parse_generation(row) for row in rows)

    async def speed_rows(
        self, family: Family, store_id: str, days: Sequence[date]
    ) -> list[ViewRow]:
        """Rows of (store, day) partitions.

        Each is read whole, so that no window of it is seen half written.
        """
        statement = statements.speed_statement(family)
        rows = await self._gather(statement, ((store_id, lot) for lot in _day_lots(days)))
        return await run_in_thread_if_large(len(rows), _view_rows, family, rows)

    async def batch_rows(
        self, family: Family, store_id: str, generations: Mapping[date, int]
    ) -> list[ViewRow]:
        """Rows of (store, day, generation) partitions."""
        # Days of one generation go into one IN: a month after its full rebuild is two queries and
        # not thirty.
        by_generation: dict[int, list[date]] = defaultdict(list)
        for day, generation in generations.items():
            by_generation[generation].append(day)
        values = (
            (store_id, lot, generation)
            for generation, days in by_generation.items()
            for lot in _day_lots(days)
        )
        rows = await self._gather(statements.batch_statement(family), values)
        return await run_in_thread_if_large(len(rows), _view_rows, family, rows)

    async def batch_span(
        self, family: Family, store_id: str, span: GenerationSpan
    ) -> list[ViewRow]:
        """Slices of (store, day, generation) partitions."""
        slice_key = span.generation, span.start, span.end
        values = ((store_id, lot, *slice_key) for lot in _day_lots(span.days))
        return _view_rows(family, await self._gather(statements.span_statement(family), values))

    async def read_answered_spans(
        self, family: Family, store_id: str, days: Sequence[date]
    ) -> AnsweredSpans:
        """One partition of the store."""
        rows = await self._gather(
            statements.ANSWERED_SPANS, ((store_id, family.name, lot) for lot in _day_lots(days))
        )
        return dict(map(parse_answered_span, rows))

    async def findings(
        self, family: Family, store_id: str, days: Sequence[date]
    ) -> list[TillFinding]:
        """Rows of (family, day) partitions; a till whose conflicts a rebuild cleared is absent."""
        rows = await self._gather(
            statements.FINDINGS, ((family.name, lot, store_id) for lot in _day_lots(days))
        )
        found = (
            TillFinding(day.date(), till, records or 0, conflicts or 0, accepted or 0)
            for day, till, records, conflicts, accepted in rows
        )
        return sorted(finding for finding in found if finding.is_open)

    async def master_until(
        self, family: Family, days: Sequence[date]
    ) -> dict[tuple[date, int], int]:
        """Offsets by (UTC day, partition)."""
        rows = await self._gather(
            statements.MASTER_UNTIL, ((family.name, lot) for lot in _day_lots(days))
        )
        return {(day.date(), partition): until for day, partition, until in rows}

    async def master_current(self, family: Family) -> datetime | None:
        """One row, a register of the ingest that only grows."""
        rows = await self._connection.rows(statements.MASTER_CURRENT, (family.name,))
        return next((assume_utc(current_at) for (current_at,) in rows if current_at), None)

    async def gaps(self, topics: Sequence[str]) -> list[AcceptedGap]:
        """All rows of the topics, which are few: an operator has entered each of them."""
        rows = await self._connection.rows(statements.GAPS, ([*topics],))
        return [*map(parse_gap, rows)]

    async def speed_until(self, family: Family) -> dict[int, int]:
        """Offsets by partition."""
        rows: list[CqlRow] = await self._connection.rows(statements.SPEED_UNTIL, (family.name,))
        return dict(rows)

    async def late_since(self, family: Family, since: datetime) -> int | None:
        """The sum of the micro-batches' counters; a cross-check, not a ledger."""
        rows = await self._connection.rows(
            statements.LATE_RECORDS, (family.name, since, MAX_LATE_ROWS)
        )
        # At the bound the sum would be too low, and hide late records.
        return None if len(rows) == MAX_LATE_ROWS else sum(dropped for (dropped,) in rows)

    async def activity(self) -> list[Activity]:
        """Stores of all families together."""
        each = await asyncio.gather(*map(self.active_stores, FAMILIES.values()))
        spans: dict[str, Activity] = {}
        for store in (store for stores in each for store in stores):
            first, last = spans.get(store.store_id, store)[1:]
            days = min(first, store.first_day), max(last, store.last_day)
            spans[store.store_id] = Activity(store.store_id, *days)
        return list(spans.values())

    async def active_stores(self, family: Family) -> list[Activity]:
        """Stores of one family."""
        rows = await self._connection.rows(statements.ACTIVITY, (family.name,))
        # The two days are separate writes, and a store is known once both have arrived.
        return [
            Activity(store_id, first_day.date(), last_day.date())
            for store_id, first_day, last_day in rows
            if first_day and last_day
        ]

    async def has_events(self, store_id: str, families: Sequence[Family]) -> bool:
        """One row of the store for each family; it counts once both days are there."""
        rows = await self._gather(
            statements.STORE_ACTIVITY, ((family.name, store_id) for family in families)
        )
        return any(first and last for first, last in rows)

    async def axis_values(
        self, family: Family, axis: str, days: Mapping[str, DayRange], most: int
    ) -> dict[str, list[str]]:
        """One partition for each store; stores with the same days go into one IN."""
        stores: dict[DayRange, list[str]] = defaultdict(list)
        for store_id, span in days.items():
            stores[span].append(store_id)
        rows = await self._gather(
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
        """Read every table that answers come from, with keys that do not exist.

        If a node lacks a single one of them, each answer fails.
        """
        family = next(iter(FAMILIES.values()))
        pointers = self.current_generations(family, [date(1970, 1, 1)])
        rest = (self._connection.rows(*query) for query in statements.probe_queries())
        await asyncio.gather(pointers, *rest)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    async def _gather(
        self,
        statement: str,
        bindings: Iterable[tuple[object, ...]],
    ) -> list[CqlRow]:
        answers = await asyncio.gather(
            *(self._connection.rows(statement, values) for values in bindings)
        )
        return [row for rows in answers for row in rows]


def _day_lots(days: Sequence[date]) -> Iterator[list[date]]:
    return chunks(days, DAYS_AT_ONCE)


def _by_day(found: Iterable[_CoveringT]) -> dict[date, list[_CoveringT]]:
    by_day: dict[date, list[_CoveringT]] = defaultdict(list)
    for covering in found:
        by_day[covering.day].append(covering)
    for coverings in by_day.values():
        coverings.sort(key=lambda covering: covering.generation)
    return dict(by_day)


def _view_rows(family: Family, rows: Iterable[tuple[Any, ...]]) -> list[ViewRow]:
    """The total rows (dim '*'), columns by position as in serving/storage/statements.py."""
    dim = 1 + len(family.axes)
    first, last = dim + 3, dim + 3 + len(family.parts)
    return [
        ViewRow(
            assume_utc(row[0]),
            tuple(row[1:dim]),
            row[last],
            row[first - 1],
            family.from_columns(row[first:last]),
            # Speed rows have none.
            family.from_columns(row[last + 1 :]) if len(row) > last + 1 else (),
        )
        for row in rows
        if row[dim] == TOTAL_DIM
    ]
