"""Reads the windows of some stores and days from both layers.

The pointers are read once for a question, then each store's rows, the progress of the speed layer,
and the gaps: ranges of records that were not counted, and never will be.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeAlias

from runtime.http.work_pools import run_in_thread_if_large
from runtime.records.gaps import AcceptedGap
from serving.merge.served import FamilyReading, own_day, window_states
from serving.storage.tables import AnsweredSpans, StoredVersion, UntilByDay, VersionsByDay, ViewRow
from serving.storage.views import ViewReader
from tally.families.family import Family
from tally.families.generation import (
    AnsweredSpan,
    FirstCoverage,
    Generation,
    GenerationRange,
    first_covering,
    first_covering_generations,
)
from tally.families.versions import VersionChoice, select_versions
from tally.time.day_clock import InputDays
from tally.time.windows import EPOCH, day_start

# By day the generation that serves a store, and the older ones that first covered windows.
StoreGenerations: TypeAlias = tuple[
    Mapping[date, Generation], Mapping[date, Sequence[FirstCoverage]]
]


PublishedByDay: TypeAlias = Mapping[date, Collection[int]]


@dataclass(frozen=True)
class Pointers:
    """The generation that answers for each day of a family, and the progress of the master.

    `first_coverages` are the older generations that first covered windows of the day;
    `master_until` is by (day, partition). `master_behind_since` is None while it keeps up;
    `reads_speed` is False in a question about the past. `ever_published`: the generations whose
    versions of rows count. `history` has all generations of the day, for a family whose stores do
    not all leave the same windows to the speed layer. `adjacent` are the generations of adjacent
    days that windows of the days also depend on.
    """

    family: Family
    published: Mapping[date, Generation]
    first_coverages: Mapping[date, Sequence[FirstCoverage]]
    ever_published: PublishedByDay
    master_until: UntilByDay = field(default_factory=dict)
    master_behind_since: datetime | None = None
    reads_speed: bool = True
    history: Mapping[date, Sequence[GenerationRange]] = field(default_factory=dict)
    adjacent: Mapping[date, Generation] = field(default_factory=dict)

    def for_store(self, days: Sequence[date], answered: AnsweredSpans | None) -> StoreGenerations:
        """The generations that serve a store on the days, where they answer for these spans."""
        published = {day: self.published[day] for day in days if day in self.published}
        # The generations of most families answer for all windows that they cover.
        if answered is None:
            firsts = {day: self.first_coverages[day] for day in days if day in self.first_coverages}
            return published, firsts

        def span(covering: GenerationRange) -> AnsweredSpan | None:
            return answered.get((covering.day, covering.generation))

        own = {day: serving.limit_to(span(serving)) for day, serving in published.items()}
        history = {
            day: [earlier.limit_to(span(earlier)) for earlier in self.history[day]]
            for day in own.keys() & self.history.keys()
        }
        firsts = {day: first_covering_generations(rows, own[day]) for day, rows in history.items()}
        return own, firsts

    def choice(self, day: date, generation: int) -> VersionChoice:
        """The rows of one of the day's generations, among the versions that count."""
        # The newest may be absent from the history, for it is copied there after its flip.
        newest = {self.published[day].generation}
        return VersionChoice(generation, newest.union(self.ever_published.get(day, ())))

    @property
    def newest(self) -> int:
        """The highest generation among them, 0 without one."""
        return max((serving.generation for serving in self.published.values()), default=0)


@dataclass(frozen=True)
class StoreDays:
    """A store, the partition of its records, and the UTC days that are asked for."""

    store_id: str
    partition: int
    days: Sequence[date]
    # From a window's start to the days that it depends on, in a family of dependent events.
    input_days: InputDays = own_day


def find_published(history: Mapping[date, Sequence[GenerationRange]]) -> PublishedByDay:
    """The generations of each day's history."""
    return {day: {flipped.generation for flipped in rows} for day, rows in history.items()}


async def read_pointers(
    views: ViewReader,
    family: Family,
    days: Sequence[date],
    patience_seconds: float,
    near: Sequence[date] = (),
) -> Pointers:
    """The pointers as they are now; `near` are days around that the asked ones may depend on.

    The master is behind once it was not current for `patience_seconds`. Raises ViewsUnreachable.
    """
    # Taken before the reads, so that slow reads do not make the master look behind.
    asked_at = datetime.now(UTC)
    # Read first, and for all stores at once: rows of a generation are never changed, so all that is
    # read after its pointer belongs to it.
    found = await views.current_generations(family, [*days, *near])
    published = {day: serving for day, serving in found.items() if day not in near}
    history, master, current_at = await asyncio.gather(
        views.coverings(family, [*published]),
        # Also for days without a generation: their records are in none.
        views.master_until(family, [*days, *near]),
        views.master_current(family),
    )
    firsts = {
        day: first_covering_generations(rows, published[day])
        for day, rows in history.items()
        if day in published
    }
    # A master that never said so is behind since 1970: nothing is final without a running master.
    since = current_at or EPOCH
    is_behind = asked_at - since > timedelta(seconds=patience_seconds)
    return Pointers(
        family,
        published,
        firsts,
        find_published(history),
        master,
        since if is_behind else None,
        history=history if family.reading is not None else {},
        adjacent={day: serving for day, serving in found.items() if day in near},
    )


