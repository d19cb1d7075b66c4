"""Rows of the serving tables as a test has them: in memory, or inserted into a real Cassandra.

Partition of store 367 of 4 is 1, of 406 it is 0, of 500 it is 2 (tally/events/identity.py).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from runtime.records.gaps import AcceptedGap
from runtime.registry.sources import FAMILIES, SALES, TRAFFIC
from serving.storage.tables import (
    Activity,
    AnsweredSpans,
    DayRange,
    StoredVersion,
    TillFinding,
    ViewRow,
)
from serving.storage.views import ViewReader
from tally.errors import ViewsUnreachable
from tally.events.identity import digest_text, sensor_key
from tally.families.family import Family
from tally.families.generation import AnsweredSpan, Generation, GenerationRange
from tally.time.windows import window_start
from tests.support.alerts.alert_memory import MemoryAlerts
from tests.support.evaluation.memory_baselines import MemoryBaselines, Snapshots
from tests.support.serving.raw_receipts import MemoryReceipts, Raw

WIFI = FAMILIES["wifi"]
PARTITIONS = 4
# Axis, store, value.
AxisValue = tuple[str, str, str]


@dataclass(frozen=True)
class Stored:
    """One row of a view; `generation` None is the speed layer."""

    family: Family
    store_id: str
    row: ViewRow
    generation: int | None = None
    # In versions(): the generation has no such row any more.
    is_absent: bool = False

    @property
    def number(self) -> int:
        """Its generation."""
        assert self.generation is not None
        return self.generation


@dataclass
class World:
    """Everything that the serving tables hold.

    `rows` of the batch layer are all rows of each generation; the tables have versions().
    `pointers` are all flips; the one with the highest generation serves its day.
    """

    rows: list[Stored] = field(default_factory=list)
    pointers: list[tuple[Family, Generation]] = field(default_factory=list)
    master: list[tuple[Family, date, int, int]] = field(default_factory=list)
    speed: list[tuple[Family, int, int]] = field(default_factory=list)
    late: list[tuple[Family, datetime, int]] = field(default_factory=list)
    activity: list[tuple[Family, Activity]] = field(default_factory=list)
    findings: list[tuple[Family, str, TillFinding]] = field(default_factory=list)
    # By store, day and generation for which windows it answers, where not for the whole day.
    answered: dict[tuple[str, date, int], AnsweredSpan | None] = field(default_factory=dict)
    swept: list[tuple[Family, date, datetime]] = field(default_factory=list)
    gaps: list[AcceptedGap] = field(default_factory=list)
    receipts: list[Raw] = field(default_factory=list)
    snapshots: Snapshots = field(default_factory=list)
    # None: it never said; the default is a master that keeps up.
    master_current: datetime | None = field(default_factory=lambda: datetime.now(UTC))

    def answers(self, family: Family, store_id: str) -> dict[tuple[date, int], AnsweredSpan]:
        """By day and generation for which windows of the store it answers."""
        found = {}
        for of, one in self.pointers:
            midnight = datetime.combine(one.day, time(), UTC)
            whole = (midnight, midnight + timedelta(days=1))
            span = self.answered.get((store_id, one.day, one.generation), whole)
            if of == family and span is not None:
                found[one.day, one.generation] = span
        return found

    def versions(self) -> list[Stored]:
        """The batch rows as rebuilds write them: those that differ from the generation before."""
        found: list[Stored] = []
        whole: dict[tuple[Family, date, int], dict[Any, Stored]] = defaultdict(dict)
        for one in self.rows:
            if one.generation is not None:
                place = one.family, one.row.window_start.date(), one.generation
                whole[place][one.store_id, one.row.window_start, one.row.axes] = one
        flipped = {(family, one.day, one.generation) for family, one in self.pointers}
        # A generation that was never published is compared with the one before, as all others.
        served: dict[tuple[Family, date], dict[Any, Stored]] = defaultdict(dict)
        for family, day, generation in sorted(
            whole.keys() | flipped, key=lambda place: (place[0].name, *place[1:])
        ):
            before, now = served[family, day], whole[family, day, generation]
            for key in before.keys() | now.keys():
                if key not in now:
                    found.append(replace(before[key], generation=generation, is_absent=True))
                elif key not in before or before[key].row != now[key].row:
                    found.append(now[key])
            if (family, day, generation) in flipped:
                served[family, day] = now
        return found

    def axis_values(self, family: Family) -> dict[AxisValue, DayRange]:
        """What the layers note of the rows that they write: first and last day of each value."""
        days: dict[AxisValue, list[date]] = defaultdict(list)
        for one in self.rows:
            if one.family is family:
                for axis, value in zip(family.axes, one.row.axes, strict=True):
                    days[axis, one.store_id, value].append(one.row.window_start.date())
        return {key: (min(found), max(found)) for key, found in days.items()}


def at(text: str) -> datetime:
    """An instant in UTC: `2017-09-19T10:15`."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def of_sales(receipts: int, gross: int, returns: int = 0) -> tuple[int, ...]:
    """Parts of a row of sales: so many receipts of one unit each, cents sold and taken back."""
    named = {"receipts": receipts, "gross_minor": gross, "units_milli": 1000 * receipts}
    named["returns_minor"] = returns
    return tuple(named.get(name, 0) for name in SALES.part_names)


