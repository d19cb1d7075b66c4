"""Two Spark drivers on one table, an old one resumed, a query begun anew without a checkpoint: never above the oracle."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from ops.oracle.complete_journey import Scope, stores_in, window_totals
from tally.connect import cassandra_session
from tests.loop import Loop, running_loop, wait_until
from tests.loop_suite import SPAN
from tests.prefixes import prefix_values
from tests.readers import METRICS, reading

LAST = "2017-02-15"
REPLAY = ("--to", LAST, "--duplicates", "0.02", "--disorder", "5m", "--late", "0.01", "--late-by", "1d", "--speed", "60000")
AUDIT = ("--days", "2017-01-01..2017-02-14")


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    with running_loop(tmp_path_factory.mktemp("two-drivers")) as running:
        yield running


@contextmanager
def another_driver(loop: Loop, folder: Path, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A second speed driver on the same tables, with checkpoints of its own; ended with all its processes."""
    folder.mkdir()
    ready = folder / "ready"
    environment = {**loop.environment, "TALLY_CHECKPOINTS": str(folder / "checkpoints"), "TALLY_READY_FILE": str(ready)}
    with (folder / "log").open("wb") as log:
        driver = subprocess.Popen([sys.executable, "-m", "speed_layer.job", *arguments], env=environment, stderr=log, stdout=log)
        try:
            wait_until(lambda: ready.exists() or driver.poll() is not None, 120, "the other driver is ready")
            assert driver.poll() is None, (folder / "log").read_text()[-3000:]
            yield driver
        finally:
            everybody = [*psutil.Process(driver.pid).children(recursive=True), psutil.Process(driver.pid)]
            for process in everybody:
                process.kill()
            driver.wait(30)


@contextmanager
def frozen(loop: Loop) -> Iterator[None]:
    """The first driver stopped in the middle of what it does (SIGSTOP), and resumed (SIGCONT) at the end of the block."""
    python = psutil.Process(loop.pid("speed"))
    everybody = [python, *python.children(recursive=True)]
    for process in everybody:
        os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in everybody:
            os.kill(process.pid, signal.SIGCONT)


def offsets_reached(loop: Loop) -> str:
    """Handover record for a query begun anew: where the master dataset has got to, so that a floor is needed."""
    with cassandra_session(loop.settings) as session:
        rows = session.execute("SELECT partition, until FROM master_position WHERE family = 'sales'")
        return json.dumps({"sales": {str(row.partition): row.until for row in rows}})


def test_zombies_and_a_query_begun_anew_never_serve_above_the_oracle(loop: Loop, tmp_path: Path) -> None:
    stores = stores_in(window_totals(Scope(last=SPAN[0].date())))[:20]
    replay = loop.start("replay", "--source", "complete-journey", *REPLAY)
    wait_until(lambda: len(loop.micro_batches()) > 3, 120, "a few micro-batches")

    with reading(loop.settings.api, stores, SPAN) as readings, ExitStack() as drivers:
        with frozen(loop):
            drivers.enter_context(another_driver(loop, tmp_path / "second"))
        drivers.enter_context(another_driver(loop, tmp_path / "anew", "--starting-offsets", offsets_reached(loop)))
        assert replay.wait(300) == 0
        loop.catch_up()
    rebuilt = loop.json("rebuild", "--full")
    found = loop.json("audit", *AUDIT)

    allowed = prefix_values(loop.settings)
    wrong = [cell for cell in readings.told if cell[3] not in {seen[METRICS.index(cell[2])] for seen in allowed.get(cell[:2], {(0, 0)})}]
    print(f"{readings.answers:,} answers, {len(readings.told):,} distinct values, {len(wrong)} no prefix; rebuilt {rebuilt['rows']:,} rows")
    assert (wrong, readings.failures, found["ok"]) == ([], [], True)
    assert found["oracle"]["windows"] == found["oracle"]["equal"] > 0
