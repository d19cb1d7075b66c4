"""The job as a process: starts, stops, survives, refuses."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psutil
import pytest
from cassandra.cluster import Session
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from ops.stack.service import Site
from tally.connect import cassandra_session
from tally.settings import Settings
from tests.canonical import receipt, send
from tests.integration.speed.query import NOON

ROOT = Path(__file__).parents[3]
START_SECONDS, STOP_SECONDS, ROWS_SECONDS = 120, 40, 120


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    """Return when the condition holds; an AssertionError after the deadline."""
    waiting = Retrying(retry=retry_if_result(lambda held: not held), stop=stop_after_delay(seconds), wait=wait_fixed(0.2))
    waiting(condition)


@contextmanager
def job(site: Site) -> Iterator["subprocess.Popen[str]"]:
    """The running, ready job; killed at the end if it still runs."""
    ready = site.home / f"ready-{uuid4()}"
    environment = {**site.environment, "TALLY_READY_FILE": str(ready), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-m", "speed_layer.job"], env=environment, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: ready.exists() or process.poll() is not None, START_SECONDS)
        yield process
    finally:
        children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.kill()
        for child in children:
            child.kill()
        process.communicate(timeout=STOP_SECONDS)


@pytest.fixture(scope="module")
def views(own_site: Site) -> Iterator[Session]:
    """A session on the module's own keyspace."""
    with cassandra_session(own_site.settings) as session:
        yield session


def receipts_of(session: Session, store: str) -> int:
    """Receipts in the store's speed rows of the day."""
    text = "SELECT SUM(receipts) FROM sales_15min WHERE store_id = %s AND day = '2017-09-19'"
    return int(session.execute(text, [store]).one()[0])


def sell(settings: Settings, store: str, count: int) -> None:
    """Receipts of one store and window on the sales topic."""
    send(settings, "sales", [receipt(store, number, NOON) for number in range(count)])


def test_job_goes_on_after_sigkill_and_ends_with_zero_on_sigterm(own_site: Site, views: Session) -> None:
    store = uuid4().hex
    with job(own_site) as first:
        sell(own_site.settings, store, 3)
        wait_until(lambda: receipts_of(views, store) == 3, ROWS_SECONDS)
        first.kill()
    with job(own_site) as second:
        sell(own_site.settings, store, 5)
        wait_until(lambda: receipts_of(views, store) == 5, ROWS_SECONDS)
        second.send_signal(signal.SIGTERM)

        assert second.wait(STOP_SECONDS) == 0


def test_job_ends_with_one_line_when_its_jvm_is_killed(own_site: Site) -> None:
    with job(own_site) as process:
        next(child for child in psutil.Process(process.pid).children(recursive=True) if child.name() == "java").kill()
        _, told = process.communicate(timeout=STOP_SECONDS)

    assert process.returncode == 1
    assert told.splitlines()[-1].startswith("speed layer: the JVM of the driver has ended")


def test_job_refuses_a_topic_with_another_partition_count(own_site: Site) -> None:
    environment = {**own_site.environment, "TALLY_PARTITIONS": "5", "PYTHONPATH": str(ROOT)}

    done = subprocess.run([sys.executable, "-m", "speed_layer.job"], env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("speed layer: topic sales has 4 partitions, TALLY_PARTITIONS is 5")
