"""A run of the tests that is interrupted or terminated leaves no process behind."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support.stack.interrupting import Interrupted

SHORT_RUN = str(Path(__file__).with_name("short_run.py"))
RUN = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-n", "1", SHORT_RUN)
# What is running when the run is interrupted, and how it is. Each moment begins all that is before
# it, so each is tried one way.
MOMENTS = (
    ("sys.stdin.readline", Interrupted.press_ctrl_c),  # a worker
    ("kafka.Kafka", Interrupted.terminate),
    ("CassandraDaemon", Interrupted.terminate),
    ("SparkSubmit", Interrupted.press_ctrl_c),
    ("runtime.spark.workers", Interrupted.terminate),
)


@pytest.mark.parametrize(("moment", "interrupt"), MOMENTS)
def test_nothing_is_left_ten_seconds_later(
    moment: str, interrupt: Callable[[Interrupted], None]
) -> None:
    run = begin(RUN)
    run.wait_for(moment)

    assert run.left_after(interrupt) == []


def test_negative_control_without_its_parent_a_run_leaves_services() -> None:
    run = begin((*RUN, "-p", "no:tests.supervised"))
    # Kafka has begun long before: one that is killed while it begins may end by itself.
    run.wait_for("runtime.spark.workers")

    left = run.left_after(Interrupted.kill_pythons)

    assert any("kafka.Kafka" in line for line in left), left


def begin(command: Sequence[str]) -> Interrupted:
    """The command, begun without the variables of the run that this test is part of."""
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    return Interrupted.begin(command, environment)
