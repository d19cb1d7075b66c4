"""Positions moved over transaction markers and aborted records.

A position right after the last record never reaches the end of a partition that ends in these.
"""

from collections.abc import Mapping

from runtime.kafka.offsets import Offsets
from runtime.kafka.reader import first_records
from runtime.kafka.topics import Bounds
from tally.config.settings import Settings

TIMEOUT_SECONDS = 10.0


def skip_control_records(
    settings: Settings, topic: str, positions: Offsets, kept: Mapping[int, Bounds]
) -> dict[int, int]:
    """The first offset at or after the position with a committed record, by partition.

    It is the stable end where none follows. `kept`: bounds of committed records, read after the
    positions. A position before the first offset kept stays: the records there are unknown. Raises
    StackError when Kafka does not answer in time.
    """
    behind = {
        number: at
        for number, at in positions.items()
        if number in kept and kept[number].earliest <= at < kept[number].end
    }
    places = {number: (topic, number, at) for number, at in behind.items()}
    found = first_records(settings, places.values(), TIMEOUT_SECONDS)
    moved = {}
    for number, place in places.items():
        first = found[place]
        # To the end at the time of the read, not the current one: a record may follow it by now.
        moved[number] = kept[number].end
        if first is not None:
            moved[number] = int(first.offset() or 0)
    return {**positions, **moved}
