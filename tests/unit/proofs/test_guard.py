"""A control started by accident, on a keyspace that is no test's, ends before it does anything."""

import subprocess
import sys

import pytest

from tests.unit.architecture.sources import ROOT

STARTED = ("adding", "wall_clock", "no_floor", "crashing")


@pytest.mark.parametrize("name", STARTED)
def test_control_refuses_the_keyspace_of_the_product(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"tests.controls.{name}", "after_poll:1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert "TALLY_KEYSPACE is 'tally' and has to begin with 'test_'" in done.stderr


def test_every_control_that_can_be_started_is_among_them() -> None:
    files = (ROOT / "tests/controls").glob("*.py")

    assert {file.stem for file in files if "__main__" in file.read_text("utf-8")} == set(STARTED)
