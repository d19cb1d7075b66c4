"""Stores with counted shelves, documents of them and receipts: what a stock is asked of."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from typing import Any

import httpx

from runtime.registry.sources import FAMILIES, SALES
from serving.storage.tables import Activity, ViewRow
from tally.algebra.level import Level
from tally.config.settings import Settings
from tally.families.family import Family
from tally.time.windows import window_start
from tests.support.questions.api_suite import Ask, asking
from tests.support.serving.raw_receipts import Raw, line, raw
from tests.support.serving.serving_world import MemoryViews, Stored, World, at, flip, of_sales
from web.api.app import create_app

INVENTORY = FAMILIES["inventory"]
STORE, OTHER = "367", "406"
MONDAY, TUESDAY, WEDNESDAY = DAYS = [f"2026-11-{day}" for day in (23, 24, 25)]
FLIPPED = "2026-11-25T23:00"
MORNING = {"store": STORE, "from": f"{TUESDAY}T10:00:00Z", "to": f"{TUESDAY}T11:00:00Z"}


def counted(amount: float) -> int:
    """A count of so many units."""
    return Level.encode_count(round(1000 * amount))


def moved(amount: float) -> int:
    """So many units that came, or went."""
    return Level.encode_movement(round(1000 * amount))


def shelf(
    start: str,
    article: str,
    *events: tuple[int, int],
    store: str = STORE,
    generation: int | None = 1,
    seen: int = 0,
) -> Stored:
    """A row of an article: by second of its window what a document brought.

    `seen` events has the window more, of other articles.
    """
    begin = at(start)
    instants = [round(1000 * begin.timestamp()) + 1000 * second for second, _ in events]
    value = INVENTORY.parts[-1].fold(instants, [number for _, number in events])
    zeros = tuple(part.zero for part in INVENTORY.parts)
    excluded = () if generation is None else zeros
    parts = (*zeros[:-1], value)
    row = ViewRow(begin, (article,), INVENTORY.epoch, len(events) + seen, parts, excluded)
    return Stored(INVENTORY, store, row, generation)


def receipt(closed: str, number: int, store: str = STORE, **sold: float) -> Raw:
    """A receipt with so many units of each article; of fewer than none they were taken back."""
    lines = [
        {**line(name, 100 if amount > 0 else -100), "amount_milli": round(1000 * amount)}
        for name, amount in sold.items()
    ]
    return raw(store, closed, number, *lines)


def sales_rows(receipts: Sequence[Raw], generation: int | None = 1) -> list[Stored]:
    """What a view has of the receipts, window by window; voids and copies it has not."""
    units: dict[tuple[str, datetime], list[int]] = defaultdict(list)
    for one in receipts:
        place = one.store_id, window_start(one.happened_at)
        units[place].append(sum(_milli(text) for text in one.stored.lines))
    return [sales_row(*place, len(some), sum(some), generation) for place, some in units.items()]


def sales_row(
    store: str, start: datetime, events: int, units: int, generation: int | None = 1
) -> Stored:
    """A row of so many receipts with so many thousandths of units together."""
    named = dict(zip(SALES.part_names, of_sales(events, 100), strict=True))
    parts = tuple((named | {"units_milli": units}).values())
    excluded = () if generation is None else of_sales(0, 0)
    row = ViewRow(start, ("USD",), SALES.epoch, events, parts, excluded)
    return Stored(SALES, store, row, generation)


def _milli(text: str) -> int:
    _, _, after = text.partition('"amount_milli":')
    return int(after.partition(",")[0])


def published(*days: str, generation: int = 1, **more: Any) -> list[tuple[Family, Any]]:
    """Pointers of both families for the days."""
    return [
        (family, flip(day, generation, FLIPPED, pin=10, **more))
        for family in (INVENTORY, SALES)
        for day in days
    ]


def days_until(last: str, count: int) -> list[str]:
    """So many days, the last of which is this one."""
    end = date.fromisoformat(last)
    return [(end - timedelta(days=back)).isoformat() for back in reversed(range(count))]


def stock_world(rows: Sequence[Stored] = (), receipts: Sequence[Raw] = ()) -> World:
    """Three days of both families, published, with these rows and the view of these receipts."""
    known = [Activity(store, date(2025, 1, 1), date(2026, 11, 25)) for store in (STORE, OTHER)]
    return World(
        rows=[*rows, *sales_rows(receipts)],
        receipts=[*receipts],
        pointers=published(*DAYS),
        activity=[(SALES, one) for one in known],
    )


@contextmanager
def asked_of(world: World) -> Iterator[Ask]:
    """A function that asks the API of these stores."""
    with asking(create_app(Settings(), MemoryViews(world))) as ask:
        yield ask


def answer(world: World, metric: str = "stock_on_hand", **asked: str) -> dict[str, Any]:
    """The answer of four quarter hours of Tuesday morning, or of what is asked."""
    with asked_of(world) as ask:
        found = ask(f"/v1/metrics/{metric}", **{**MORNING, **asked})
        assert found.status_code == httpx.codes.OK, found.text
        body: dict[str, Any] = found.json()
        return body


def values(world: World, metric: str = "stock_on_hand", **asked: str) -> list[Any]:
    """By stretch the value, by dimension where one is asked."""
    rows = answer(world, metric, **asked)["rows"]
    if "by" not in asked:
        return [row["value"] for row in rows]
    by_start: dict[str, dict[str, Any]] = {}
    for row in rows:
        by_start.setdefault(row["start"], {})[row["by"]["item_id"]] = row["value"]
    return [*by_start.values()]


def worth(world: World, **asked: str) -> list[tuple[Any, ...]]:
    """By stretch value, source, status, and whether it is complete."""
    names = ("value", "source", "status", "complete")
    return [tuple(row[name] for name in names) for row in answer(world, **asked)["rows"]]
