"""Wrong on purpose: an event's id that is its own offset alone.

Who resumes by it knows where one partition goes on, and takes the others as they are now.
"""

from alerting.stream.place import StreamPosition, position_at


def resumed_by_own_offset(
    before: StreamPosition, last: StreamPosition, here: StreamPosition
) -> StreamPosition:
    """Where the client goes on after a connection that broke.

    `before` and `last` are the places ahead of and behind the last event that it has.
    """
    moved = zip(before.offsets, last.offsets, here.offsets, strict=True)
    return position_at(here.topic_id, [at if at != was else now for was, at, now in moved])


def resumed_in_one_partition(
    last: StreamPosition, number: int, here: StreamPosition
) -> StreamPosition:
    """Where a client goes on that has of the last event its partition and offset alone."""
    own = {number: last.offsets[number]}
    offsets = (own.get(one, at) for one, at in enumerate(here.offsets))
    return position_at(here.topic_id, [*offsets])
