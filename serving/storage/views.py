"""Reads of the serving tables, with LOCAL_QUORUM; of pointers and baselines, with SERIAL."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import NamedTuple, TypeAlias, TypeVar

from runtime.cassandra.writes import chunks
from runtime.http.work_pools import run_in_thread_if_large
from runtime.records.gaps import AcceptedGap, parse_gap
from runtime.registry.sources import FAMILIES
from serving.storage import tables
from serving.storage.connection import Bindings, Connection, CqlRow
from serving.storage.tables import Activity, AnsweredSpans, DayRange, TillFinding, ViewRow
from tally.alerts.baseline import BaselineSnapshot, parse_snapshot
from tally.alerts.message import Alert, decode_alert
from tally.config.settings import Settings
from tally.errors import BadQuery
from tally.families.family import Family
from tally.families.generation import (
    Generation,
    GenerationRange,
    parse_answered_span,
    parse_generation,
    parse_generation_range,
)
from tally.time.instants import assume_utc, format_utc
from tally.time.windows import window_start

# Partitions that one SELECT names with IN: few requests, and no coordinator gathers for long.
DAYS_AT_ONCE = 16
# Partitions of stores, or rows of one partition, that one SELECT names.
STORES_AT_ONCE, ALERT_STORES_AT_ONCE = 200, 100
# Dropped records are counted over at most so many micro-batches: no question reads years of them.

# UTC days.
Days: TypeAlias = Sequence[date]
_CoveringT = TypeVar("_CoveringT", bound=GenerationRange)


class AlertReader:
    """Reads of the projected alerts, moments behind the topic; all raise ViewsUnreachable."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read_raised(self, store_ids: Sequence[str], day: date) -> list[Alert]:
        """The last state of each alert of the stores that was raised on a UTC day, in no order."""
        lots = chunks(store_ids, ALERT_STORES_AT_ONCE)
        return await self._alerts(tables.ALERTS_RAISED, ((lot, day) for lot in lots))

    async def read_open(self, store_ids: Sequence[str]) -> list[Alert]:
        """The last state of each open raise of the stores, in no order."""
        lots = chunks(store_ids, ALERT_STORES_AT_ONCE)
        return await self._alerts(tables.ALERTS_OPEN, ((lot,) for lot in lots))

    async def read_life(self, alert_id: str) -> list[Alert]:
        """All messages of an alert and, for a raise, those of its ends, in no order.

        States before a retraction by an erasure are absent; the list is empty for an unknown id.
        """
        return await self._alerts(tables.ALERT_LIFE, [(alert_id,)])

    async def _alerts(self, statement: str, bindings: Bindings) -> list[Alert]:
        rows = await self._connection.gather(statement, bindings)
        # An erasure leaves the row, and removes its message.
        messages = [message for (message,) in rows if message is not None]
        return await run_in_thread_if_large(
            len(messages), lambda: [decode_alert(message) for message in messages]
        )


class BaselineReader:
    """Reads of the baselines that the nightly job has written."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def snapshot_for(self, day: date) -> BaselineSnapshot | None:
        """The newest snapshot that begins on or before a local day. Raises ViewsUnreachable."""
        # SERIAL: a row whose writer died is there for all later readers, or for none.
        rows = await self._connection.rows(tables.BASELINE, (day,), is_serial=True)
        for first_day, made_at, days in rows:
            return parse_snapshot(first_day.date(), assume_utc(made_at), days)
        return None


class ReceiptHead(NamedTuple):
    """A receipt's id, its offset, which orders the receipts of a store, and its closing time."""

    event_id: str
    offset: int
    happened_at: datetime


class StoredReceipt(NamedTuple):
    """A receipt with its lines, each as the JSON text of the canonical record."""

    event_id: str
    offset: int
    kind: str
    currency: str
    lines: Sequence[str]


