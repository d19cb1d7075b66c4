"""The answer to a question about a metric: read both layers, merge, sum up, and say what it is worth."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from serving.api import cells
from serving.api.catalogue import Metric
from serving.api.instants import shown
from serving.api.question import StoreSlots
from serving.api.stores import StoreBook
from serving.merge.reading import Pointers, StoreDays, read_pointers, read_pointers_as_of, read_store
from serving.merge.served import FamilyReading, serve_windows, through_of
from serving.merge.views import ViewReader
from tally.errors import BadQuery
from tally.families import Family
from tally.partitions import partition_of
from tally.windows import utc_days, window_starts

_EPOCH_START = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True)
class Asked:
    """One page of a question: the metric, its stretches by store, dimensions, and the instant whose answer is wanted."""

    metric: Metric
    stores: Sequence[StoreSlots]
    by: Sequence[str]
    as_of: datetime | None


@dataclass(frozen=True)
class StoreAnswer:
    """One store's cells and how far its records are counted."""

    asked: StoreSlots
    found: list[cells.Cell]
    through: datetime | None


class Answerer:
    """Answers from one set of views."""

    def __init__(self, views: ViewReader, book: StoreBook, partitions: int) -> None:
        self._views, self._book, self._partitions = views, book, partitions

    async def answer(self, asked: Asked) -> dict[str, Any]:
        """`series`, `currency`, `source`, `status`, `complete`, `through` and `speed`. Raises ViewsUnreachable, BadQuery."""
        pointers = await self._all_pointers(asked)
        stores, speed = await asyncio.gather(
            asyncio.gather(*(self._store(store, pointers) for store in asked.stores)), self._speed(pointers, asked.as_of)
        )
        everything = [cell for store in stores for cell in store.found]
        return {
            "currency": self._currency(asked, stores), **_worth(everything), "through": _through(stores), "speed": speed,
            "series": [{"store": store.asked.store_id, "rows": self._rows(asked, store)} for store in stores],
        }  # fmt: skip

    async def read(self, asked: Asked) -> list[StoreAnswer]:
        """Each store's cells, for a reader in this process. Raises ViewsUnreachable."""
        pointers = await self._all_pointers(asked)
        return await asyncio.gather(*(self._store(store, pointers) for store in asked.stores))

    async def _all_pointers(self, asked: Asked) -> list[Pointers]:
        days = sorted({day for store in asked.stores for day in _days(store)})
        return await asyncio.gather(*(self._pointers(family, days, asked.as_of) for family in asked.metric.families))

    async def _pointers(self, family: Family, days: Sequence[date], as_of: datetime | None) -> Pointers:
        if as_of is None:
            return await read_pointers(self._views, family, days)
        return await read_pointers_as_of(self._views, family, days, as_of)

    async def _store(self, store: StoreSlots, pointers: Sequence[Pointers]) -> StoreAnswer:
        days = _days(store)
        wanted = StoreDays(store.store_id, partition_of(store.store_id, self._partitions), days)
        readings = await asyncio.gather(*(read_store(self._views, one, wanted) for one in pointers))
        starts = window_starts(store.slots[0][0], store.slots[-1][1])
        windows = zip(*(serve_windows(reading, starts) for reading in readings), strict=True)
        return StoreAnswer(store, cells.cells(store.slots, windows), _earliest(readings, days))

    async def _speed(self, pointers: Sequence[Pointers], as_of: datetime | None) -> dict[str, Any] | None:
        """How far the speed layer has read, and what it dropped since the oldest pin here; nothing about the past."""
        if as_of is not None:
            return None
        # Later than that a record may be in neither; one that is in the generation after all counts here too, to be safe.
        since = [min((at for one in family.published.values() for at in one.through.values()), default=_EPOCH_START) for family in pointers]
        offsets = await asyncio.gather(*(self._views.speed_until(one.family) for one in pointers))
        late = await asyncio.gather(*(self._views.late_since(one.family, instant) for one, instant in zip(pointers, since, strict=True)))
        # Partitions of two topics have the same numbers: named as Kafka does, topic-partition.
        names = [f"{one.family.name}-" if len(pointers) > 1 else "" for one in pointers]
        named = zip(names, offsets, strict=True)
        reached = {f"{name}{partition}": until for name, of in named for partition, until in sorted(of.items())}
        return {"offsets": reached, "late_since_pin": sum(late)}

    def _currency(self, asked: Asked, stores: Sequence[StoreAnswer]) -> str | None:
        if not asked.metric.is_money or "currency" in asked.by:
            return None
        seen = cells.currencies(cell for store in stores for cell in store.found)
        if len(seen) > 1:
            detail = f"by: the answer holds {', '.join(sorted(seen))}, which do not add up; ask with by=currency"
            raise BadQuery("by", detail, ("currency",))
        return seen.pop() if seen else self._book.store(asked.stores[0].store_id).currency

    def _rows(self, asked: Asked, store: StoreAnswer) -> list[dict[str, Any]]:
        texts = {instant: shown(instant, store.asked.zone) for instant in {one for slot in store.asked.slots for one in slot}}
        names = sorted(cells.currencies(store.found)) or [self._book.store(store.asked.store_id).currency]
        currencies = names if asked.by else [None]
        empty: dict[tuple[frozenset[str], ...], list[dict[str, Any]]] = {}
        rows: list[dict[str, Any]] = []
        for cell in store.found:
            start, end = texts[cell.slot[0]], texts[cell.slot[1]]
            if cell.parts or cell.events:
                rows += _cell_rows(asked.metric, cell, currencies, (start, end))
                continue
            # Stretches without sales differ by their time alone, and are most of an answer.
            worth = (frozenset(cell.sources), frozenset(cell.statuses))
            if worth not in empty:
                empty[worth] = _cell_rows(asked.metric, cell, currencies, (start, end))
            rows += [{**row, "start": start, "end": end} for row in empty[worth]]
        return rows


def _cell_rows(metric: Metric, cell: cells.Cell, currencies: Sequence[str | None], instants: tuple[str, str]) -> list[dict[str, Any]]:
    """One row, or one for each currency that is asked for by name."""
    rows = [cells.row_of(cell, cells.values_of(metric, cell, currency), instants) for currency in currencies]
    return [row if name is None else {**row, "by": {"currency": name}} for row, name in zip(rows, currencies, strict=True)]


def _days(store: StoreSlots) -> list[date]:
    return utc_days(store.slots[0][0], store.slots[-1][1])


def _worth(found: Sequence[cells.Cell]) -> dict[str, Any]:
    status = cells.status_of(status for cell in found for status in cell.statuses)
    source = cells.source_of(source for cell in found for source in cell.sources)
    return {"source": source, "status": status, "complete": status != "provisional"}


def _earliest(readings: Sequence[FamilyReading], days: Sequence[date]) -> datetime | None:
    instants = [through_of(reading, days) for reading in readings]
    known = [instant for instant in instants if instant is not None]
    return min(known) if len(known) == len(instants) else None


def _through(stores: Sequence[StoreAnswer]) -> str | None:
    known = [store.through for store in stores if store.through is not None]
    return shown(min(known)) if known and len(known) == len(stores) else None


def one_or_series(answer: Mapping[str, Any], is_single: bool) -> dict[str, Any]:
    """`rows` in place of `series` where one store was named."""
    if not is_single:
        return dict(answer)
    rows = answer["series"][0]["rows"]
    return {**{name: value for name, value in answer.items() if name != "series"}, "rows": rows}
