"""Pages: which of all stretches one answer holds, and where the next one begins."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from serving.api.cursor import PagePlace, not_of_this
from serving.query.grains import Slot
from serving.query.question import StoreSlots
from tally.windows import WINDOW

# Each window of an answer is read and merged, however long its rows are: this bounds what one
# question costs.
MOST_WINDOWS = 40_000


class End(NamedTuple):
    """Where a page ends: its last store, and the end of the last stretch of it, UTC."""

    store: str
    instant: datetime


def page_of(
    asked: Sequence[StoreSlots], place: PagePlace | None, limit: int
) -> tuple[list[StoreSlots], End | None]:
    """The stretches after the place, of all stores in order, that make at most `limit` rows.

    They are one stretch at least, and fewer where stretches are long. Also store and end of the
    last one, None if none is left. Raises BadQuery: no such place.
    """
    page: list[StoreSlots] = []
    room, windows = limit, MOST_WINDOWS
    number, first = _located(asked, place)
    for store in asked[number:]:
        # One at least, however many rows it is: an empty page would never come any further.
        some = store.slots[first : first + max(room // store.rows_each, 0 if page else 1)]
        # Of a level each page reads the windows since the reset too, which no row of it shows.
        windows -= (store.slots[first].start - store.read_from(first)) // WINDOW
        some = some[: _affordable(some, windows, is_first=not page)]
        if some:
            page.append(replace(store, slots=some))
        if first + len(some) < len(store.slots):
            last = page[-1]
            return page, End(last.store_id, last.slots[-1].end)
        room -= len(some) * store.rows_each
        windows -= sum((end - start) // WINDOW for start, end in some)
        first = 0
    if not page:
        raise not_of_this()
    return page, None


def _located(asked: Sequence[StoreSlots], place: PagePlace | None) -> tuple[int, int]:
    """Numbers of the store and of its stretch at which the page begins.

    The place is that of the last stretch before: a store that has appeared since takes its turn
    behind it.
    """
    if place is None:
        return 0, 0
    # By name and instant, not by a count of rows: with that a store that appeared between two pages
    # had rows of others told twice (seen).
    for number, store in enumerate(asked):
        if store.store_id == place.store:
            before = bisect_left(store.slots, place.instant, key=lambda slot: slot.end)
            if before < len(store.slots) and store.slots[before].end == place.instant:
                following = before + 1
                return (number, following) if following < len(store.slots) else (number + 1, 0)
    raise not_of_this()


def _affordable(slots: Sequence[Slot], windows: int, is_first: bool) -> int:
    used = 0
    for count, (start, end) in enumerate(slots):
        used += (end - start) // WINDOW
        if used > windows and not (is_first and count == 0):
            return count
    return len(slots)
