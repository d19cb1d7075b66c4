"""The usual values in the windows of stores, read by the generations of a snapshot.

A query for a day, now or in a year, is answered by the same snapshot and so from the same rows.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from datetime import date, datetime, timedelta

from msgspec import structs

from alerting.evaluate.scope.calendar import StoreCalendarDays, WindowSpan
from alerting.evaluate.scope.rule_set import BaselineRequest, BaselineWindows
from alerting.evaluate.snapshot.snapshot_reader import SnapshotReader
from alerting.evaluate.snapshot.window_facts import FamilyDayRequest, MetricCell, ratio_parts
from runtime.cassandra.writes import chunks
from runtime.registry.sources import FAMILIES
from serving.merge.reading import Pointers
from serving.questions import catalogue
from serving.questions.catalogue import Metric
from serving.questions.stores import StoreRegistry
from serving.storage.views import ViewReader
from tally.alerts.baseline import (
    BaselineSample,
    BaselineSnapshot,
    EarlierDay,
    compute_baselines,
    earlier_dates,
)
from tally.config.settings import Settings
from tally.families.family import Family
from tally.families.generation import Generation
from tally.time.instants import from_millis, to_millis

# Store days that are read together: each takes the rows of up to nine days.
_DAYS_AT_ONCE = 32
# Cached past store days, some 30 kB each. Current days, which are evaluated every quarter hour, are
# always kept as well: if there were no room for one of them, each look-up would miss.
_MAX_DAYS, _CURRENT_MILLIS = 2_000, timedelta(days=3) // timedelta(milliseconds=1)
# More than the number of days that are evaluated at all.
_MAX_SNAPSHOTS = 450
# This long after a day's start it is surely that day, even if clocks change at midnight.
_INSIDE = timedelta(hours=3)


class _RequestedDay:
    """A local day of a store whose usual values are requested."""

    def __init__(self, of: BaselineRequest, days: StoreCalendarDays) -> None:
        self.request, self._days = of, days
        self.span, self.date = days.day(of.start), days.date(of.start)

    def local_minutes(self, window: int) -> int:
        """The store's local time at the start of the window, in minutes since midnight."""
        local = self._local_time(window)
        return 60 * local.hour + local.minute

    def earlier_days(self, snapshot: BaselineSnapshot) -> list[WindowSpan]:
        """The same weekdays before the snapshot, newest first."""
        begin = self._local_time(self.span.start).replace(tzinfo=None)
        dates = earlier_dates(self.request.baseline, self.date, snapshot.first_day)
        inside = (begin - (self.date - earlier) + _INSIDE for earlier in dates)
        instants = (local.replace(tzinfo=self._days.zone) for local in inside)
        return [self._days.day(to_millis(instant)) for instant in instants]

    def _local_time(self, millis: int) -> datetime:
        return from_millis(millis).astimezone(self._days.zone)


class BaselineSnapshotReader(SnapshotReader):
    """The views as the generations of a snapshot have them, without the speed layer."""

    def __init__(
        self,
        views: ViewReader,
        registry: StoreRegistry,
        settings: Settings,
        snapshot: BaselineSnapshot,
    ) -> None:
        super().__init__(views, registry, settings)
        self._snapshot = snapshot
        self._pinned = {
            family: {
                # Numbers of an older definition do not compare with current ones.
                pinned.day: pinned.full_generation
                for pinned in days
                if pinned.epoch >= FAMILIES[family].epoch
            }
            for family, days in snapshot.days.items()
            if family in FAMILIES
        }

    async def generations(self, family: str, days: Sequence[date]) -> dict[date, Generation]:
        """The generation that the snapshot has for each UTC day."""
        pinned = self._pinned.get(family, {})
        known = {day: pinned[day] for day in days if day in pinned}
        await self.read_published(family, [*known])
        return known

    async def pointers(self, family: Family, days: Sequence[date]) -> Pointers:
        """The snapshot's generations as pointers that do not read the speed layer."""
        pinned = await self.generations(family.name, days)
        published = self.ever_published[family.name]
        return Pointers(family, pinned, {}, published, reads_speed=False)

    async def read_baselines(
        self, requested: Sequence[_RequestedDay]
    ) -> dict[BaselineRequest, BaselineWindows]:
        """The usual values of local days that the snapshot serves. Raises ViewsUnreachable."""
        spans = {day.request: day.earlier_days(self._snapshot) for day in requested}
        await self.read(
            FamilyDayRequest(family.name, key.store_id, span)
            for key, earlier_spans in spans.items()
            for span in earlier_spans
            for family in catalogue.metric(key.metric).families
        )
        return {day.request: self._compute_baselines(day, spans[day.request]) for day in requested}

    def _compute_baselines(
        self, requested: _RequestedDay, spans: Sequence[WindowSpan]
    ) -> BaselineWindows:
        metric = catalogue.metric(requested.request.metric)
        days = []
        for span in spans:
            cells = self.cells(metric, requested.request.store_id, span)
            samples = (_build_sample(metric, cell) for cell in cells)
            windows = [*zip(map(requested.local_minutes, span.windows), samples, strict=True)]
            is_complete = all(cell.is_covered for cell in cells)
            # A ratio has usual values only on days on which both of its sides have data.
            parts = [cell.cell.parts for cell in cells]
            names = (family.name for family in metric.families)
            has_events = all(any(part.get(name) for part in parts) for name in names)
            days.append(EarlierDay(windows, is_complete, has_events))
        clocks = ((window, requested.local_minutes(window)) for window in requested.span.windows)
        found = compute_baselines(requested.request.baseline, clocks, days).items()
        number = self._snapshot.number
        return {start: structs.replace(baseline, snapshot=number) for start, baseline in found}


