"""A metric over some days of one store compared with earlier ones, and the quality of both."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import pairwise
from math import floor
from typing import Literal
from zoneinfo import ZoneInfo

from serving.answer import StoreAnswer
from serving.cells import cells
from serving.cells.coverage import SlotCoverage
from serving.disclosure import suppression_reason
from serving.merge.served import is_settled
from serving.questions import grains
from serving.questions.catalogue import Metric, MetricValue
from serving.questions.question import StoreSlots
from serving.questions.stores import Store
from tally.errors import BadQuery
from tally.families.family import CURRENCY
from tally.time.day_clock import DayClock, zone_name
from tally.time.fiscal import like_for_like
from tally.time.windows import ONE_DAY, WINDOW, TimeRange, days_until

ComparisonState = Literal["unknown", "partial", "withheld", "estimated", "provisional", "complete"]
# The answer for some days, and that for the days before.
Answers = tuple[StoreAnswer, StoreAnswer]


@dataclass(frozen=True)
class StoreSpan:
    """A store, and a span from the begin of one of its local days to that of another."""

    store_id: str
    clock: DayClock
    span: TimeRange
    # The days to compare with, as many; None stands for those just before.
    like: TimeRange | None = None

    @property
    def zone(self) -> ZoneInfo:
        """The zone whose times are shown."""
        return self.clock.zone

    @property
    def tz(self) -> str:
        """The name of that zone; if it has changed, that at the end of the span."""
        return zone_name(self.zone, self.span.end - WINDOW)

    @property
    def before(self) -> TimeRange:
        """The days to compare with: as many local days just before, or those of `like`."""
        if self.like is not None:
            return self.like
        first, last = map(self.clock.day, self.span)
        return TimeRange(self.clock.start_of_day(first - (last - first)), self.span.start)

    def single_slots(self) -> list[StoreSlots]:
        """The days as one stretch, and those before as another."""
        spans = (self.span, self.before)
        return [StoreSlots(self.store_id, self.clock, (days,)) for days in spans]

    def cut(self, grain: str) -> list[StoreSlots]:
        """The days as stretches of a grain, and those before. Raises BadQuery."""
        spans = (self.span, self.before)
        each = (grains.slots(*days, grain, self.clock) for days in spans)
        return [StoreSlots(self.store_id, self.clock, slots) for slots in each]


@dataclass(frozen=True)
class WithheldValue:
    """Why there is no number: the values that it would be computed from do not go together."""

    reason: str


@dataclass(frozen=True)
class ComparedValue:
    """The value of some days and of as many before, in the metric's unit; None: not known.

    `known` of the days' `windows` quarter hours have an answer. `is_settled` is true if none of
    those may change, and `complete` if none of the days before may either and the sensors were
    there on both. `sensor_coverage` is what they saw of the days. Every record that had arrived by
    `through` is counted. `suppressed` is why the value is withheld, `suppressed_before` why that
    before is.
    """

    metric: str
    unit: str
    currency: str | None
    value: MetricValue
    previous: MetricValue
    change_percent: float | None
    known: int
    windows: int
    is_settled: bool
    complete: bool
    through: datetime | None
    sensor_coverage: SlotCoverage = field(default_factory=SlotCoverage)
    # Whether the series adds up to the value, which may fail: views and receipts are two tables.
    is_explained: bool = True
    suppressed: str | None = None
    suppressed_before: str | None = None

    @property
    def coverage(self) -> float:
        """The share of the quarter hours that are known, or of the sensors if less, 4 decimals."""
        # Rounded down, so that a share below 1 never looks whole.
        known = floor(10_000 * self.known / self.windows) / 10_000
        share = self.sensor_coverage.share
        return known if share is None else min(known, share)

    @property
    def state(self) -> ComparisonState:
        """The quality of the value in one word: the first state that holds."""
        # By these days alone: a change on the days before alters the comparison, not the value.
        if self.known == 0:
            return "unknown"
        if self.suppressed is not None or self.sensor_coverage.is_withheld:
            return "withheld"
        if self.known < self.windows or not self.is_explained:
            return "partial"
        if not self.sensor_coverage.is_enough:
            return "estimated"
        return "complete" if self.is_settled else "provisional"


def comparison(metric: Metric, answers: Answers) -> ComparedValue:
    """The metric's comparison, from days cut by any grain. Raises BadQuery for mixed currencies."""
    whole, earlier = (cells.join_cells(metric.families, days.result_cells) for days in answers)
    value, suppressed = value_or_reason(metric, answers[0], whole)
    previous, suppressed_before = value_or_reason(metric, answers[1], earlier)
    # Only whole days are compared: a missing part would look like a change.
    is_comparable = whole.has_all_windows and earlier.has_all_windows
    is_seen = whole.sensor_coverage.is_enough and earlier.sensor_coverage.is_enough
    return ComparedValue(
        metric.entry.id,
        metric.entry.unit,
        _currency(metric, answers),
        value,
        previous,
        change_percent(value, previous) if is_comparable else None,
        whole.known,
        whole.windows,
        is_settled(whole.statuses),
        is_settled(whole.statuses | earlier.statuses) and is_seen,
        answers[0].through,
        whole.sensor_coverage,
        suppressed=suppressed,
        suppressed_before=suppressed_before,
    )


