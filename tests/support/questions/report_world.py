"""A world of receipts, people counters and devices for the reports: two settled weeks, then two
days that the speed layer alone knows. Stored receipts come to what the views say.

Of 406 (partition 0) records of the 10th came after the rebuild; 500 takes two currencies.
"""

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from runtime.registry.sources import SALES, TRAFFIC
from serving.storage.tables import Activity
from tests.support.serving.raw_receipts import Raw, line, raw
from tests.support.serving.serving_world import WIFI, Stored, World, counted, flip, sale, visits

FIRST, SETTLED, LAST = date(2026, 11, 8), date(2026, 11, 22), date(2026, 11, 24)
STORES = ("367", "406", "500")
DAYS = [FIRST + timedelta(days=days) for days in range((LAST - FIRST).days + 1)]
# Until, of the last seven days.
COMPLETE, PARTIAL, BEFORE_ALL, UNKNOWN = "2026-11-22", "2026-11-24", "2026-11-15", "2026-01-31"
# Articles; a name may be markup, and one has no category.
GOODS: tuple[dict[str, Any], ...] = (
    {"item": "Milk 1l", "item_id": "4001", "category": "Dairy"},
    {"item": "<b>Brie</b> & 'Co'", "item_id": "4002", "category": "Dairy"},
    {"item": "Bread", "item_id": "4003", "category": "Bakery"},
    {"item": "Bag", "item_id": "4004"},
)
NAME = "Corso <b>Italia</b> & 'Figli'"


def report_world() -> World:
    """The world; nothing of it is by chance."""
    world = World([row for day in DAYS for store in STORES for row in _rows(store, day)])
    world.receipts = [one for day in DAYS for store in STORES for one in _receipts(store, day)]
    families = (SALES, TRAFFIC, WIFI)
    world.pointers = [
        (family, flip(str(day), 7, "2026-11-23T02:00", pin=100))
        for family in families
        for day in DAYS
        if day <= SETTLED
    ]
    world.master = [(family, date(2026, 11, 10), 0, 101) for family in families]
    world.activity = [(SALES, Activity(store, FIRST, LAST)) for store in STORES]
    return world


def many_stores(count: int) -> World:
    """The world with more stores, of which nothing but their first day is known."""
    world = report_world()
    world.activity += [
        (SALES, Activity(str(1000 + number), LAST, LAST)) for number in range(count - len(STORES))
    ]
    return world


def stores_file(folder: Path) -> Path:
    """A stores file in which 367 has a name that is markup."""
    file = folder / "stores.yaml"
    file.write_text(f'367: {{name: "{NAME}", tz: Europe/Rome, currency: USD}}\n', "utf-8")
    return file


def _rows(store: str, day: date) -> Iterator[Stored]:
    generation = 7 if day <= SETTLED else None
    number = STORES.index(store) + 1
    for hour in (10, 16):
        start = f"{day}T{hour}:00"
        receipts = number + day.day % 4
        of_rebuild = {} if generation is None else {"generation": generation}
        yield sale(store, start, receipts, 1999 * receipts, **of_rebuild)
        yield counted(store, start, 1, 10 * number + day.day % 3, generation)
        stays = tuple(3 + 7 * visit + day.day % 5 for visit in range(number + 2))
        yield visits(store, start, stays, 20 + day.day, generation)
    if store == "500":
        yield sale(store, f"{day}T12:00", 1, 500, currency="EUR", **of_rebuild)


def _receipts(store: str, day: date) -> Iterator[Raw]:
    """Those that the rows of sales are of, each of two articles that change by the day."""
    for hour in (10, 16):
        for number in range(STORES.index(store) + 1 + day.day % 4):
            first, second = GOODS[(day.day + number) % len(GOODS)], GOODS[number % 2]
            lines = [line(total=1500, **first), line(total=499, amount=2, **second)]
            told = 100 * (100 * day.toordinal() + hour) + number
            yield raw(store, f"{day}T{hour}:{number:02d}:07", told, *lines)
    if store == "500":
        yield raw(store, f"{day}T12:00", day.toordinal(), line("Milk", 500), currency="EUR")
