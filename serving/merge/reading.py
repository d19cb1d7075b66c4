"""Windows of some stores and days, read from both layers: the pointers once for a question, then each store's rows."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from serving.merge.served import FamilyReading, window_states
from serving.merge.views import Published, ViewReader
from tally.families import Family

UntilByDay = Mapping[tuple[date, int], int]


@dataclass(frozen=True)
class Pointers:
    """Which generation answers for each day of a family, the first one that ever did where that is another, and how far the
    master reaches by (day, partition). `reads_speed` is False for a question about the past."""

    family: Family
    published: Mapping[date, Published]
    first: Mapping[date, Published]
    master_until: UntilByDay
    reads_speed: bool = True


@dataclass(frozen=True)
class StoreDays:
    """A store, the partition that its records live in, and the UTC days that are asked for."""

    store_id: str
    partition: int
    days: Sequence[date]


async def read_pointers(views: ViewReader, family: Family, days: Sequence[date]) -> Pointers:
    """The pointers as they are now. Raises ViewsUnreachable."""
    published = await views.published(family, days)
    history, master = await asyncio.gather(views.history(family, [*published]), views.master_until(family, [*published]))
    first = {day: rows[0] for day, rows in history.items() if day in published and rows[0].generation < published[day].generation}
    return Pointers(family, published, first, master)


async def read_pointers_as_of(views: ViewReader, family: Family, days: Sequence[date], instant: datetime) -> Pointers:
    """The pointers as they were at the instant; the speed layer keeps no history, so what only it knew then is missing.

    A day counts as dirty by what the master holds today: that says that the answer was not the last word. Raises ViewsUnreachable.
    """
    history, master = await asyncio.gather(views.history(family, days), views.master_until(family, days))
    earlier = {day: [one for one in rows if one.flipped_at <= instant] for day, rows in history.items()}
    published = {day: rows[-1] for day, rows in earlier.items() if rows}
    first = {day: rows[0] for day, rows in earlier.items() if len(rows) > 1}
    return Pointers(family, published, first, master, reads_speed=False)


async def read_store(views: ViewReader, pointers: Pointers, wanted: StoreDays) -> FamilyReading:
    """What both layers hold of one store. The pointers were read before, so the rows that they name are all there.

    Raises ViewsUnreachable when either layer cannot be read.
    """
    family = pointers.family
    published, first = _of_days(pointers.published, wanted.days), _of_days(pointers.first, wanted.days)
    speed, batch, before = await asyncio.gather(
        views.speed_rows(family, wanted.store_id, wanted.days if pointers.reads_speed else ()),
        views.batch_rows(family, wanted.store_id, {day: one.generation for day, one in published.items()}),
        views.batch_rows(family, wanted.store_id, {day: one.generation for day, one in first.items()}),
    )
    return FamilyReading(
        family,
        wanted.partition,
        published,
        batch=window_states(family, batch),
        speed=window_states(family, speed),
        first=window_states(family, before),
        first_published=first,
        master_until={day: pointers.master_until.get((day, wanted.partition), 0) for day in wanted.days},
    )


def _of_days(published: Mapping[date, Published], days: Sequence[date]) -> dict[date, Published]:
    return {day: published[day] for day in days if day in published}
