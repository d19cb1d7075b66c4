"""Concurrent queries to Cassandra, each retried until it is answered, and keys cut into chunks."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from cassandra.cluster import Session
from cassandra.query import PreparedStatement

from runtime.cassandra.writes import RETRY_SECONDS, RetryLimit, execute_until_answered
from tally.errors import CassandraTimeout

Item = TypeVar("Item")


def chunks(items: Sequence[Item], at_once: int) -> Iterator[list[Item]]:
    """Yield the items in their order, at most `at_once` in a piece; no piece is empty.

    >>> list(chunks("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    starts = range(0, len(items), at_once)
    return (list(items[first : first + at_once]) for first in starts)


def read_many(
    session: Session,
    statement: PreparedStatement,
    queries: Iterable[Sequence[object]],
    seconds: float = RETRY_SECONDS,
) -> list[list[Any]]:
    """All rows of each query (the values of one statement), in the order of the queries.

    Retries after time-outs and unavailable nodes for `seconds`, then raises CassandraTimeout; any
    other error is raised unchanged.
    """
    limit = RetryLimit(seconds, CassandraTimeout, "questions were not answered")
    # `list` reads all pages: the driver fetches later pages during the iteration, and those may
    # time out too.
    return execute_until_answered(session, [(statement, values) for values in queries], list, limit)
