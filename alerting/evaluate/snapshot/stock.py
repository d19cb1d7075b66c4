"""The stock of a store's articles in each window of a local day, for rules of kind stock."""

import asyncio
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import lru_cache
from typing import NamedTuple

import structlog

from alerting.alert.ids import subject_text
from alerting.evaluate.scope.calendar import WindowSpan
from serving import items
from serving.merge.served import FamilyReading, ServedWindow, serve_windows
from serving.questions.catalogue import Metric
from serving.questions.question import StoreSlots
from serving.stock import SalesMoves, ShelfMoves, StockReader, shelf_moves
from tally.algebra.level import WindowStock
from tally.algebra.merge import MergedWindow
from tally.errors import BadQuery
from tally.families.family import Family
from tally.time.instants import to_millis
from tally.time.windows import window_starts

_NEVER = 1 << 62
# Reads a family by the generations of one snapshot. Raises ViewsUnreachable.
ReadFamily = Callable[[Family, StoreSlots], Awaitable[FamilyReading]]

log = structlog.get_logger()


class ShelfStep(NamedTuple):
    """The levels of an article in the window with that number, from 0 on.

    Until the article's next step its last level stands: WindowStock(level, level).
    """

    window: int
    levels: WindowStock


# The steps of one article, by window ascending; the first step is of window 0.
ShelfSteps = tuple[ShelfStep, ...]


class DayShelves:
    """All articles of a store on a local day, by the subjects that alert ids use.

    Its size grows with the number of articles and moves. `is_partial`: articles of unknown stock
    may have been counted before the rows that were read.
    """

    def __init__(
        self, moves: Sequence[Mapping[str, WindowStock]], *, is_partial: bool = False
    ) -> None:
        """`moves`: the levels, in thousandths, of what moves in each window; in the first, all."""
        self.is_partial = is_partial
        steps: dict[str, list[ShelfStep]] = defaultdict(list)
        for window, moved in enumerate(moves):
            for article, reached in moved.items():
                steps[article].append(ShelfStep(window, reached))
        self._steps: dict[str, ShelfSteps] = {
            subject_text("item", article): tuple(article_steps)
            for article, article_steps in steps.items()
        }
        # The articles by the lowest stock, in thousandths, that they had in a window.
        self._by_lowest: dict[int, list[str]] = defaultdict(list)
        for subject, found in self._steps.items():
            ends = [*(step.window for step in found[1:]), len(moves)]
            for (window, (level, lowest)), end in zip(found, ends, strict=True):
                if lowest is not None:
                    self._by_lowest[lowest].append(subject)
                # The last level stands in all windows until the article's next move.
                if level is not None and window + 1 < end and level != lowest:
                    self._by_lowest[level].append(subject)

    @property
    def subjects(self) -> Collection[str]:
        """All articles, whether they were ever counted or not."""
        return self._steps.keys()

    @property
    def unknown_count(self) -> int:
        """The number of articles whose stock at the end of the day is unknown."""
        return sum(steps[-1].levels.level is None for steps in self._steps.values())

    def steps_for(self, subject: str) -> ShelfSteps:
        """The article's steps; articles with equal steps are evaluated alike."""
        return self._steps.get(subject, ())

    def levels_at(self, subject: str, window: int) -> WindowStock | None:
        """The levels in the window with that number; None for an article that is not there."""
        steps = self.steps_for(subject)
        place = bisect_right(steps, window, key=lambda step: step.window) - 1
        if place < 0:
            return None
        step_window, levels = steps[place]
        return levels if step_window == window else WindowStock(levels.level, levels.level)

    def matching_subjects(self, holds: Callable[[int], bool]) -> Iterator[str]:
        """The articles whose lowest stock in a window, in thousandths, fulfils the condition.

        An article may come several times. `holds` is called once for each distinct number.
        """
        for lowest, subjects in self._by_lowest.items():
            if holds(lowest):
                yield from subjects


@dataclass(frozen=True, slots=True)
class WindowShelves:
    """The articles in one window of the day."""

    day: DayShelves
    window: int

    def __bool__(self) -> bool:
        return bool(self.day.subjects)

    def levels(self, subject: str) -> WindowStock | None:
        """The levels of the article; None if it is not there."""
        return self.day.levels_at(subject, self.window)

    @property
    def is_counted(self) -> bool:
        """Whether the stock of any article is known."""
        levels = map(self.levels, self.day.subjects)
        return any(reached is not None and reached.level is not None for reached in levels)


class StockSpeedRows(NamedTuple):
    """The rows of the speed layer that a level depends on.

    `start`: their first window (ms since 1970, UTC). `epoch`: the highest epoch of the generations
    that serve the days since the last counts.
    """

    family: str
    start: int
    epoch: int


