"""What bounds an answer, read from real tables as from memory: coverage, currencies, gaps,
tills, how current the master is."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, date, datetime, timedelta

import pytest

from runtime.connect import cassandra_session
from runtime.records.gaps import AcceptedGap
from runtime.registry.sources import SALES
from serving.storage.tables import TillFinding
from serving.storage.views import STORES_AT_ONCE, ViewReader
from tally.config.settings import Settings
from tests.support.serving.raw_receipts import line, raw
from tests.support.serving.serving_tables import insert_world
from tests.support.serving.serving_world import MemoryViews, World, at, flip, sale

DAY, OTHER, ONE = date(2026, 11, 21), date(2026, 11, 22), timedelta(days=1)
STORES = [f"store {number}" for number in range(STORES_AT_ONCE)]
WORLD = World(
    rows=[
        sale("367", "2026-11-21T10:00", 1, 5, generation=1),
        sale("367", "2026-11-21T11:00", 1, 6, generation=1),
        sale("367", "2026-11-22T10:00", 1, 7, currency="EUR"),
    ],
    pointers=[
        (
            SALES,
            flip(
                "2026-11-21",
                1,
                "2026-11-21T12:00",
                pin=5,
                covered_from="2026-11-21T09:00",
                covered_until="2026-11-21T11:30",
            ),
        ),
        (SALES, flip("2026-11-21", 2, "2026-11-22T01:00", pin=9)),
        (SALES, flip("2026-11-22", 3, "2026-11-22T02:00", pin=9)),
    ],
    findings=[
        (SALES, "367", TillFinding(DAY, "4", 200, 40)),
        (SALES, "406", TillFinding(DAY, "1", 50, 30)),
    ],
    gaps=[
        AcceptedGap(
            "posTransactionTopic",
            1,
            7,
            12,
            at("1970-01-01T00:00"),
            at("2026-11-21T08:00"),
            at("2026-11-21T08:00"),
            "deleted by hand",
        )
    ],
    master_current=at("2026-11-22T03:00:01"),
    receipts=[
        # Of one key and another payload, the first by offset; the table holds no other.
        raw("367", "2026-11-21T10:00:01.500", 1, line("Milk", 5), offset=7),
        raw("367", "2026-11-21T10:00:01.500", 1, line("Milk", 9), offset=8),
        raw("367", "2026-11-21T11:00:00", 2, line("<b>&'", 6), line("Bag", 10**12)),
        raw("367", "2026-11-21T12:00:00", 3, voids=2),
        raw("367", "2026-11-22T00:00:00", 4, *[line("Milk", 1)] * 1_000, currency="EUR"),
        raw("406", "2026-11-21T10:00:00", 1, line("Milk", 5)),
    ],
)


async def versions(views: ViewReader, store_id: str, days: list[date]) -> object:
    """The versions of the batch rows, of each day in the order of their keys."""
    by_day = await views.batch_versions(SALES, store_id, days)
    return {day: sorted(found, key=lambda one: one[:2]) for day, found in by_day.items()}


SPAN = (at("2026-11-21T10:00"), at("2026-11-21T12:00"))
READS: list[Callable[[ViewReader], Awaitable[object]]] = [
    lambda views: views.current_generations(SALES, [DAY, OTHER]),
    lambda views: views.coverings(SALES, [DAY, OTHER]),
    lambda views: views.history(SALES, [DAY]),
    lambda views: views.newest(SALES, DAY, DAY),
    lambda views: views.newest(SALES, DAY, OTHER),
    lambda views: views.newest(SALES, date(2017, 1, 1), date(2017, 1, 2)),
    lambda views: versions(views, "367", [DAY, OTHER]),
    lambda views: versions(views, "367", [DAY]),
    lambda views: versions(views, "nobody", [DAY]),
    lambda views: views.findings(SALES, "367", [DAY, OTHER]),
    lambda views: views.gaps(["posTransactionTopic", "sales"]),
    lambda views: views.master_current(SALES),
    lambda views: currencies(views, (DAY, OTHER), ["367", "nobody"]),
    lambda views: currencies(views, (DAY, DAY), ["367"]),
    lambda views: currencies(views, (OTHER, OTHER), ["367"]),
    lambda views: currencies(views, (OTHER + ONE, OTHER + ONE), ["367"]),
    lambda views: currencies(views, (DAY, OTHER), ["367"], most=1),
    # Of the currencies of another day, which come first, none counts.
    lambda views: currencies(views, (DAY, DAY), ["367"], most=1),
    lambda views: currencies(views, (DAY, OTHER), [*STORES, "367"]),
    lambda views: currencies(views, (DAY, OTHER), []),
    lambda views: views.axis_values(SALES, "currency", {"367": (DAY, DAY), "406": (OTHER, DAY)}, 9),
    lambda views: views.axis_values(SALES, "queue", {"367": (DAY, OTHER)}, 9),
    # Half-open, then at most so many, then whole receipts between instants that both count.
    lambda views: views.receipts.heads("367", DAY, SPAN, 9),
    lambda views: views.receipts.heads("367", OTHER, SPAN, 9),
    lambda views: views.receipts.heads("nobody", DAY, SPAN, 9),
    lambda views: number_of(views.receipts.heads("367", DAY, SPAN, 1)),
    lambda views: views.receipts.voids("367", DAY, 9),
    lambda views: views.receipts.voids("367", OTHER, 9),
    lambda views: views.receipts.receipts("367", SPAN[0], at("2026-11-21T11:00")),
    lambda views: views.receipts.receipts("367", SPAN[1], SPAN[1]),
    lambda views: views.receipts.receipts("367", at("2026-11-22T00:00"), at("2026-11-22T01:00")),
]


async def number_of(asked: Awaitable[Sequence[object]]) -> int:
    """Which of them are read first is no promise."""
    return len(await asked)


def currencies(
    views: ViewReader, days: tuple[date, date], stores: Sequence[str], most: int = 9
) -> Awaitable[object]:
    return views.axis_values(SALES, "currency", dict.fromkeys(stores, days), most)


@pytest.fixture(scope="module")
def module_settings(settings: Settings, keyspace: str) -> Settings:
    own = settings.model_copy(update={"keyspace": keyspace})
    with cassandra_session(own) as session:
        insert_world(session, WORLD)
    return own


def test_tables_answer_as_memory_does(module_settings: Settings) -> None:
    async def read(views: ViewReader) -> list[object]:
        return [await ask(views) for ask in READS]

    views = ViewReader(module_settings)
    found = asyncio.run(read(views))
    views.close()
    assert [_ordered(one) for one in found] == [
        _ordered(one) for one in asyncio.run(read(MemoryViews(WORLD)))
    ]


def _ordered(answer: object) -> object:
    return sorted(answer) if isinstance(answer, list) else answer


def test_pointer_of_before_coverage_had_a_beginning_covers_its_day_from_the_start(
    module_settings: Settings,
) -> None:
    with cassandra_session(module_settings) as session:
        session.execute(
            "INSERT INTO batch_pointer (family, day, generation, epoch, covered_until, flipped_at) "
            "VALUES ('sales', '2017-01-05', 9, 1, '2017-01-06', '2017-01-06')"
        )
    views = ViewReader(module_settings)
    found = asyncio.run(views.current_generations(SALES, [date(2017, 1, 5)]))
    views.close()
    assert found[date(2017, 1, 5)].covered_from == datetime(2017, 1, 5, tzinfo=UTC)
    assert found[date(2017, 1, 5)].covered_until - found[
        date(2017, 1, 5)
    ].covered_from == timedelta(days=1)
