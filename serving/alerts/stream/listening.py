"""What one subscriber hears, from a place on: each event once, and where he is then."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from serving.alerts.stream.feed import Feed
from serving.alerts.stream.place import StreamPlace

# A filter that nothing passes would leave its client at a place that ages out.
PLACE_SECONDS = 30.0


class HeardEvent(NamedTuple):
    """A message, or a gap behind a place that is gone, or neither: then the place alone."""

    place: StreamPlace
    message: bytes | None = None
    lost: StreamPlace | None = None


async def listen(
    feed: Feed,
    place: StreamPlace,
    is_wanted: Callable[[bytes], bool],
    place_seconds: float = PLACE_SECONDS,
) -> AsyncIterator[HeardEvent]:
    """What comes behind the place, without an end while the feed has none.

    First the place itself: a connection that breaks before the first event resumes there. Nothing
    is fetched while the one before is not taken: a slow subscriber has no queue.
    """
    yield HeardEvent(place)
    told_at = time.monotonic()
    while not feed.has_ended:
        # Taken before the look: what comes between the two is not slept over.
        changed = feed.changed
        batch = await feed.behind(place)
        # Told before anything behind it, so that nobody takes what follows for all.
        if batch.is_gap:
            yield HeardEvent(batch.until, lost=place)
            place, told_at = batch.until, time.monotonic()
            continue
        for record in batch.records:
            place = place.after(record.partition, record.offset)
            if is_wanted(record.value):
                yield HeardEvent(place, record.value)
                told_at = time.monotonic()
        place = place.reaching(dict(enumerate(batch.until.offsets)))
        due = told_at + place_seconds - time.monotonic()
        if due <= 0:
            yield HeardEvent(place)
            told_at = time.monotonic()
        elif not batch.records:
            await _wait(changed, due)


async def _wait(changed: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(changed.wait(), seconds)
    except TimeoutError:
        return