class ReceiptReader:
    """Reads of the raw receipts; all raise ViewsUnreachable rather than answer in part.

    Of several copies with the same event_id and instant only the first by offset exists.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def heads(
        self, store_id: str, day: date, span: tuple[datetime, datetime], most: int
    ) -> list[ReceiptHead]:
        """Receipts of a UTC day that were closed in [start, end) of the span, at most `most`."""
        values = (day.isoformat(), store_id, *span, most)
        rows = await self._connection.rows(tables.RECEIPT_HEADS, values)
        return await run_in_thread_if_large(len(rows), _heads, rows)

    async def voids(self, store_id: str, day: date, most: int) -> list[ReceiptHead]:
        """The voids among the receipts of a UTC day, at most `most`."""
        values = (day.isoformat(), store_id, most)
        rows = await self._connection.rows(tables.RECEIPT_VOIDS, values)
        return await run_in_thread_if_large(len(rows), _heads, rows)

    async def receipts(self, store_id: str, first: datetime, last: datetime) -> list[StoredReceipt]:
        """Receipts closed from one instant to another, both inclusive and of one UTC day."""
        day = first.astimezone(UTC).date().isoformat()
        values = (day, store_id, first, last)
        rows = await self._connection.rows(tables.RECEIPTS, values)
        found = map(StoredReceipt._make, rows)
        # Cassandra may return an empty list as null.
        return [receipt._replace(lines=receipt.lines or []) for receipt in found]


def _heads(rows: Iterable[CqlRow]) -> list[ReceiptHead]:
    return [ReceiptHead(event_id, offset, assume_utc(closed)) for event_id, offset, closed in rows]


class _KnownPointers(NamedTuple):
    """All pointers of a family, and the token of the last flip among them."""

    token: int | None
    by_day: Mapping[date, Generation]


class ViewReader:
    """Reads over one connection, which is made on first use and again after a failure.

    Every method raises ViewsUnreachable rather than answer in part.
    """

    def __init__(self, settings: Settings) -> None:
        self._connection = Connection(settings)
        self.receipts = ReceiptReader(self._connection)
        self.alerts = AlertReader(self._connection)
        self.baselines = BaselineReader(self._connection)
        self._pointers: dict[str, _KnownPointers] = {}

    async def current_generations(self, family: Family, days: Days) -> dict[date, Generation]:
        """The generation that serves each UTC day that has one, in one linearizable read."""
        if not days:
            return {}
        values = (family.name,)
        # One value says whether a rebuild has published since the pointers were read.
        tokens = await self._connection.rows(tables.FLIP_TOKEN, values, is_serial=True)
        known = self._pointers.get(family.name)
        if known is None or known.token is None or [(known.token,)] != tokens:
            rows = await self._connection.rows(tables.CURRENT_GENERATIONS, values, is_serial=True)
            known = await run_in_thread_if_large(len(rows), _parse_pointers, rows)
            self._pointers[family.name] = known
        return {day: known.by_day[day] for day in days if day in known.by_day}

    async def newest(self, family: Family, first: date, last: date) -> int:
        """The highest generation that serves a day of the span now, linearizable; 0 without one."""
        values = (family.name, first, last)
        rows = await self._connection.rows(tables.NEWEST, values, is_serial=True)
        return max((generation for (generation,) in rows), default=0)

    async def coverings(self, family: Family, days: Days) -> dict[date, list[GenerationRange]]:
        """The coverage of every generation that ever served a UTC day, by day, in flip order."""
        # The newest may be absent, for its row is copied after a flip.
        rows = await self._read_days(tables.COVERINGS, days, family.name)
        return _by_day(parse_generation_range(row) for row in rows)

    async def history(self, family: Family, days: Days) -> dict[date, list[Generation]]:
        """The same generations as in coverings(), each with all of its columns."""
        rows = await self._read_days(tables.HISTORY, days, family.name)
        return _by_day(parse_generation(row) for row in rows)

    async def swept_until(self, family: Family, days: Days) -> datetime | None:
        """The instant before which `as_of` has no answer any more on one of the days, if any."""
        rows = await self._read_days(tables.SWEPT, days, family.name)
        return max((assume_utc(until) for _, until in rows), default=None)

    async def history_begin(self) -> datetime | None:
        """The instant before which receipts and alerts are not kept any more, if any."""
        rows = await self._connection.rows(tables.HISTORY_BEGIN, ())
        return max((assume_utc(until) for (until,) in rows), default=None)

    async def refuse_lost_history(self, start: datetime, what: str) -> None:
        """Raise BadQuery if receipts or alerts (`what`) from `start` on are not all kept."""
        begin = await self.history_begin()
        if begin is not None and start < begin:
            raise BadQuery(
                "from",
                f"from: {what} before {format_utc(begin)} are not kept any more"
                " (TALLY_HISTORY_DAYS says for how long they are)",
            )

    async def speed_rows(self, family: Family, store_id: str, days: Days) -> list[ViewRow]:
        """The rows of the speed layer, in no order."""
        # Each (store, day) partition is read whole, so that no window is seen half written.
        rows = await self._read_days(tables.speed_statement(family), days, store_id)
        return await run_in_thread_if_large(len(rows), tables.view_rows, family, rows)

    async def batch_versions(
        self, family: Family, store_id: str, days: Days
    ) -> tables.VersionsByDay:
        """All versions of the batch layer's rows, by UTC day."""
        rows = await self._read_days(tables.batch_statement(family), days, store_id)
        return await run_in_thread_if_large(len(rows), tables.row_versions, family, rows)

    async def read_answered_spans(self, family: Family, store_id: str, days: Days) -> AnsweredSpans:
        """The spans of the store's windows that the generations of a day answer for, if any."""
        rows = await self._read_days(tables.ANSWERED_SPANS, days, store_id, family.name)
        return dict(map(parse_answered_span, rows))

    async def findings(self, family: Family, store_id: str, days: Days) -> list[TillFinding]:
        """The store's tills with conflicts that are not accepted, by day and till."""
        rows = await self._read_days(tables.FINDINGS, days, family.name, after=(store_id,))
        found = (
            TillFinding(day.date(), till, records or 0, conflicts or 0, accepted or 0)
            for day, till, records, conflicts, accepted in rows
        )
        return sorted(finding for finding in found if finding.is_open)

    async def master_until(self, family: Family, days: Days) -> tables.UntilByDay:
        """The first offset not yet in the master dataset, by (day of the event, partition)."""
        rows = await self._read_days(tables.MASTER_UNTIL, days, family.name)
        return {(day.date(), partition): until for day, partition, until in rows}

    async def master_current(self, family: Family) -> datetime | None:
        """The instant at which the master ingest last said that it had read everything, if ever."""
        rows = await self._connection.rows(tables.MASTER_CURRENT, (family.name,))
        return next((assume_utc(current_at) for (current_at,) in rows if current_at), None)

    async def gaps(self, topics: Sequence[str]) -> list[AcceptedGap]:
        """Every accepted gap of the topics, in no order: few, for an operator entered each."""
        rows = await self._connection.rows(tables.GAPS, ([*topics],))
        return [*map(parse_gap, rows)]

    async def speed_until(self, family: Family) -> dict[int, int]:
        """The first offset that the speed layer has not read, by partition."""
        rows: list[CqlRow] = await self._connection.rows(tables.SPEED_UNTIL, (family.name,))
        return dict(rows)

    async def late_since(self, family: Family, since: datetime) -> int:
        """Records of all stores dropped as late since the quarter hour in which `since` lies."""
        start = window_start(since)
        [[dropped]] = await self._connection.rows(tables.LATE_RECORDS, (family.name, start))
        return int(dropped or 0)

    async def activity(self) -> list[Activity]:
        """Every store that ever had events, in no order."""
        each = await asyncio.gather(*map(self.active_stores, FAMILIES.values()))
        spans: dict[str, Activity] = {}
        for store in (store for stores in each for store in stores):
            first, last = spans.get(store.store_id, store)[1:]
            first, last = min(first, store.first_day), max(last, store.last_day)
            spans[store.store_id] = Activity(store.store_id, first, last)
        return list(spans.values())

    async def active_stores(self, family: Family) -> list[Activity]:
        """Every store that ever had events of the family, in no order."""
        rows = await self._connection.rows(tables.ACTIVITY, (family.name,))
        # The two days are separate writes, and a store is known once both have arrived.
        return [
            Activity(store_id, first_day.date(), last_day.date())
            for store_id, first_day, last_day in rows
            if first_day and last_day
        ]

    async def has_events(self, store_id: str, families: Sequence[Family]) -> bool:
        """Whether the store ever had an event of one of the families."""
        # It counts once both days of its span are there.
        values = ((family.name, store_id) for family in families)
        rows = await self._connection.gather(tables.STORE_ACTIVITY, values)
        return any(first and last for first, last in rows)

    async def axis_values(
        self, family: Family, axis: str, days: Mapping[str, DayRange], most: int
    ) -> dict[str, list[str]]:
        """The first `most` values of the axis in the events of each store's days, if any."""
        stores: dict[DayRange, list[str]] = defaultdict(list)
        for store_id, span in days.items():
            stores[span].append(store_id)
        values = (
            (family.name, axis, lot, last, first, most)
            for (first, last), of_span in stores.items()
            for lot in chunks(of_span, STORES_AT_ONCE)
        )
        rows = await self._connection.gather(tables.AXIS_VALUES, values)
        found: dict[str, list[str]] = defaultdict(list)
        for store_id, value in rows:
            found[store_id].append(value)
        return dict(found)

    async def check(self) -> None:
        """Return when the tables can be read; raise ViewsUnreachable when they cannot."""
        # Every table is read, with keys that do not exist: if a node lacks one, each answer fails.
        family = next(iter(FAMILIES.values()))
        pointers = self.current_generations(family, [date(1970, 1, 1)])
        rest = (self._connection.rows(*query) for query in tables.probe_queries())
        await asyncio.gather(pointers, *rest)

    async def _read_days(
        self, statement: str, days: Days, *before: object, after: Sequence[object] = ()
    ) -> list[CqlRow]:
        """The rows of the days, from a statement that has values before and after its days."""
        bindings = ((*before, lot, *after) for lot in chunks(days, DAYS_AT_ONCE))
        return await self._connection.gather(statement, bindings)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


def _parse_pointers(rows: Sequence[CqlRow]) -> _KnownPointers:
    # Without a day: the family has no pointer yet, only tokens.
    found = [parse_generation(row) for _, *row in rows if row[0] is not None]
    token = rows[0][0] if rows else None
    return _KnownPointers(token, {serving.day: serving for serving in found})


def _by_day(found: Iterable[_CoveringT]) -> dict[date, list[_CoveringT]]:
    by_day: dict[date, list[_CoveringT]] = defaultdict(list)
    for covering in sorted(found, key=lambda covering: covering.generation):
        by_day[covering.day].append(covering)
    return dict(by_day)