async def read_past_pointers(
    views: ViewReader, family: Family, days: Sequence[date], instant: datetime
) -> Pointers:
    """The pointers as they were at the instant.

    Speed and master keep no history: such an answer is the generation's own, with the certainty
    that it had; later records in the layers do not change it. Raises ViewsUnreachable.
    """
    history = await views.history(family, days)
    earlier = {
        # flipped_at is the instant before a run publishes; its flip follows within seconds.
        day: [flipped for flipped in rows if flipped.flipped_at <= instant]
        for day, rows in history.items()
    }
    published = {day: rows[-1] for day, rows in earlier.items() if rows}
    firsts = {
        day: first_covering_generations(earlier[day], serving) for day, serving in published.items()
    }
    return Pointers(
        family, published, firsts, find_published(earlier), reads_speed=False, history=earlier
    )


async def read_store(views: ViewReader, pointers: Pointers, wanted: StoreDays) -> FamilyReading:
    """The rows of both layers for one store. Raises ViewsUnreachable if either cannot be read."""
    family, store_id = pointers.family, wanted.store_id
    # Read ahead of the rows, for this border decides which of them count.
    answered = (
        await views.read_answered_spans(family, store_id, wanted.days) if family.reading else None
    )
    published, firsts = pointers.for_store(wanted.days, answered)
    # Neither the speed layer nor the findings keep a history: they describe only the present.
    now = wanted.days if pointers.reads_speed else ()
    speed, versions, findings = await asyncio.gather(
        views.speed_rows(family, store_id, now),
        views.batch_versions(family, store_id, [*published]),
        views.findings(family, store_id, [day for day in now if day in published]),
    )
    stored = StoredVersions(pointers, versions)
    batch, first, recent = await run_in_thread_if_large(
        len(speed) + sum(map(len, versions.values())),
        lambda: (
            window_states(family, stored.current_rows()),
            window_states(family, stored.first_rows(firsts)),
            window_states(family, speed),
        ),
    )
    return FamilyReading(
        family,
        wanted.partition,
        published,
        batch,
        recent,
        first_coverages=firsts,
        first_windows=first,
        master_until={
            day: until
            for (day, partition), until in pointers.master_until.items()
            if partition == wanted.partition
        },
        findings=findings,
        is_master_behind=pointers.master_behind_since is not None,
        input_days=wanted.input_days if family.reading else own_day,
        adjacent={**pointers.published, **pointers.adjacent},
    )


@dataclass(frozen=True)
class StoredVersions:
    """All versions of a store's batch rows on some days, and the pointers that choose."""

    pointers: Pointers
    by_day: VersionsByDay

    def current_rows(self) -> Iterator[ViewRow]:
        """The rows of the generations that serve."""
        for day, versions in self.by_day.items():
            generation = self.pointers.published[day].generation
            yield from select_versions(versions, self.pointers.choice(day, generation)).values()

    def first_rows(self, firsts: Mapping[date, Sequence[FirstCoverage]]) -> Iterator[ViewRow]:
        """The rows of each window in the older generation that first covered it."""
        for day in self.by_day.keys() & firsts.keys():
            by_generation: defaultdict[int, list[StoredVersion]] = defaultdict(list)
            for version in self.by_day[day]:
                first = first_covering(firsts[day], version[0][0])
                if first is not None:
                    by_generation[first.generation].append(version)
            for generation, versions in by_generation.items():
                choice = self.pointers.choice(day, generation)
                yield from select_versions(versions, choice).values()


async def read_gaps(
    views: ViewReader,
    families: Sequence[Family],
    span: tuple[datetime, datetime],
    partitions: Collection[int],
    tolerance_seconds: int,
) -> list[AcceptedGap]:
    """The gaps, in order, whose records may have happened in the span in one of these stores.

    The span is [start, end), the stores are those of these canonical partitions. A lost record may
    have happened on any day up to its arrival, plus the tolerance in seconds for clocks that are
    ahead; it is missing from everything that was counted after its first arrival. A raw record may
    be of any store. Raises ViewsUnreachable.
    """
    found = await views.gaps([topic for family in families for topic in family.source_topics])
    # By whole days, as a rebuild decides what it may claim (batch_layer/views/compute/scope.py).
    day = day_start(span[0].astimezone(UTC).date())
    return sorted(
        gap
        for gap in found
        if day < gap.last_arrival + timedelta(seconds=tolerance_seconds)
        and span[1] > gap.first_arrival
        and (gap.is_raw or gap.partition in partitions)
    )


async def read_speed_progress(
    views: ViewReader, pointers: Sequence[Pointers]
) -> dict[str, Any] | None:
    """Offsets by partition, and the number of records dropped as late since the oldest pin.

    They are fields of the answer; None in a question about the past. Raises ViewsUnreachable.
    """
    if not all(pointer.reads_speed for pointer in pointers):
        return None
    # A record that was dropped later may be in neither layer; one that is in the generation after
    # all counts here too, to be safe.
    since = [
        min(
            (at for serving in family.published.values() for at in serving.through.values()),
            # Where no generation has taken a record in, every late one is counted.
            default=EPOCH,
        )
        for family in pointers
    ]
    offsets = await asyncio.gather(*(views.speed_until(pointer.family) for pointer in pointers))
    late = await asyncio.gather(
        *(
            views.late_since(pointer.family, instant)
            for pointer, instant in zip(pointers, since, strict=True)
        )
    )
    # Partitions of two topics have the same numbers, so names are as in Kafka: topic-partition.
    names = [f"{pointer.family.name}-" if len(pointers) > 1 else "" for pointer in pointers]
    reached = {
        f"{name}{partition}": until
        for name, untils in zip(names, offsets, strict=True)
        for partition, until in sorted(untils.items())
    }
    return {"offsets": reached, "late_since_pin": sum(late)}
