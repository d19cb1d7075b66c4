"""Work of one purpose that does not come back takes no thread of another's."""

import asyncio
from threading import Event

import pytest

from alerting.stream import feed
from alerting.stream.feed import StreamBatch, TopicFeed
from alerting.stream.place import StreamPosition
from runtime.http import work_pools
from runtime.http.work_pools import WorkPool
from tally.config.settings import Settings

POOLS = [pool for pool in vars(work_pools).values() if isinstance(pool, WorkPool)]
SECONDS = 20.0


@pytest.mark.parametrize("number", range(len(POOLS)))
def test_other_pools_work_while_one_is_stuck(number: int) -> None:
    released = Event()

    async def asked() -> list[int]:
        # More than any of them has threads.
        stuck = [asyncio.create_task(POOLS[number].run(released.wait, SECONDS)) for _ in range(10)]
        others = [pool.run(len, "work") for pool in POOLS if pool is not POOLS[number]]
        try:
            return await asyncio.wait_for(asyncio.gather(*others), SECONDS / 2)
        finally:
            released.set()
            await asyncio.gather(*stuck)

    assert asyncio.run(asked()) == [4] * (len(POOLS) - 1)
    assert len(POOLS) == 4


def test_work_of_a_caller_that_is_gone_is_not_begun() -> None:
    pool, released, begun = WorkPool("one", 1), Event(), list[int]()

    async def asked() -> None:
        first = asyncio.create_task(pool.run(released.wait, SECONDS))
        await asyncio.sleep(0)
        second = asyncio.create_task(pool.run(begun.append, 2))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        released.set()
        await first
        await pool.run(begun.append, 3)

    asyncio.run(asked())

    assert begun == [3]


def test_streams_far_behind_read_in_a_pool_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    released, place = Event(), StreamPosition("t", (0,))

    def stuck(_settings: Settings, _topic: str, of: StreamPosition) -> StreamBatch:
        assert released.wait(SECONDS)
        return StreamBatch((), of)

    monkeypatch.setattr(feed, "read_batch", stuck)

    async def asked() -> int:
        topic = TopicFeed(Settings())
        streams = [asyncio.create_task(topic.read_after(place)) for _ in range(50)]
        await asyncio.sleep(0)
        try:
            # The threads of everything that has no pool.
            return await asyncio.wait_for(asyncio.to_thread(len, "work"), SECONDS / 2)
        finally:
            released.set()
            await asyncio.gather(*streams)

    assert asyncio.run(asked()) == 4
