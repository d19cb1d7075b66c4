"""A full rebuild of a year, month by month, beside hourly rebuilds, and killed on the way."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from cassandra.cluster import Session

from batch_layer.views.publish.pointer import PointerTable
from runtime.connect import cassandra_session
from tally.families.generation import Generation
from tests.support.sources.canonical import receipt, send
from tests.support.stack.loop import Loop, running_loop, wait_until
from tests.support.stack.tables import batch_rows

BEGIN = date(2025, 11, 1)
MONTHS, STORES, HOURLY, KILLED_AT = 12, 30, 5, 7
DAYS = (date(2026, 11, 1) - BEGIN).days
FULL = [sys.executable, "-m", "ops.cli", "rebuild", "--full", "--family", "sales"]


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    overrides = {"TALLY_INGEST_TRIGGER_SECONDS": "0.5"}
    with running_loop(
        tmp_path_factory.mktemp("ranges"), "normaliser", "master", overrides=overrides
    ) as running:
        send(
            running.settings,
            "sales",
            [
                receipt(str(store), day, at(day, 9 + store % 9), 100 + store)
                for day in range(DAYS)
                for store in range(STORES)
            ],
        )
        running.catch_up()
        running.json("rebuild", "--full")
        yield running


@pytest.fixture(scope="module")
def session(loop: Loop) -> Iterator[Session]:
    with cassandra_session(loop.settings) as opened:
        yield opened


def at(day: int, hour: int) -> datetime:
    """An instant of a day of the year."""
    midnight = datetime(BEGIN.year, BEGIN.month, BEGIN.day, tzinfo=UTC)
    return midnight + timedelta(days=day, hours=hour)


class FullRebuild:
    """A full rebuild as a process, and the lines that it has printed."""

    def __init__(self, loop: Loop, folder: Path) -> None:
        self._log = folder / "full.log"
        with self._log.open("w") as file:
            self.process = subprocess.Popen(
                FULL, env=loop.environment, stderr=file, stdout=file, start_new_session=True
            )

    @property
    def begun(self) -> list[int]:
        """The numbers of the ranges that it has begun to compute."""
        return [int(number) for number in re.findall(r"range (\d+) of .*: \d+ days", self.text)]

    @property
    def text(self) -> str:
        """What it has printed."""
        return self._log.read_text("utf-8")

    def kill(self) -> None:
        """End it and its JVM at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def run_hourly(loop: Loop, number: int) -> None:
    """An hourly rebuild of some late receipts, of days in all months."""
    days = range(number, DAYS, 45)
    send(loop.settings, "sales", [receipt("1", 9_000 + number, at(day, 20), 7) for day in days])
    loop.catch_up()
    loop.json("rebuild", "--dirty", "--family", "sales")


def test_full_rebuild_publishes_all_ranges_while_hourly_runs_flip(
    loop: Loop, session: Session
) -> None:
    table = PointerTable(session, "sales")
    before, flips = table.current(), set[int]()
    with tempfile.TemporaryDirectory() as folder:
        full = FullRebuild(loop, Path(folder))
        wait_until(lambda: len(full.begun) > 1, 300, "the second range")
        for number in range(HOURLY):
            run_hourly(loop, number)
            flips.add(max(served.generation for served in table.current().values()))
        assert full.process.wait(timeout=900) == 0, full.text

        after = table.current()
        print(
            f"{len(full.begun)} ranges of {len(after)} days published, {len(flips)} hourly flips"
            f" meanwhile; left out: {full.text.count('left out')}"
        )
    assert full.begun == [*range(1, len(full.begun) + 1)] and len(full.begun) >= MONTHS
    assert len(flips) == HOURLY
    newest = {day: served.generation for day, served in after.items()}
    assert all(newest[day] > before[day].generation for day in before)


def test_killed_full_rebuild_goes_on_at_the_range_in_which_it_died(
    loop: Loop, session: Session
) -> None:
    before = batch_rows(session, "sales")
    with tempfile.TemporaryDirectory() as folder:
        killed = FullRebuild(loop, Path(folder))
        wait_until(lambda: KILLED_AT in killed.begun, 600, "the seventh range")
        killed.kill()
        published = {day: served.generation for day, served in current(session).items()}

        again = FullRebuild(loop, Path(folder))
        assert again.process.wait(timeout=900) == 0, again.text

        assert again.begun[0] == KILLED_AT
        assert again.text.count("published before the interruption") == KILLED_AT - 1
    after = {day: served.generation for day, served in current(session).items()}
    kept = [day for day in after if after[day] == published[day]]
    assert {day.replace(day=1) for day in kept} == {*sorted_months(after)[: KILLED_AT - 1]}
    # The next one begins with the first range.
    assert not [*session.execute("SELECT * FROM full_rebuild")]
    assert batch_rows(session, "sales") == before
    found = loop.json("audit", "--only", "ledger")
    assert found["ok"]


def current(session: Session) -> dict[date, Generation]:
    """What serves each day."""
    return PointerTable(session, "sales").current()


def sorted_months(days: dict[date, int]) -> list[date]:
    """The first days of the months of these days."""
    return sorted({day.replace(day=1) for day in days})
