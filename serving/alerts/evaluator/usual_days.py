"""What is usual in the windows of stores, read by the generations of a snapshot.

Whoever asks of a day, now or in a year, is answered by the same snapshot and so by the same rows.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from datetime import date, datetime, timedelta

from msgspec import structs

from runtime.chunks import chunks
from runtime.sources import FAMILIES
from serving.alerts.evaluator.calendar import StoreCalendarDays, WindowSpan, millis_of
from serving.alerts.evaluator.facts import sides_of
from serving.alerts.evaluator.moment import FamilyWindowsOf, JudgedCell, ViewsMoment
from serving.alerts.evaluator.usual import UsualOf, UsualWindows
from serving.merge.reading import Pointers
from serving.merge.views import ViewReader
from serving.query import catalogue
from serving.query.catalogue import Metric
from serving.query.stores import StoreRegistry
from tally.alerts.baseline import EarlierDay, UsualSample, earlier_dates, usual_windows
from tally.alerts.snapshot import BaselineSnapshot
from tally.families import Family
from tally.generation import Generation
from tally.instants import from_millis
from tally.settings import Settings

# Days of stores that are read at once: up to nine days' rows each.
_AT_ONCE = 32
# Days of stores that are kept, some 30 kB each, beside those of now, which are judged every quarter
# hour: once there is no room for one of these, none would be found again.
_MOST_DAYS, _NOW_MILLIS = 2_000, timedelta(days=3) // timedelta(milliseconds=1)
# As many as days are judged at all.
_MOST_SNAPSHOTS = 450
# So long after a day's begin it is that day, whatever is done to clocks at midnight.
_INSIDE = timedelta(hours=3)


class _AskedDay:
    """A local day of a store of which is asked what is usual."""

    def __init__(self, of: UsualOf, days: StoreCalendarDays) -> None:
        self.of, self._days = of, days
        self.span, self.date = days.day(of.start), days.date(of.start)

    def windows(self) -> list[tuple[int, int]]:
        """Start of each window in milliseconds since 1970, and the clock's minutes then."""
        return [(one, self.clock(one)) for one in self.span.windows]

    def clock(self, window: int) -> int:
        """Minutes since midnight that the store's clock shows as the window begins."""
        shown = self._shown(window)
        return 60 * shown.hour + shown.minute

    def earlier(self, snapshot: BaselineSnapshot) -> list[WindowSpan]:
        """The same weekdays before the snapshot, newest first."""
        begin = self._shown(self.span.start).replace(tzinfo=None)
        dates = earlier_dates(self.of.baseline, self.date, snapshot.first_day)
        inside = (begin - (self.date - one) + _INSIDE for one in dates)
        shown = (one.replace(tzinfo=self._days.zone) for one in inside)
        return [self._days.day(millis_of(one)) for one in shown]

    def _shown(self, millis: int) -> datetime:
        return from_millis(millis).astimezone(self._days.zone)


class PinnedMoment(ViewsMoment):
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
                # Numbers of an older definition are others.
                one.day: one.whole
                for one in days
                if one.epoch >= FAMILIES[family].epoch
            }
            for family, days in snapshot.days.items()
            if family in FAMILIES
        }

    async def published(self, family: str, days: Sequence[date]) -> dict[date, Generation]:
        """By UTC day the generation that the snapshot has of it."""
        pinned = self._pinned.get(family, {})
        return {day: pinned[day] for day in days if day in pinned}

    async def pointers(self, family: Family, days: Sequence[date]) -> Pointers:
        """The same, as of the past."""
        pinned = await self.published(family.name, days)
        return Pointers(family, pinned, {}, {}, reads_speed=False)

    async def usual_of(self, asked: Sequence[_AskedDay]) -> dict[UsualOf, UsualWindows]:
        """What is usual on local days that the snapshot serves. Raises ViewsUnreachable."""
        spans = {one.of: one.earlier(self._snapshot) for one in asked}
        await self.read(
            FamilyWindowsOf(family.name, of.store_id, span)
            for of, some in spans.items()
            for span in some
            for family in catalogue.metric(of.metric).families
        )
        return {one.of: self._usual_windows(one, spans[one.of]) for one in asked}

    def _usual_windows(self, asked: _AskedDay, spans: Sequence[WindowSpan]) -> UsualWindows:
        metric = catalogue.metric(asked.of.metric)
        days = []
        for span in spans:
            cells = self.cells(metric, asked.of.store_id, span)
            samples = (_sample(metric, one) for one in cells)
            windows = [*zip(map(asked.clock, span.windows), samples, strict=True)]
            is_complete = all(one.is_complete for one in cells)
            # Of a ratio neither side says what is usual while the other does not send.
            has_events = all(
                any(one.cell.parts.get(family.name) for one in cells) for family in metric.families
            )
            days.append(EarlierDay(windows, is_complete, has_events))
        found = usual_windows(asked.of.baseline, asked.windows(), days)
        number = self._snapshot.number
        return {start: structs.replace(one, snapshot=number) for start, one in found.items()}


