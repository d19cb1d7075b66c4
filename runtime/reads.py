"""Many questions to Cassandra at once, each asked again until it is answered."""

from collections.abc import Iterable, Sequence
from typing import Any

from cassandra.cluster import Session
from cassandra.query import PreparedStatement

from runtime.writes import RETRY_SECONDS, RetryLimit, until_answered
from tally.errors import Unanswered


def read_many(
    session: Session,
    statement: PreparedStatement,
    asked: Iterable[Sequence[object]],
    seconds: float = RETRY_SECONDS,
) -> list[list[Any]]:
    """All rows of each question (the values of one statement), in the order of the questions.

    Repeats time-outs and unavailable nodes for `seconds`, then raises Unanswered; any other error
    is raised as it is.
    """
    limit = RetryLimit(seconds, Unanswered, "questions were not answered")
    # A list: the driver fetches the later pages of an answer while it is gone through, and those
    # may time out too.
    return until_answered(session, [(statement, values) for values in asked], list, limit)
