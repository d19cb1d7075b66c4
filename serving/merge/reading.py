"""Windows of some stores and days, read from both layers.

The pointers are read once for a question, then each store's rows.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from serving.merge.firsts import First, first_to_cover, spans
from serving.merge.offload import computed
from serving.merge.served import FamilyReading, Windows, window_states
from serving.merge.views import GenerationSpan, ViewReader
from tally.families import Family
from tally.generation import Generation

UntilByDay = Mapping[tuple[date, int], int]
# When the master was last current, if it has never said so.
NOBODY_KNOWS = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True)
class Pointers:
    """Which generation answers for each day of a family, and how far the master reaches.

    `firsts`: the older generations that first covered windows of the day; `master_until` is by
    (day, partition). `master_behind_since` is None while it keeps up; `reads_speed` is False in a
    question about the past.
    """

    family: Family
    published: Mapping[date, Generation]
    firsts: Mapping[date, Sequence[First]]
    master_until: UntilByDay
    master_behind_since: datetime | None = None
    reads_speed: bool = True

    @property
    def newest(self) -> int:
        """The highest generation among them, 0 without one."""
        return max((one.generation for one in self.published.values()), default=0)


@dataclass(frozen=True)
class StoreDays:
    """A store, the partition that its records live in, and the UTC days that are asked for."""

    store_id: str
    partition: int
    days: Sequence[date]


async def read_pointers(
    views: ViewReader, family: Family, days: Sequence[date], patience_seconds: float
) -> Pointers:
    """The pointers as they are now.

    The master is behind once it has not been current for `patience_seconds`. Raises
    ViewsUnreachable.
    """
    # Before the reads: however long they take, the master is not behind for that.
    asked_at = datetime.now(UTC)
    # First, and for all stores at once: rows of a generation are never changed, so whatever is read
    # after its pointer belongs to it.
    published = await views.published(family, days)
    history, master, current_at = await asyncio.gather(
        views.coverings(family, [*published]),
        views.master_until(family, [*published]),
        views.master_current(family),
    )
    firsts = {
        day: first_to_cover(rows, published[day])
        for day, rows in history.items()
        if day in published
    }
    # Who never said so is behind since 1970: nothing is final beside a master that nobody has seen.
    since = current_at or NOBODY_KNOWS
    is_behind = asked_at - since > timedelta(seconds=patience_seconds)
    return Pointers(family, published, firsts, master, since if is_behind else None)


async def read_pointers_as_of(
    views: ViewReader, family: Family, days: Sequence[date], instant: datetime
) -> Pointers:
    """The pointers as they were at the instant.

    Speed and master keep no history: such an answer is a generation's own, and how sure it was of
    itself; what the layers have learned since does not change it. Raises ViewsUnreachable.
    """
    history = await views.history(family, days)
    earlier = {
        # The instant at which a run was about to publish: its flip follows within seconds.
        day: [one for one in rows if one.flipped_at <= instant]
        for day, rows in history.items()
    }
    published = {day: rows[-1] for day, rows in earlier.items() if rows}
    firsts = {day: first_to_cover(earlier[day], serving) for day, serving in published.items()}
    return Pointers(family, published, firsts, {}, reads_speed=False)


async def read_store(views: ViewReader, pointers: Pointers, wanted: StoreDays) -> FamilyReading:
    """What both layers hold of one store.

    The pointers were read before, so the rows that they name are all there.

    Raises ViewsUnreachable when either layer cannot be read.
    """
    family, store_id = pointers.family, wanted.store_id
    published = {day: pointers.published[day] for day in wanted.days if day in pointers.published}
    firsts = {day: pointers.firsts[day] for day in wanted.days if day in pointers.firsts}
    # Of the past neither the speed layer nor the findings keep anything: what they say is of now.
    now = wanted.days if pointers.reads_speed else ()
    speed, batch, before, findings = await asyncio.gather(
        views.speed_rows(family, store_id, now),
        views.batch_rows(
            family,
            store_id,
            {day: one.generation for day, one in published.items()},
        ),
        _read_spans(
            views, family, store_id, spans(one for some in firsts.values() for one in some)
        ),
        views.findings(family, store_id, [day for day in now if day in published]),
    )
    windows = await computed(
        len(speed) + len(batch),
        lambda: (window_states(family, speed), window_states(family, batch)),
    )
    return FamilyReading(
        family,
        wanted.partition,
        published,
        batch=windows[1],
        speed=windows[0],
        firsts=firsts,
        first=before,
        master_until={
            day: pointers.master_until.get((day, wanted.partition), 0) for day in wanted.days
        },
        findings=findings,
        is_master_behind=pointers.master_behind_since is not None,
    )


async def _read_spans(
    views: ViewReader, family: Family, store_id: str, asked: Sequence[GenerationSpan]
) -> dict[int, Windows]:
    rows = await asyncio.gather(*(views.batch_span(family, store_id, span) for span in asked))
    return {
        span.generation: window_states(family, found)
        for span, found in zip(asked, rows, strict=True)
    }