class UsualDays:
    """A UsualSource over the snapshots that there are. What was answered once is kept."""

    def __init__(
        self,
        views: ViewReader,
        registry: StoreRegistry,
        settings: Settings,
        moment: type[PinnedMoment] = PinnedMoment,
    ) -> None:
        self._views, self._registry, self._settings = views, registry, settings
        self._moment = moment
        self._snapshots: OrderedDict[date, BaselineSnapshot] = OrderedDict()
        self._known: OrderedDict[UsualOf, UsualWindows] = OrderedDict()

    async def read(self, wanted: Sequence[UsualOf]) -> dict[UsualOf, UsualWindows]:
        """By day and window what is usual; nothing in one that no snapshot serves."""
        found = {one: self._known[one] for one in wanted if one in self._known}
        for lot in chunks([one for one in wanted if one not in found], _AT_ONCE):
            found |= await self._read(lot)
        for one in found.keys() & self._known.keys():
            self._known.move_to_end(one)
        newest = max((one.start for one in self._known), default=0)
        past = [one for one in self._known if one.start < newest - _NOW_MILLIS]
        for oldest in past[: max(0, len(past) - _MOST_DAYS)]:
            del self._known[oldest]
        return found

    async def _read(self, wanted: Sequence[UsualOf]) -> dict[UsualOf, UsualWindows]:
        found: dict[UsualOf, UsualWindows] = {one: {} for one in wanted}
        served: dict[int, list[_AskedDay]] = defaultdict(list)
        snapshots: dict[int, BaselineSnapshot] = {}
        all_asked = [
            _AskedDay(one, StoreCalendarDays(self._registry.store(one.store_id))) for one in wanted
        ]
        # Where there is none yet it is asked for again: the first may be on its way.
        by_day = {day: await self._snapshot(day) for day in {one.date for one in all_asked}}
        for asked in all_asked:
            if (snapshot := by_day[asked.date]) is not None:
                snapshots[snapshot.number] = snapshot
                served[snapshot.number].append(asked)
        for number, days in served.items():
            pinned = self._moment(self._views, self._registry, self._settings, snapshots[number])
            of_snapshot = await pinned.usual_of(days)
            self._known |= of_snapshot
            found |= of_snapshot
        return found

    async def _snapshot(self, day: date) -> BaselineSnapshot | None:
        """The one that serves the local day: for good, for a later one serves none that began."""
        found = self._snapshots.get(day) or await self._views.baselines.serving(day)
        if found is not None:
            self._snapshots[day] = found
            self._snapshots.move_to_end(day)
            while len(self._snapshots) > _MOST_SNAPSHOTS:
                self._snapshots.popitem(last=False)
        return found


def _sample(metric: Metric, one: JudgedCell) -> UsualSample | None:
    """The value of a window; None where it has none, or one that is not told."""
    if not one.cell.known or one.is_hidden or not one.cell.watch.is_enough:
        return None
    above, below = sides_of(metric, one.cell)
    return None if above is None or below is None or below <= 0 else UsualSample(above, below)
