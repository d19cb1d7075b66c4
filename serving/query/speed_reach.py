"""How far the speed layer has read, beside the generations of an answer."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

from serving.merge.reading import Pointers
from serving.merge.views import ViewReader

# By field of the answer.
SpeedReach: TypeAlias = dict[str, Any]
# Before any pin: where no generation has taken a record in, every late one is counted.
_EPOCH_START = datetime.fromtimestamp(0, UTC)


async def speed_reach(views: ViewReader, pointers: Sequence[Pointers]) -> SpeedReach:
    """Offsets by partition, and how many records were dropped since the oldest pin here.

    Raises ViewsUnreachable.
    """
    # Later than that a record may be in neither; one that is in the generation after all counts
    # here too, to be safe.
    since = [
        min(
            (at for one in family.published.values() for at in one.through.values()),
            default=_EPOCH_START,
        )
        for family in pointers
    ]
    offsets = await asyncio.gather(*(views.speed_until(one.family) for one in pointers))
    late = await asyncio.gather(
        *(
            views.late_since(one.family, instant)
            for one, instant in zip(pointers, since, strict=True)
        )
    )
    # Partitions of two topics have the same numbers: named as Kafka does, topic-partition.
    names = [f"{one.family.name}-" if len(pointers) > 1 else "" for one in pointers]
    named = zip(names, offsets, strict=True)
    reached = {
        f"{name}{partition}": until for name, of in named for partition, until in sorted(of.items())
    }
    counted = [one for one in late if one is not None]
    return {
        "offsets": reached,
        "late_since_pin": sum(counted) if len(counted) == len(late) else None,
    }
