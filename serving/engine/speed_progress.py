"""The progress of the speed layer, reported beside the generations of an answer."""

import asyncio
from collections.abc import Sequence
from typing import Any, TypeAlias

from serving.merge.reading import Pointers
from serving.storage.views import ViewReader
from tally.time.windows import EPOCH

# By field of the answer.
SpeedProgress: TypeAlias = dict[str, Any]


async def read_speed_progress(views: ViewReader, pointers: Sequence[Pointers]) -> SpeedProgress:
    """Offsets by partition, and the number of records dropped as late since the oldest pin.

    Raises ViewsUnreachable.
    """
    # A record that was dropped later may be in neither layer; one that is in the generation after
    # all counts here too, to be safe.
    since = [
        min(
            (at for serving in family.published.values() for at in serving.through.values()),
            # Where no generation has taken a record in, every late one is counted.
            default=EPOCH,
        )
        for family in pointers
    ]
    offsets = await asyncio.gather(*(views.speed_until(pointer.family) for pointer in pointers))
    late = await asyncio.gather(
        *(
            views.late_since(pointer.family, instant)
            for pointer, instant in zip(pointers, since, strict=True)
        )
    )
    # Partitions of two topics have the same numbers, so names are as in Kafka: topic-partition.
    names = [f"{pointer.family.name}-" if len(pointers) > 1 else "" for pointer in pointers]
    named = zip(names, offsets, strict=True)
    reached = {
        f"{name}{partition}": until
        for name, untils in named
        for partition, until in sorted(untils.items())
    }
    counted = [count for count in late if count is not None]
    return {
        "offsets": reached,
        "late_since_pin": sum(counted) if len(counted) == len(late) else None,
    }
