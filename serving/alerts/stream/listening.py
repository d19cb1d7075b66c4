"""The events for one subscriber from a place on: each once, with the subscriber's next place."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from serving.alerts.stream.feed import Feed
from serving.alerts.stream.place import StreamPlace

# Without a place now and then, a client whose filter drops everything would keep a place that ages
# out of the topic.
PLACE_SECONDS = 30.0


class HeardEvent(NamedTuple):
    """A message, or a gap behind a place that is gone, or the place alone.

    `message`: None for the other two. `lost`: the place that is gone; None if there is no gap.
    """

    place: StreamPlace
    message: bytes | None = None
    lost: StreamPlace | None = None


async def listen(
    feed: Feed,
    place: StreamPlace,
    is_wanted: Callable[[bytes], bool],
    place_seconds: float = PLACE_SECONDS,
) -> AsyncIterator[HeardEvent]:
    """The events behind the place; they end only when the feed ends.

    The place itself comes first: a connection that breaks before the first event resumes there.
    Nothing is fetched before the last event is consumed, so a slow subscriber has no queue.
    """
    yield HeardEvent(place)
    sent_at = time.monotonic()
    while not feed.has_ended:
        # Taken before the look, so that a change between the two ends the wait below.
        changed = feed.changed
        batch = await feed.behind(place)
        # The gap comes before the events behind it, so that they do not seem complete.
        if batch.is_gap:
            yield HeardEvent(batch.until, lost=place)
            place, sent_at = batch.until, time.monotonic()
            continue
        for record in batch.records:
            place = place.after(record.partition, record.offset)
            if is_wanted(record.value):
                yield HeardEvent(place, record.value)
                sent_at = time.monotonic()
        place = place.reaching(dict(enumerate(batch.until.offsets)))
        due = sent_at + place_seconds - time.monotonic()
        if due <= 0:
            yield HeardEvent(place)
            sent_at = time.monotonic()
        elif not batch.records:
            await _wait(changed, due)


async def _wait(changed: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(changed.wait(), seconds)
    except TimeoutError:
        return
