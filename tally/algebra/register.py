"""The max-register: the write timestamp by which Cassandra keeps the row that has seen the most."""

EPOCH_SHIFT = 40  # a window of 2^40 events would pass for an epoch


def register(epoch: int, seen: int) -> int:
    """The write timestamp of a row that has seen so many of its window's events.

    The higher epoch wins, then the row that has seen more, for any writer and any time of writing:
    a retry, a replay, a second driver and a zombie may all write (docs/guarantees.md).

    >>> register(1, 5) > register(1, 4) and register(2, 0) > register(1, 1_000_000)
    True
    """
    return (epoch << EPOCH_SHIFT) | seen
