"""Paging: the stretches that one answer holds, and where the next page begins."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from serving.questions.question import StoreSlots
from tally.time.windows import WINDOW, TimeRange
from web.api.requests.cursor import MetricCursor, wrong_cursor_error

# Every window of an answer is read and merged, no matter how long its rows are, so this limits the
# cost of one query.
MAX_WINDOWS = 40_000


class PageEnd(NamedTuple):
    """The end of a page: its last store, and the end of that store's last stretch, UTC."""

    store: str
    instant: datetime


def cut_page(
    asked: Sequence[StoreSlots], place: MetricCursor | None, limit: int
) -> tuple[list[StoreSlots], PageEnd | None]:
    """The stretches after the place, of all stores in order, that make at most `limit` rows.

    There is at least one stretch, and there are fewer if stretches are long. The second value is
    the end of the page, None if no stretch is left. Raises BadQuery when there is no such place.
    """
    page: list[StoreSlots] = []
    room, windows = limit, MAX_WINDOWS
    number, first = _find_start(asked, place)
    for store in asked[number:]:
        # The page takes at least one stretch, no matter how many rows it has; with an empty page
        # a client would make no progress.
        taken = store.slots[first : first + max(room // store.rows_per_slot, 0 if page else 1)]
        # For a level, each page also reads the windows since the reset, which none of its rows has.
        windows -= (store.slots[first].start - store.read_from(first)) // WINDOW
        taken = taken[: _count_affordable(taken, windows, is_first=not page)]
        if taken:
            page.append(replace(store, slots=taken))
        if first + len(taken) < len(store.slots):
            last = page[-1]
            return page, PageEnd(last.store_id, last.slots[-1].end)
        room -= len(taken) * store.rows_per_slot
        windows -= sum((end - start) // WINDOW for start, end in taken)
        first = 0
    if not page:
        raise wrong_cursor_error()
    return page, None


def _find_start(asked: Sequence[StoreSlots], place: MetricCursor | None) -> tuple[int, int]:
    """The numbers of the store and of its stretch at which the page begins.

    The place is that of the last stretch before the page, so a store that has appeared since then
    and sorts after it is still answered.
    """
    if place is None:
        return 0, 0
    # Found by name and instant instead of a count of rows: with a count, a store that appeared
    # between two pages made rows of other stores appear twice (seen).
    for number, store in enumerate(asked):
        if store.store_id == place.store:
            before = bisect_left(store.slots, place.instant, key=lambda slot: slot.end)
            if before < len(store.slots) and store.slots[before].end == place.instant:
                following = before + 1
                return (number, following) if following < len(store.slots) else (number + 1, 0)
    raise wrong_cursor_error()


def _count_affordable(slots: Sequence[TimeRange], windows: int, is_first: bool) -> int:
    used_windows = 0
    for count, (start, end) in enumerate(slots):
        used_windows += (end - start) // WINDOW
        if used_windows > windows and not (is_first and count == 0):
            return count
    return len(slots)
