"""The serving tables read from Cassandra: views with LOCAL_QUORUM, pointers with SERIAL consistency."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from serving.merge import statements
from serving.merge.connection import Connection, Row
from serving.merge.views import Activity, Published, ViewRow
from tally.families import FAMILIES, TOTAL_DIM, Family
from tally.settings import Settings

# Partitions that one SELECT names with IN: few requests for a long span, and none that one coordinator has to gather for long.
DAYS_AT_ONCE = 16


class CassandraViews:
    """A ViewReader over one connection, which is made on first use and made again after a failure."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connection = Connection(settings)

    async def published(self, family: Family, days: Sequence[date]) -> dict[date, Published]:
        """One SELECT from one partition, SERIAL: never part of a flip, never older than an earlier read."""
        if not days:
            return {}
        rows = await self._connection.rows(statements.PUBLISHED, (family.name, min(days), max(days)), is_serial=True)
        asked = set(days)
        found = [_published(row) for row in rows]
        return {one.day: one for one in found if one.day in asked}

    async def history(self, family: Family, days: Sequence[date]) -> dict[date, list[Published]]:
        """The history is copied from the pointers after a flip, so it may lack the newest one for a moment."""
        by_day: dict[date, list[Published]] = defaultdict(list)
        for row in await self._gather(statements.HISTORY, ((family.name, some) for some in _chunks(days))):
            one = _published(row)
            by_day[one.day].append(one)
        return {day: sorted(found, key=lambda one: one.generation) for day, found in by_day.items()}

    async def speed_rows(self, family: Family, store_id: str, days: Sequence[date]) -> list[ViewRow]:
        """Rows of (store, day) partitions; each is read whole, so no window of it is seen half written."""
        statement = statements.speed_statement(family, self._settings)
        return _view_rows(family, await self._gather(statement, ((store_id, some) for some in _chunks(days))))

    async def batch_rows(self, family: Family, store_id: str, generations: Mapping[date, int]) -> list[ViewRow]:
        """Rows of (store, day, generation) partitions."""
        by_generation: dict[int, list[date]] = defaultdict(list)
        for day, generation in generations.items():
            by_generation[generation].append(day)
        asked = ((store_id, some, generation) for generation, days in by_generation.items() for some in _chunks(days))
        return _view_rows(family, await self._gather(statements.batch_statement(family), asked))

    async def master_until(self, family: Family, days: Sequence[date]) -> dict[tuple[date, int], int]:
        """Positions by (day, partition)."""
        rows = await self._gather(statements.MASTER_UNTIL, ((family.name, some) for some in _chunks(days)))
        return {(day.date(), partition): until for day, partition, until in rows}

    async def speed_until(self, family: Family) -> dict[int, int]:
        """Positions by partition."""
        rows: list[Row] = await self._connection.rows(statements.SPEED_UNTIL, (family.name,))
        return {row[0]: row[1] for row in rows}

    async def late_since(self, family: Family, since: datetime) -> int:
        """Sum of the micro-batches' counters; a cross-check, not a ledger."""
        rows = await self._connection.rows(statements.LATE, (family.name, since))
        return int(rows[0][0] or 0)

    async def activity(self) -> list[Activity]:
        """Stores of all families together."""
        rows = await self._gather(statements.ACTIVITY, ((name,) for name in FAMILIES))
        spans: dict[str, Activity] = {}
        # The two days are two writes: a store of which one has not arrived yet is not known yet.
        for store_id, first, last in ((row[0], row[1].date(), row[2].date()) for row in rows if row[1] and row[2]):
            known = spans.get(store_id, Activity(store_id, first, last))
            spans[store_id] = Activity(store_id, min(first, known.first_day), max(last, known.last_day))
        return list(spans.values())

    async def check(self) -> None:
        """One read of each kind."""
        await asyncio.gather(self.published(FAMILIES["sales"], [date(1970, 1, 1)]), self.speed_until(FAMILIES["sales"]))

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    async def _gather(self, statement: str, asked: Iterable[tuple[object, ...]]) -> list[Row]:
        answers = await asyncio.gather(*(self._connection.rows(statement, values) for values in asked))
        return [row for rows in answers for row in rows]


def _chunks(days: Sequence[date]) -> Iterator[list[date]]:
    return (list(days[first : first + DAYS_AT_ONCE]) for first in range(0, len(days), DAYS_AT_ONCE))


def _published(row: Row) -> Published:
    day, generation, epoch, version, covered_until, flipped_at, pinned, through = row
    instants = {partition: _utc(instant) for partition, instant in (through or {}).items()}
    return Published(day.date(), generation, epoch, version, _utc(covered_until), _utc(flipped_at), dict(pinned or {}), instants)


def _view_rows(family: Family, rows: Iterable[tuple[Any, ...]]) -> list[ViewRow]:
    """The total rows (dim '*'), columns by position as in serving/merge/statements.py."""
    dim = 1 + len(family.axes)
    first, last = dim + 3, dim + 3 + len(family.parts)
    return [
        ViewRow(
            _utc(row[0]), tuple(row[1:dim]), row[last] if len(row) > last else family.epoch, row[first - 1],
            tuple(row[first:last]), tuple(value or 0 for value in row[last + 1 :]),
        )
        for row in rows
        if row[dim] == TOTAL_DIM
    ]  # fmt: skip


def _utc(instant: datetime) -> datetime:
    """The driver answers UTC without saying so."""
    return instant.replace(tzinfo=UTC)
