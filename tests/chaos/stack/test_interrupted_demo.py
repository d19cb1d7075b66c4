"""A demo that is interrupted or terminated leaves no process behind."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.stack.interrupting import Interrupted

DEMO = (sys.executable, "-m", "ops.cli", "demo", "--once")
# What is running when the demo is interrupted.
MOMENTS = ("kafka.Kafka", "CassandraDaemon", "speed_layer.job", "ops.cli replay", "airflow")


@pytest.mark.parametrize("interrupt", [Interrupted.terminate, Interrupted.press_ctrl_c])
@pytest.mark.parametrize("moment", MOMENTS)
def test_nothing_is_left_ten_seconds_later(
    moment: str, interrupt: Callable[[Interrupted], None], tmp_path: Path
) -> None:
    demo = Interrupted.begin(DEMO, {**os.environ, "TALLY_HOME": str(tmp_path / "demo")})
    demo.wait_for(moment)

    assert demo.left_after(interrupt) == []