class BaselineCache:
    """Reads usual values from all snapshots, with a cache of the answers."""

    def __init__(
        self,
        views: ViewReader,
        registry: StoreRegistry,
        settings: Settings,
        reader_class: type[BaselineSnapshotReader] = BaselineSnapshotReader,
    ) -> None:
        self._views, self._registry, self._settings = views, registry, settings
        self._reader_class = reader_class
        self._snapshots: OrderedDict[date, BaselineSnapshot] = OrderedDict()
        self._cache: OrderedDict[BaselineRequest, BaselineWindows] = OrderedDict()

    async def read(
        self, requests: Sequence[BaselineRequest]
    ) -> dict[BaselineRequest, BaselineWindows]:
        """The usual values by day and window; none on a day that no snapshot serves."""
        found = {day: self._cache[day] for day in requests if day in self._cache}
        missing = [request for request in requests if request not in found]
        for chunk in chunks(missing, _DAYS_AT_ONCE):
            found |= await self._read(chunk)
        for used in found.keys() & self._cache.keys():
            self._cache.move_to_end(used)
        newest = max((cached.start for cached in self._cache), default=0)
        past = [old for old in self._cache if old.start < newest - _CURRENT_MILLIS]
        for oldest in past[: max(0, len(past) - _MAX_DAYS)]:
            del self._cache[oldest]
        return found

    async def _read(
        self, requests: Sequence[BaselineRequest]
    ) -> dict[BaselineRequest, BaselineWindows]:
        found: dict[BaselineRequest, BaselineWindows] = {key: {} for key in requests}
        served: dict[int, list[_RequestedDay]] = defaultdict(list)
        snapshots: dict[int, BaselineSnapshot] = {}
        all_requested = [
            _RequestedDay(request, StoreCalendarDays(self._registry.store(request.store_id)))
            for request in requests
        ]
        # A day without a snapshot is queried again next time, because the first may come soon.
        dates = {requested.date for requested in all_requested}
        by_date = {day: await self._find_snapshot(day) for day in dates}
        for requested in all_requested:
            if (snapshot := by_date[requested.date]) is not None:
                snapshots[snapshot.number] = snapshot
                served[snapshot.number].append(requested)
        world = self._views, self._registry, self._settings
        for number, days in served.items():
            answers = await self._reader_class(*world, snapshots[number]).read_baselines(days)
            self._cache |= answers
            found |= answers
        return found

    async def _find_snapshot(self, day: date) -> BaselineSnapshot | None:
        # It never changes, because a later snapshot serves no day that has begun.
        found = self._snapshots.get(day) or await self._views.baselines.snapshot_for(day)
        if found is not None:
            self._snapshots[day] = found
            self._snapshots.move_to_end(day)
            while len(self._snapshots) > _MAX_SNAPSHOTS:
                self._snapshots.popitem(last=False)
        return found


def _build_sample(metric: Metric, metric_cell: MetricCell) -> BaselineSample | None:
    """The value of a window; None if it has none, or one that may not be published."""
    cell = metric_cell.cell
    if not cell.known or metric_cell.is_hidden or not cell.sensor_coverage.is_enough:
        return None
    above, below = ratio_parts(metric, cell)
    return None if above is None or below is None or below <= 0 else BaselineSample(above, below)
