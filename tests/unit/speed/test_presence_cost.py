"""What a sighting costs: it writes the windows that it changes, and reads no earlier day."""

from collections.abc import Iterator
from typing import NamedTuple

from runtime.registry.sources import FAMILIES
from speed_layer.state.partition_windows import PageKey
from speed_layer.state.presence import PartitionPresences, SightingRecord
from speed_layer.state.presence_pages import KeySpan
from tally.people.heard import Sighting

WIFI = FAMILIES["wifi"]
NEIGHBOURS, DAYS, DAY = 3, 14, 1440
PERIOD = KeySpan(0, DAYS * DAY)
NOON = 720


class CountingPages(dict[PageKey, bytes]):
    """Pages, and how many bytes of them were read and written."""

    moved = 0

    def __getitem__(self, key: PageKey) -> bytes:
        page = super().__getitem__(key)
        self.moved += len(page)
        return page

    def __setitem__(self, key: PageKey, page: bytes) -> None:
        self.moved += len(page)
        super().__setitem__(key, page)


class Cost(NamedTuple):
    """Of a minute: windows that are written, rows, bytes of the state read and written."""

    windows: int
    rows: int
    moved: int


def costs() -> Iterator[tuple[int, Cost]]:
    """Day of the period and what its minute at noon costs, of a store whose neighbours are always
    there: heard every ten minutes, and around noon each minute."""
    pages = CountingPages()
    state = PartitionPresences(0, pages, family=WIFI)
    for day in range(DAYS):
        around_noon = range(NOON - 20, NOON)
        for minute in sorted({*range(0, NOON, 10), *around_noon, NOON}):
            pages.moved = 0
            rows = list(state.take(_heard(day * DAY + minute), 1))
        yield day, Cost(len({row.start for row in rows}), len(rows), pages.moved)


def _heard(minute: int) -> list[SightingRecord]:
    sightings = (Sighting(one << 64 | one, "fixed", 60 * minute, -70) for one in range(NEIGHBOURS))
    return [SightingRecord("367", PERIOD, one, "540-1260") for one in sightings]


def test_a_minute_of_neighbours_costs_the_same_on_each_day_of_a_key_period() -> None:
    found = dict(costs())

    # Of who came days ago, and is still there, nothing is written again.
    assert {(one.windows, one.rows) for one in found.values()} == {(1, 3)}
    moved = [one.moved for one in found.values()]
    print(f"bytes read and written in a minute: {moved}")
    assert max(moved) < 1.2 * moved[0]


def test_a_minute_in_which_presences_begin_costs_the_same_on_each_day_of_a_key_period() -> None:
    moved = []
    pages = CountingPages()
    state = PartitionPresences(0, pages, family=WIFI)
    # Passing, for two minutes of each three quarters of an hour.
    for minute in range(0, DAYS * DAY, 45):
        for heard in (minute, minute + 1):
            pages.moved = 0
            list(state.take(_heard(heard), 1))
        if minute % DAY == NOON:
            moved.append(pages.moved)

    print(f"bytes read and written in a minute in which all begin: {moved}")
    assert max(moved[1:]) < 1.2 * moved[1]
