"""What counters of any interval send of a twin store's doors, also such as are dead for a while."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time

from ingest.senders.twin.people import TwinStore, draw_people
from ingest.senders.twin.sensors import DOOR_SECONDS, SensorMessage, door_crossings, format_instant


@dataclass(frozen=True)
class DoorCounter:
    """How a door's counter reports: the length and the offset of its intervals, in seconds.

    An interval begins `offset_seconds` after a multiple of its length. From `dies` until
    `recovers`, by the store's clock, nothing is counted.
    """

    interval_seconds: int = 60
    offset_seconds: int = 0
    dies: time | None = None
    recovers: time | None = None


def make_intervals(
    store: TwinStore, counters: Sequence[DoorCounter], day: date, seed: int
) -> Iterator[SensorMessage]:
    """The messages of the store's counters, one of each door, for a day."""
    crossed = door_crossings(store, day, seed, draw_people(store, day, seed))
    for door, counter in enumerate(counters):
        length, offset = counter.interval_seconds, counter.offset_seconds
        counts = Counter(((int(at) - offset) // length, way) for at, way in crossed.get(door, ()))
        opens, closes = (int(instant.timestamp()) - offset for instant in store.hours(day))
        open_numbers = range(opens // length, -(-closes // length))
        for number in sorted({*open_numbers, *(number for number, _ in counts)}):
            begins = number * length + offset
            if _is_dead(store, day, counter, begins):
                continue
            device = f"door-{door + 1}"
            fields = {
                "store_id": store.store_id,
                "device_id": device,
                "happened_at": format_instant(begins),
                "interval_seconds": length,
                **{way: counts[number, way] for way in ("in", "out", "passers_by")},
            }
            identity = f"traffic/{store.store_id}/{device}/{begins // DOOR_SECONDS}"
            body = json.dumps(fields).encode()
            yield SensorMessage("traffic", begins, identity, body, begins + length)


def _is_dead(store: TwinStore, day: date, counter: DoorCounter, begins: int) -> bool:
    """Whether a counter is dead in some second of an interval; `begins` is seconds since 1970."""
    if counter.dies is None or counter.recovers is None:
        return False
    dies, recovers = (
        datetime.combine(day, local_time, store.zone).timestamp()
        for local_time in (counter.dies, counter.recovers)
    )
    return begins < recovers and dies < begins + counter.interval_seconds
