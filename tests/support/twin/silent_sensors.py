"""Store 367 is open from 8 to 10 on Mondays to Saturdays, with two doors; the second is there since
the 21st, and says nothing between 9 and 10 of that day.
"""

from collections.abc import Iterator
from datetime import date

from runtime.registry.sources import SALES, TRAFFIC
from serving.storage.tables import Activity
from tests.support.serving.serving_world import WIFI, Stored, World, counted, flip, visits

WHOLE, HALF, SUNDAY, OF_SPEED = "2026-11-20", "2026-11-21", "2026-11-22", "2026-11-23"
STORES = """
367:
  opening_hours: {mon-sat: "08:00-10:00", sun: closed}
  access_points: [ap-1, ap-2]
  sensors:
    accc00000001: {device_id: door_1}
    accc00000002: {device_id: door_2, since: 2026-11-21}
406:
  sensors: {accc00000003: {device_id: door_1}}
"""


def _quarters(day: str, hour: int) -> list[str]:
    return [f"{day}T{hour:02}:{minute:02}" for minute in (0, 15, 30, 45)]


def _doors(store: str, day: str, generation: int | None = 7) -> Iterator[Stored]:
    """Ten persons a quarter of an hour; messages that tell of one minute twice among them."""
    for start in (*_quarters(day, 8), *_quarters(day, 9)):
        seen = {"door_1": 960}
        if day >= HALF and "T09" not in start:
            seen["door_2"] = 900
        yield counted(store, start, 30, 10, generation, **seen)


def silent_world() -> World:
    found = World([one for day in (WHOLE, HALF) for one in _doors("367", day)])
    found.rows += [*_doors("406", WHOLE), *_doors("367", OF_SPEED, None)]
    found.rows.append(visits("367", f"{WHOLE}T08:00", (5, 7), 3, 7))
    found.pointers = [
        (family, flip(day, 7, "2026-11-22T12:00", pin=100))
        for family in (SALES, TRAFFIC, WIFI)
        for day in (WHOLE, HALF, SUNDAY)
    ]
    found.activity = [
        (SALES, Activity(store, date(2026, 11, 20), date(2026, 11, 23)))
        for store in ("367", "406", "500")
    ]
    return found


def silent_week() -> World:
    """The world with each day since the 15th rebuilt, whose first door is heard on all that are
    open: a week until the 21st has no quarter hour without an answer."""
    found = silent_world()
    for day in (date(2026, 11, number) for number in range(15, 20)):
        found.pointers += [
            (family, flip(str(day), 7, "2026-11-22T12:00", pin=100))
            for family in (SALES, TRAFFIC, WIFI)
        ]
        if day.weekday() < 6:
            found.rows += _doors("367", str(day))
    return found
