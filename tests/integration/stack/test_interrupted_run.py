"""A run of the tests that is interrupted or terminated leaves no process behind.

The moments between these are in tests/chaos/stack/test_interrupted_moments.py.
"""

from collections.abc import Callable

import pytest

from tests.support.stack.interrupting import Interrupted

# What is running when the run is interrupted, and how it is.
MOMENTS = (
    ("kafka.Kafka", Interrupted.terminate),
    ("runtime.spark.workers", Interrupted.press_ctrl_c),
)


@pytest.mark.parametrize(("moment", "interrupt"), MOMENTS)
def test_nothing_is_left_ten_seconds_later(
    moment: str, interrupt: Callable[[Interrupted], None]
) -> None:
    assert Interrupted.left_of_tests(moment, interrupt) == []


def test_negative_control_without_its_parent_a_run_leaves_services() -> None:
    run = Interrupted.begin_tests("-p", "no:tests.supervised")
    # Kafka has begun long before: one that is killed while it begins may end by itself.
    run.wait_for("runtime.spark.workers")

    left = run.left_after(Interrupted.kill_pythons)

    assert any("kafka.Kafka" in line for line in left), left