def sale(store: str, start: str, events: int, gross: int, **more: Any) -> Stored:
    """A sales row: as many receipts as events; `returns`, `currency`, `generation`, `excluded`
    (gross of conflicts)."""
    excluded = more.get("excluded", 0)
    receipts = more.get("receipts", events)
    parts = of_sales(receipts, gross, more.get("returns", 0))
    given_back = of_sales(int(excluded > 0), excluded) if "generation" in more else ()
    row = ViewRow(at(start), (more.get("currency", "USD"),), SALES.epoch, events, parts, given_back)
    return Stored(SALES, store, row, more.get("generation"))


def counted(
    store: str, start: str, events: int, entries: int, generation: int | None = None, **seconds: int
) -> Stored:
    """A traffic row; `seconds` for which each counter was there, by its name."""
    seen = sorted([sensor_key(int(digest_text(name), 16)), of] for name, of in seconds.items())
    nothing = {part.name: part.zero for part in TRAFFIC.parts}
    parts = nothing | {"entries": entries, "observed_seconds": seen}
    excluded = () if generation is None else tuple(nothing.values())
    row = ViewRow(at(start), (), TRAFFIC.epoch, events, (*parts.values(),), excluded)
    return Stored(TRAFFIC, store, row, generation)


def visits(
    store: str, start: str, stays: tuple[int, ...], passes: int = 0, generation: int | None = None
) -> Stored:
    """A row of visits of so many minutes each; of the speed layer without a generation."""
    brought: dict[str, list[int]] = {
        "visits": [1] * len(stays),
        "passes": [1] * passes,
        "stay_seconds": [60 * minutes for minutes in stays],
        "stay_minutes": list(stays),
        "interval_seconds": [60] * len(stays),
    }
    numbers = [brought.get(part.name, []) for part in WIFI.parts]
    parts = tuple(
        part.fold([0] * len(some), some) for part, some in zip(WIFI.parts, numbers, strict=True)
    )
    excluded = () if generation is None else tuple(part.zero for part in WIFI.parts)
    # Of a speed row the position that it has read up to.
    events = 10**6 if generation is None else sum(stays)
    row = ViewRow(at(start), ("fixed",), WIFI.epoch, events, parts, excluded)
    return Stored(WIFI, store, row, generation)


def flip(day: str, generation: int, flipped_at: str, pin: int, **covered: str) -> Generation:
    """A generation of a day, pinned at one offset in every partition; it covers it whole, or
    covered_from, covered_until."""
    end = at(f"{day}T00:00") + timedelta(days=1)
    return Generation(
        date.fromisoformat(day),
        generation,
        1,
        at(covered.get("covered_from", f"{day}T00:00")),
        at(covered["covered_until"]) if "covered_until" in covered else end,
        generation,
        at(flipped_at),
        dict.fromkeys(range(PARTITIONS), pin),
        dict.fromkeys(range(PARTITIONS), at(flipped_at)),
    )


