"""The events for one subscriber from a place on: each once, with the subscriber's next place."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from alerting.stream.feed import Feed
from alerting.stream.place import StreamPosition

# Without a place now and then, a client whose filter drops everything would keep a place that ages
# out of the topic.
POSITION_SECONDS = 30.0


class FeedEvent(NamedTuple):
    """A message, or a gap behind a place that is gone, or the place alone.

    `message`: None for the other two. `lost_position`: the place that is gone; None if there is no
    gap.
    """

    position: StreamPosition
    message: bytes | None = None
    lost_position: StreamPosition | None = None


async def listen(
    feed: Feed,
    place: StreamPosition,
    is_wanted: Callable[[bytes], bool],
    place_seconds: float = POSITION_SECONDS,
) -> AsyncIterator[FeedEvent]:
    """The events behind the place; they end only when the feed ends.

    The place itself comes first: a connection that breaks before the first event resumes there.
    Nothing is fetched before the last event is consumed, so a slow subscriber has no queue.
    """
    yield FeedEvent(place)
    sent_at = time.monotonic()
    while not feed.has_ended:
        # Taken before the read, so that a change between the two ends the wait below.
        changed = feed.change_event
        batch = await feed.read_after(place)
        # The gap comes before the events behind it, so that they do not seem complete.
        if batch.is_gap:
            yield FeedEvent(batch.until, lost_position=place)
            place, sent_at = batch.until, time.monotonic()
            continue
        for record in batch.records:
            place = place.after(record.partition, record.offset)
            if is_wanted(record.value):
                yield FeedEvent(place, record.value)
                sent_at = time.monotonic()
        place = place.advance_to(dict(enumerate(batch.until.offsets)))
        due = sent_at + place_seconds - time.monotonic()
        if due <= 0:
            yield FeedEvent(place)
            sent_at = time.monotonic()
        elif not batch.records:
            await _wait(changed, due)


async def _wait(changed: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(changed.wait(), seconds)
    except TimeoutError:
        return
