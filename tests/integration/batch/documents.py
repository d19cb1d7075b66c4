"""A store's documents with copies, conflicts and limits, and what both layers make of them."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

from ingest.sources.inventory.contract import MAX_MILLI
from runtime.registry.sources import FAMILIES, SALES
from serving.storage.views import ViewReader
from speed_layer.receipts import start_receipts
from speed_layer.session import read_canonical_stream
from speed_layer.views import start_views
from tests.integration.batch.parts import Parts, at
from tests.support.questions.api_suite import asking
from tests.support.sources.canonical import receipt, stock_line
from web.api.app import create_app

MONDAY, WEDNESDAY = date(2017, 3, 6), date(2017, 3, 8)
TODAY = datetime.now(UTC).date()
INVENTORY = FAMILIES["inventory"]
BOTH = (INVENTORY, SALES)
# Milk as tests/support/sources/canonical.py sells it.
MILK, BREAD = "m1", "b1"
ON_TIME = (
    stock_line("1", "C-1", "count", at(MONDAY, 10), m1=20),
    stock_line("1", "C-1", "count", at(MONDAY, 10), m1=20),
    # Another content of the line: the first one stands.
    stock_line("1", "C-1", "count", at(MONDAY, 10), m1=99),
    stock_line("1", "D-1", "delivery", at(MONDAY, 10, 5), b1=30),
    stock_line("1", "T-1", "transfer_out", at(MONDAY, 10, 20), m1=3),
    # In one window before and behind a count.
    stock_line("1", "D-2", "delivery", at(MONDAY, 10, 41), b1=7),
    stock_line("1", "C-2", "count", at(MONDAY, 10, 40), b1=5),
    stock_line("1", "D-3", "delivery", at(MONDAY, 10, 39), b1=100),
    stock_line("2", "C-1", "count", at(TODAY, 0, 1), m1=4),
    stock_line("2", "D-1", "transfer_in", at(TODAY, 0, 2), m1=1),
)
# An article of any name, and what nobody has counted is no 0.
ODD, LONG, GONE = "a|b%25 Käse 😀", "é" * 255, "gone"
MOST = MAX_MILLI // 1000
HOSTILE = (
    stock_line("3", "C-1", "count", at(MONDAY, 12), **{ODD: MOST}),
    stock_line("3", "D-1", "delivery", at(MONDAY, 12, 1), **{ODD: MOST}),
    stock_line("3", "D-2", "delivery", at(MONDAY, 12, 2), **{ODD: MOST}),
    stock_line("3", "D-3", "delivery", at(MONDAY, 12, 15), **{LONG: 1}),
    # More goes than there was.
    stock_line("3", "C-2", "count", at(MONDAY, 12, 30), gone=0),
    stock_line("3", "T-1", "transfer_out", at(MONDAY, 12, 31), gone=MOST),
    stock_line("3", "D-4", "delivery", at(MONDAY, 12, 32), gone=MOST),
    stock_line("3", "T-2", "transfer_out", at(MONDAY, 12, 46), gone=2),
    # Of the other store: behind a record of now nothing of 2017 is in time, in its partition.
    stock_line("2", "C-2", "count", at(TODAY, 0, 3), **{ODD: 1}),
)
SOLD = (
    receipt("3", 1, at(MONDAY, 9)),
    receipt("1", 1, at(MONDAY, 9, 59)),
    receipt("1", 2, at(MONDAY, 10, 10)),
    receipt("1", 3, at(MONDAY, 10, 50)),
    receipt("1", 2, at(MONDAY, 10, 10)),
)
# Far behind the frontier that the document of Wednesday makes.
LATE = stock_line("1", "C-9", "count", at(MONDAY, 10, 12), m1=8)
NEXT = stock_line("1", "D-9", "delivery", at(WEDNESDAY, 9), m1=1)
COLUMNS = ("item_id", "events", *INVENTORY.part_names)


class DocumentStory(NamedTuple):
    """The rows of both layers, by store and window, after the first run and the late count."""

    speed: dict[Any, Any]
    batch: dict[Any, Any]
    late_speed: dict[Any, Any]
    late_batch: dict[Any, Any]
    stock: list[Any]
    restated: list[Any]


def stream(parts: Parts) -> None:
    """Everything that is committed through the query of the views, and that of the receipts."""
    first = dict.fromkeys(range(parts.settings.partitions), 0)
    starting = {family.topic: first for family in BOTH}
    views = read_canonical_stream(parts.spark, parts.settings, starting, 100_000)
    sales = read_canonical_stream(parts.spark, parts.settings, {SALES.topic: first}, 100_000)
    for query in (
        start_views(views, BOTH, {}, parts.settings),
        start_receipts(sales, parts.settings),
    ):
        try:
            query.processAllAvailable()
        finally:
            query.stop()


def rows(parts: Parts, table: str) -> dict[Any, Any]:
    """By store, window and article: events and parts, lists as lists."""
    found: dict[Any, dict[Any, Any]] = {}
    for row in parts.session.execute(f"SELECT * FROM {table}"):
        values = [getattr(row, name) for name in COLUMNS[1:]]
        key = (row.store_id, row.window_start.replace(tzinfo=UTC), row.item_id)
        found.setdefault(getattr(row, "generation", None), {})[key] = (
            *values[:-1],
            [[*one] for one in values[-1] or ()],
        )
    return found.get(None, found)


def served(parts: Parts) -> dict[Any, Any]:
    """The batch rows of the generation that serves each day."""
    days = parts.days(INVENTORY.name)
    by_generation = rows(parts, "batch_inventory_15min")
    return {
        key: row
        for generation, some in by_generation.items()
        for key, row in some.items()
        if days.get(key[1].date()) == generation
    }


def stock(
    parts: Parts, store: str = "1", hour: int = 10, metric: str = "stock_on_hand"
) -> list[Any]:
    """Stock of a store by quarter hour and article of Monday, and the layer that it is from."""
    views = ViewReader(parts.settings)
    span = {"from": f"2017-03-06T{hour}:00:00Z", "to": f"2017-03-06T{hour + 1}:00:00Z"}
    try:
        with asking(create_app(parts.settings, views)) as ask:
            answer = ask(f"/v1/metrics/{metric}", store=store, by="item_id", **span)
    finally:
        views.close()
    assert answer.status_code == 200, answer.text
    # Nobody says here that the master keeps up, so that nothing is final; what a stock is worth:
    # tests/contract/api/test_stock_worth.py.
    return [(row["by"]["item_id"], row["value"], row["source"]) for row in answer.json()["rows"]]


def millis(instant: datetime) -> int:
    return round(1000 * instant.timestamp())


def minute_by_minute(hour: int, minute: int, brought: Sequence[int]) -> list[list[int]]:
    """The value of a level whose events are a minute apart on Monday."""
    starts = (millis(at(MONDAY, hour, minute + number)) for number in range(len(brought)))
    return [[*pair] for pair in zip(starts, brought, strict=True)]
