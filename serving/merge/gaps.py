"""The gaps of the topics that a question's numbers are computed from.

A gap is a range of records that were not counted, and never will be.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, time, timedelta

from runtime.records.gaps import AcceptedGap, source_topics
from serving.storage.protocol import ViewReader
from tally.families.family import Family


async def read_gaps(
    views: ViewReader,
    families: Sequence[Family],
    span: tuple[datetime, datetime],
    partitions: Collection[int],
    tolerance_seconds: int,
) -> list[AcceptedGap]:
    """The gaps of the families' topics, filtered as in filter_gaps(). Raises ViewsUnreachable."""
    topics = [topic for family in families for topic in source_topics(family)]
    return filter_gaps(await views.gaps(topics), span, partitions, tolerance_seconds)


def filter_gaps(
    gaps: Iterable[AcceptedGap],
    span: tuple[datetime, datetime],
    partitions: Collection[int],
    tolerance_seconds: int,
) -> list[AcceptedGap]:
    """The gaps, in order, whose records may have happened in the span in one of these stores.

    The span is [start, end), the stores are those of these canonical partitions. A lost record may
    have happened on any day up to its arrival, plus the tolerance in seconds for clocks that are
    ahead; it is missing from everything that was counted after its first arrival. A raw record may
    be of any store.
    """
    # By whole days, as a rebuild decides what it may claim (batch_layer/views/plan/coverage.py).
    day = datetime.combine(
        span[0].astimezone(UTC).date(),
        time.min,
        UTC,
    )
    return sorted(
        gap
        for gap in gaps
        if day < gap.last_arrival + timedelta(seconds=tolerance_seconds)
        and span[1] > gap.first_arrival
        and (gap.is_raw or gap.partition in partitions)
    )