class MemoryViews(ViewReader):
    """A reader over a world; `is_down` makes every read fail as an unreachable node does."""

    def __init__(self, world: World) -> None:
        self.world, self.is_down = world, False
        self.receipts = MemoryReceipts(world.receipts, self.check)
        self.alerts: MemoryAlerts = MemoryAlerts(self.check)
        self.baselines: MemoryBaselines = MemoryBaselines(world.snapshots, self.check)

    async def current_generations(
        self, family: Family, days: Sequence[date]
    ) -> dict[date, Generation]:
        return {day: found[-1] for day, found in (await self.history(family, days)).items()}

    async def newest(self, family: Family, first: date, last: date) -> int:
        await self.check()
        pointers = [one for of, one in self.world.pointers if of is family]
        return max((one.generation for one in pointers if first <= one.day <= last), default=0)

    async def coverings(
        self, family: Family, days: Sequence[date]
    ) -> dict[date, list[GenerationRange]]:
        history = await self.history(family, days)
        return {day: [_covering(one) for one in found] for day, found in history.items()}

    async def history(self, family: Family, days: Sequence[date]) -> dict[date, list[Generation]]:
        await self.check()
        by_day: dict[date, list[Generation]] = defaultdict(list)
        for of, one in self.world.pointers:
            if of is family and one.day in days:
                by_day[one.day].append(one)
        return {day: sorted(found, key=lambda one: one.generation) for day, found in by_day.items()}

    async def swept_until(self, family: Family, days: Sequence[date]) -> datetime | None:
        await self.check()
        return max(
            (until for of, day, until in self.world.swept if of is family and day in days),
            default=None,
        )

    async def speed_rows(
        self, family: Family, store_id: str, days: Sequence[date]
    ) -> list[ViewRow]:
        await self.check()
        return [
            one.row
            for one in self.world.rows
            if (one.family, one.store_id, one.generation) == (family, store_id, None)
            and one.row.window_start.date() in days
        ]

    async def batch_versions(
        self, family: Family, store_id: str, days: Sequence[date]
    ) -> dict[date, list[StoredVersion]]:
        await self.check()
        found: dict[date, list[StoredVersion]] = defaultdict(list)
        for one in self.world.versions():
            day = one.row.window_start.date()
            if (one.family, one.store_id) == (family, store_id) and day in days:
                row = None if one.is_absent else one.row
                found[day].append(((one.row.window_start, one.row.axes), one.number, row))
        return found

    async def read_answered_spans(
        self, family: Family, store_id: str, days: Sequence[date]
    ) -> AnsweredSpans:
        await self.check()
        answers = self.world.answers(family, store_id)
        return {key: span for key, span in answers.items() if key[0] in days}

    async def findings(
        self, family: Family, store_id: str, days: Sequence[date]
    ) -> list[TillFinding]:
        await self.check()
        return [
            one
            for of, store, one in self.world.findings
            if (of, store) == (family, store_id) and one.day in days and one.is_open
        ]

    async def master_until(
        self, family: Family, days: Sequence[date]
    ) -> dict[tuple[date, int], int]:
        await self.check()
        rows = [row[1:] for row in self.world.master if row[0] is family]
        return {(day, partition): until for day, partition, until in rows if day in days}

    async def master_current(self, family: Family) -> datetime | None:
        await self.check()
        return self.world.master_current

    async def gaps(self, topics: Sequence[str]) -> list[AcceptedGap]:
        await self.check()
        return [one for one in self.world.gaps if one.topic in topics]

    async def speed_until(self, family: Family) -> dict[int, int]:
        await self.check()
        return {partition: until for of, partition, until in self.world.speed if of is family}

    async def history_begin(self) -> datetime | None:
        await self.check()
        return None

    async def late_since(self, family: Family, since: datetime) -> int:
        await self.check()
        late = [one[1:] for one in self.world.late if one[0] is family]
        return sum(dropped for recorded_at, dropped in late if recorded_at >= window_start(since))

    async def activity(self) -> list[Activity]:
        await self.check()
        return [activity for _, activity in self.world.activity]

    async def active_stores(self, family: Family) -> list[Activity]:
        await self.check()
        return [activity for of, activity in self.world.activity if of is family]

    async def has_events(self, store_id: str, families: Sequence[Family]) -> bool:
        await self.check()
        return any(one.store_id == store_id for of, one in self.world.activity if of in families)

    async def axis_values(
        self, family: Family, axis: str, days: Mapping[str, DayRange], most: int
    ) -> dict[str, list[str]]:
        await self.check()
        found: dict[str, list[str]] = defaultdict(list)
        for (of, store_id, value), (first, last) in sorted(self.world.axis_values(family).items()):
            if of == axis and store_id in days:
                asked_first, asked_last = days[store_id]
                if first <= asked_last and last >= asked_first and len(found[store_id]) < most:
                    found[store_id].append(value)
        return {store_id: values for store_id, values in found.items() if values}

    async def check(self) -> None:
        if self.is_down:
            raise ViewsUnreachable(
                "the serving tables cannot be read; look at `tally status` and ask again"
            )


def _covering(one: Generation) -> GenerationRange:
    return GenerationRange(one.day, one.generation, one.epoch, one.covered_from, one.covered_until)
