"""Positions moved over what is no record: markers of transactions, and what was aborted.

Who keeps the offset behind the last record never comes to the end of a partition that ends in them.
"""

from collections.abc import Mapping

from runtime.offsets import Offsets
from runtime.reading import first_records
from runtime.topics import Bounds
from tally.settings import Settings

TIMEOUT_SECONDS = 10.0


def over_markers(
    settings: Settings, topic: str, positions: Offsets, kept: Mapping[int, Bounds]
) -> dict[int, int]:
    """By partition the first offset at or after the position that holds a committed record.

    The stable end, where none follows. `kept`: bounds for who reads committed records, asked for
    after the positions. One before what is kept stays: what lay there nobody knows. Raises
    StackError when Kafka does not tell in time.
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
        # To the end of then, and not to that of now: behind it a record may have come.
        moved[number] = kept[number].end
        if first is not None:
            moved[number] = int(first.offset() or 0)
    return {**positions, **moved}
