"""What the speed layer dropped is counted over a bounded number of micro-batches: an old
question must not read years of them."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from runtime.connect import cassandra_session
from runtime.registry.sources import SALES
from serving.storage import views as views_module
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tests.support.serving.serving_tables import insert_world
from tests.support.serving.serving_world import World


def test_more_micro_batches_than_are_counted_are_unknown(
    own_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views_module, "MAX_LATE_ROWS", 10)
    now = datetime.now(UTC)
    with cassandra_session(own_settings) as session:
        insert_world(
            session, World(late=[(SALES, now - timedelta(minutes=back), 3) for back in range(12)])
        )

    async def counted() -> list[int | None]:
        views = ViewReader(own_settings)
        try:
            return [
                await views.late_since(SALES, now - timedelta(minutes=back, seconds=30))
                for back in (20, 8, 0)
            ]
        finally:
            views.close()

    assert asyncio.run(counted()) == [None, 27, 3]
