"""Which files a run begins with, and what it leaves when its time is over."""

import time
from pathlib import Path

import pytest

from tests import turns
from tests.unit.stack.small_tree import run_pytest

NAMES = ("dags/test_a", "dags/test_b", "dags/test_c", "e2e/today/test_d", "e2e/today/test_e")
FILES = {f"{name}.py": "def test_it(): print('ran', __file__)\n" for name in NAMES}


def ran(output: str) -> list[str]:
    """The files whose test was run, in order."""
    return [line.split("/tests/")[1] for line in output.splitlines() if "ran /" in line]


def test_each_turn_begins_with_another_group(tmp_path: Path) -> None:
    firsts = [ran(run_pytest(tmp_path, FILES, "-qs", f"--turn={turn}")[1])[0] for turn in range(5)]

    # The two of e2e/today are one group.
    assert firsts == [
        "e2e/today/test_d.py",
        "dags/test_a.py",
        "dags/test_b.py",
        "dags/test_c.py",
        "e2e/today/test_d.py",
    ]


def test_every_turn_runs_every_file_once(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, FILES, "-qs", "--turn=7")

    assert (code, sorted(ran(output))) == (0, sorted(FILES))
    assert "4 of 4 groups were run, 0 left" in output


def test_groups_left_at_the_end_are_named(tmp_path: Path) -> None:
    code, output = run_pytest(
        tmp_path, FILES, "-qs", "--turn=1", f"--until={time.time() - 1:.0f}", "--tiers=dags,e2e"
    )

    assert (code, ran(output)) == (0, [])
    assert "tests/dags/test_b.py: left for another time" in output
    assert "0 of 4 groups were run, 4 left" in output


def test_group_that_began_in_time_goes_on_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = turns.Turns(until=1000.0)
    first, second, other = (
        "tests/dags/test_a.py::x",
        "tests/dags/test_a.py::y",
        "tests/dags/test_b.py::x",
    )

    def is_left(now: float, nodeid: str) -> bool:
        monkeypatch.setattr(time, "time", lambda: now)
        return begun.is_left(nodeid)

    assert not is_left(999.0, first)
    assert not is_left(1001.0, second)
    assert is_left(1001.0, other)
    assert is_left(1001.0 + turns.GROUP_SECONDS, second)
