"""A run of the tests that is interrupted while its services begin leaves no process behind."""

from collections.abc import Callable

import pytest

from tests.support.stack.interrupting import Interrupted

# Each moment begins all that is before it: a worker, then Kafka, Cassandra and Spark.
MOMENTS = ("sys.stdin.readline", "CassandraDaemon", "SparkSubmit")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("interrupt", [Interrupted.terminate, Interrupted.press_ctrl_c])
def test_nothing_is_left_ten_seconds_later(
    moment: str, interrupt: Callable[[Interrupted], None]
) -> None:
    assert Interrupted.left_of_tests(moment, interrupt) == []