# Not a tuple: the key of a metric would equal that of a family with the same name.
@dataclass(frozen=True)
class StockDayRequest:
    """Windows of one local day of a store, in all families that a stock is made of."""

    metric: str
    store_id: str
    span: WindowSpan


class StockDay(NamedTuple):
    """The windows of a day; `shelves`: the stock in them."""

    windows: Sequence[ShelfMoves]
    shelves: DayShelves
    readings: Sequence[FamilyReading]
    speed_rows: tuple[StockSpeedRows, ...]


async def read_stock_day(
    metric: Metric, slots: StoreSlots, stock_reader: StockReader, read_family: ReadFamily
) -> StockDay | None:
    """The quarter hours of the slots; None where a single day is more than may be read.

    If there are too many receipts since the last counts, only later ones are read: articles that
    were counted before are then unknown until they are counted again. Raises ViewsUnreachable when
    a read fails.
    """
    assert metric.stock is not None
    [counted] = await stock_reader.with_baselines(metric.stock, [slots], None)
    readings = await asyncio.gather(*(read_family(part, counted) for part in metric.families))
    # From the last counts on, and not from the start of the day.
    starts = window_starts(*counted.span)
    served = [serve_windows(reading, starts) for reading in readings]
    receipts = dict(zip(starts, served[-1], strict=True))
    sold = await _read_sales(stock_reader, counted, readings, receipts)
    if sold is None:
        return None
    part, sales = sold
    left_out = len(starts) - len(window_starts(*part.span))
    starts, served = starts[left_out:], [windows[left_out:] for windows in served]
    all_windows = zip(*(map(_empty_if_missing, windows) for windows in served), strict=True)
    moves = [*shelf_moves(part, all_windows, sales)]
    shelves = DayShelves([window.moved for window in moves], is_partial=left_out > 0)
    if shelves.is_partial:
        day = slots.slots[0].start.date()
        _warn_unknown(slots.store_id, day, shelves.unknown_count)
    pairs = zip(readings, served, strict=True)
    speed_rows = tuple(_speed_rows(*pair, starts) for pair in pairs)
    return StockDay(moves, shelves, readings, speed_rows)


async def _read_sales(
    stock_reader: StockReader,
    slots: StoreSlots,
    readings: Sequence[FamilyReading],
    receipts: Mapping[datetime, ServedWindow],
) -> tuple[StoreSlots, SalesMoves] | None:
    """The slots since the last counts, or later ones, and their sales; None: a day is too much."""
    most = items.MAX_RECEIPTS
    while True:
        part = _cut_to_limit(slots, receipts, most)
        try:
            moves = await stock_reader.read_sales(part, readings)
        except BadQuery as error:
            if part.span.start == slots.slots[0].start or not most:
                log.warning("stock is not judged", store=slots.store_id, reason=str(error))
                return None
            # Receipts have many lines, or there are more than a view has counted so far.
            most //= 2
        else:
            assert moves is not None
            return part, moves


def _cut_to_limit(
    slots: StoreSlots, receipts: Mapping[datetime, ServedWindow], most: int
) -> StoreSlots:
    """The slots from the earliest window since which a view has counted at most `most` receipts.

    The day itself always stays whole. `receipts`: each window that is read, by its start.
    """
    assert slots.stock_baseline is not None
    since = first = slots.slots[0].start
    left = most
    for start in sorted(receipts, reverse=True):
        left -= receipts[start].merged.events or 0
        if left < 0 and start < first:
            return replace(slots, stock_baseline=replace(slots.stock_baseline, since=since))
        since = min(since, start)
    return slots


def _empty_if_missing(window: ServedWindow) -> ServedWindow:
    # Ticks and generations say whether all data of the window had arrived.
    if window.merged.values is not None:
        return window
    return ServedWindow(MergedWindow("speed", 0, {}), "provisional")


def _speed_rows(
    reading: FamilyReading, served: Sequence[ServedWindow], starts: Sequence[datetime]
) -> StockSpeedRows:
    pairs = zip(starts, served, strict=True)
    by_speed = (to_millis(start) for start, window in pairs if window.merged.source != "batch")
    epochs = (generation.epoch for generation in reading.published.values())
    start, epoch = min(by_speed, default=_NEVER), max(epochs, default=0)
    return StockSpeedRows(reading.family.name, start, epoch)


# Cached to log once for each day and number: a day is evaluated hundreds of times.
@lru_cache(maxsize=10_000)
def _warn_unknown(store_id: str, day: date, articles: int) -> None:
    log.warning(
        "articles are not judged: too many receipts since they were counted; count them",
        store=store_id,
        day=f"{day}",
        articles=articles,
    )