def value_or_reason(
    metric: Metric, answer: StoreAnswer, cell: cells.Cell
) -> tuple[MetricValue, str | None]:
    """The metric's value of one of the answer's stretches; None with a reason if it is withheld."""
    why = None if cell.is_missing else suppression_reason(answer.disclosure, metric, cell.slot)
    return (None if why else cells.cell_values(metric, cell)["value"]), why


def change_percent(value: MetricValue, previous: MetricValue) -> float | None:
    """The change from the previous value, in percent of that value's size, with one decimal.

    It is computed from unrounded numbers; None if the previous number is not known, or is 0.

    >>> change_percent(240_808, 239_134), change_percent(-50, -100)
    (0.7, 50.0)
    """
    if value is None or not previous:
        return None
    # Adding 0.0 turns -0.0 into 0.0.
    return round(100 * (value - previous) / abs(previous), 1) + 0.0


def _currency(metric: Metric, answers: Sequence[StoreAnswer]) -> str | None:
    if not metric.is_money:
        return None
    found = [cell for answer in answers for cell in answer.result_cells]
    seen = cells.values_in_cells(found, metric.families, CURRENCY)
    refuse_mixed_currencies(seen, metric.entry.id)
    return next(iter(seen), None)


def refuse_mixed_currencies(currencies: Collection[str], metric_id: str) -> None:
    """Raise BadQuery for money of several currencies."""
    if len(currencies) > 1:
        detail = f"store: it takes {', '.join(sorted(currencies))}, which do not add up"
        raise BadQuery("store", f"{detail}; ask /v1/metrics/{metric_id} with by=currency")


# The most stretches that an error message proposes instead.
_MAX_SHOWN = 5
_ELSE = "or with compare=before"


def like_span(store: Store, asked: StoreSlots) -> TimeRange:
    """The span of the days that the asked ones are like. Raises BadQuery if they are scattered."""
    # A sum over the span would then include other days.
    clock, before = asked.clock, list[date]()
    days = days_until(*map(clock.day, asked.span))
    for day in days:
        like = like_for_like(day, store.entry.holidays)
        if like.day is None:
            why = f"{day} is like no day ({like.reason})"
            raise BadQuery("compare", f"compare: {why}; ask for the days beside it, {_ELSE}")
        before.append(like.day)
    _refuse_scattered(days, before)
    after = before[-1] + ONE_DAY
    return TimeRange(clock.start_of_day(before[0]), clock.start_of_day(after))


def _refuse_scattered(days: Sequence[date], before: Sequence[date]) -> None:
    # The day that each would be like if these days were consecutive.
    following = [before[0], *(earlier + ONE_DAY for earlier in before)]
    each = zip(days, before, following, strict=False)
    torn = [day for day, like, due in each if like != due]
    if not torn:
        return
    # Each stretch between two breaks can be compared on its own.
    bounds = [days[0], *torn, days[-1] + ONE_DAY]
    spans = [f"from={first}&to={end}" for first, end in pairwise(bounds)]
    more = len(spans) - _MAX_SHOWN
    # Limited, for a year has a dozen holidays.
    left_out = f" and {more} more" if more > 0 else ""
    raise BadQuery(
        "compare",
        "compare: the days that these are like do not follow each other (a holiday, or a year of"
        f" 53 weeks); ask for each of {', '.join(spans[:_MAX_SHOWN])}{left_out}, {_ELSE}",
    )
