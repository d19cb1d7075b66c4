"""What the speed layer dropped is one number for each quarter hour and run, however long ago."""

import asyncio
from datetime import UTC, datetime, timedelta

from runtime.connect import cassandra_session
from runtime.registry.sources import SALES
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tally.time.windows import WINDOW, window_start
from tests.support.serving.serving_tables import insert_world
from tests.support.serving.serving_world import World


def test_all_of_the_quarter_hour_of_an_instant_and_later_count(own_settings: Settings) -> None:
    start = window_start(datetime.now(UTC))
    minute = timedelta(minutes=1)
    with cassandra_session(own_settings) as session:
        insert_world(session, World(late=[(SALES, start - back * WINDOW, 3) for back in range(12)]))

    async def counted() -> list[int]:
        views = ViewReader(own_settings)
        try:
            return [
                await views.late_since(SALES, start - back * WINDOW + minute)
                for back in (100_000, 8, 0, -1)
            ]
        finally:
            views.close()

    assert asyncio.run(counted()) == [36, 27, 3, 0]
