"""Pages: which of all rows one answer holds, and the address of the next one."""

from collections.abc import Sequence
from urllib.parse import urlencode

from serving.api.grains import Slot
from serving.api.question import StoreSlots
from tally.windows import WINDOW

# Each window of an answer is read and merged, however long its rows are: this bounds what one question costs.
MOST_WINDOWS = 100_000


def page_of(asked: Sequence[StoreSlots], after: int, limit: int) -> tuple[list[StoreSlots], int | None]:
    """The stretches `after` to `after + limit` of all stores in order, and the next `after`; fewer where they are long."""
    page: list[StoreSlots] = []
    passed, room, windows = 0, limit, 0
    for store in asked:
        first = max(0, after - passed)
        some = store.slots[first : first + room]
        affordable = _affordable(some, MOST_WINDOWS - windows, is_first=not page)
        if affordable:
            page.append(StoreSlots(store.store_id, store.zone, some[:affordable]))
            room -= affordable
            windows += sum((end - start) // WINDOW for start, end in some[:affordable])
        if affordable < len(some) or room == 0:
            break
        passed += len(store.slots)
    done = after + limit - room
    total = sum(len(store.slots) for store in asked)
    return page, done if done < total else None


def next_address(path: str, parameters: Sequence[tuple[str, str]], after: int | None) -> str | None:
    """Path and query of the next page, with the parameters of this one; None when there is none."""
    if after is None:
        return None
    return f"{path}?{urlencode([*((name, value) for name, value in parameters if name != 'after'), ('after', str(after))])}"


def _affordable(slots: Sequence[Slot], windows: int, is_first: bool) -> int:
    used = 0
    for count, (start, end) in enumerate(slots):
        used += (end - start) // WINDOW
        if used > windows and not (is_first and count == 0):
            return count
    return len(slots)
