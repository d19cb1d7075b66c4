"""The job as a process: starts, stops, survives, refuses."""

import json
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

from ops import provision
from ops.local.processes.service import Site
from runtime.connect import cassandra_session
from runtime.process.heartbeat import stall_reason
from runtime.process.job import REFUSED
from tally.config.settings import Settings
from tests.integration.speed.query import NOON
from tests.support.sources.canonical import interval, receipt, send

ROOT = Path(__file__).parents[3]
START_SECONDS, STOP_SECONDS, ROWS_SECONDS = 600, 600, 600


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    """Return when the condition holds; an AssertionError after the deadline."""
    waiting = Retrying(
        retry=retry_if_result(lambda held: not held),
        stop=stop_after_delay(seconds),
        wait=wait_fixed(0.2),
    )
    waiting(condition)


@contextmanager
def job(
    site: Site, module: str = "speed_layer.job", **variables: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """The running, ready job; killed at the end if it still runs. What it tells goes to
    `told_of(site)`: nobody reads a pipe here, and a job stands still whose pipe is full."""
    ready = site.home / f"ready-{uuid4()}"
    environment = {
        **site.environment,
        "TALLY_READY_FILE": str(ready),
        "PYTHONPATH": str(ROOT),
        **variables,
    }
    with told_of(site).open("wb") as told:
        process = subprocess.Popen([sys.executable, "-m", module], env=environment, stderr=told)
    try:
        wait_until(lambda: ready.exists() or process.poll() is not None, START_SECONDS)
        yield process
    finally:
        children = (
            psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        )
        process.kill()
        for child in children:
            child.kill()
        process.wait(STOP_SECONDS)


def told_of(site: Site) -> Path:
    """The file of what the last job has told on stderr."""
    return site.home / "job.log"


@pytest.fixture(scope="module")
def views(own_site: Site) -> Iterator[Session]:
    """A session on the module's own keyspace."""
    with cassandra_session(own_site.settings) as session:
        yield session


def receipts_of(session: Session, store: str) -> int:
    """Receipts in the store's speed rows of the day."""
    text = "SELECT SUM(receipts) FROM sales_15min WHERE store_id = %s AND day = '2017-09-19'"
    return int(session.execute(text, [store]).one()[0])


def entries_of(session: Session, store: str) -> int:
    """Persons in the store's speed rows of the day."""
    text = "SELECT SUM(\"entries\") FROM traffic_15min WHERE store_id = %s AND day = '2017-09-19'"
    return int(session.execute(text, [store]).one()[0])


def sell(settings: Settings, store: str, count: int) -> None:
    """Receipts of one store and window on the sales topic."""
    send(settings, "sales", [receipt(store, number, NOON) for number in range(count)])


def test_job_survives_sigkill_and_a_failing_query_and_ends_with_zero_on_sigterm(
    own_site: Site, views: Session
) -> None:
    store, heartbeat = uuid4().hex, own_site.home / "heartbeat"
    with job(own_site) as first:
        sell(own_site.settings, store, 3)
        wait_until(lambda: receipts_of(views, store) == 3, ROWS_SECONDS)
        first.kill()
    with job(own_site, TALLY_HEARTBEAT_FILE=str(heartbeat)) as second:
        sell(own_site.settings, store, 5)
        wait_until(lambda: receipts_of(views, store) == 5, ROWS_SECONDS)

        views.execute("DROP TABLE traffic_15min", timeout=600)
        send(own_site.settings, "traffic", [interval(store, "door", NOON, 3)])
        sell(own_site.settings, store, 7)
        wait_until(lambda: b"failing" in told_of(own_site).read_bytes(), ROWS_SECONDS)
        provision.create_tables(own_site.settings)
        wait_until(
            lambda: entries_of(views, store) == 3 and receipts_of(views, store) == 7, ROWS_SECONDS
        )
        assert second.poll() is None
        assert stall_reason(heartbeat, own_site.settings.stalled_after_seconds) is None

        second.send_signal(signal.SIGTERM)
        assert second.wait(STOP_SECONDS) == 0


def test_job_refuses_a_topic_with_another_partition_count(own_site: Site) -> None:
    exit_file = own_site.home / "exit"
    environment = {
        **own_site.environment,
        "TALLY_PARTITIONS": "5",
        "PYTHONPATH": str(ROOT),
        "TALLY_EXIT_FILE": str(exit_file),
    }

    done = subprocess.run(
        [sys.executable, "-m", "speed_layer.job"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, json.loads(exit_file.read_text())["code"]) == (REFUSED, REFUSED)
    assert done.stderr.splitlines()[-1].startswith(
        "speed layer: topic inventory has 4 partitions, TALLY_PARTITIONS is 5"
    )


def test_receipts_are_kept_by_a_job_that_ends_with_one_line_when_its_jvm_is_killed(
    own_site: Site, views: Session
) -> None:
    store, heartbeat = uuid4().hex, own_site.home / "heartbeat-receipts"
    sell(own_site.settings, store, 3)
    text = (
        "SELECT COUNT(*) FROM raw_pos_transaction_byday WHERE year_day = '2017-09-19' AND"
        " operation_id = %s"
    )
    with job(own_site, "speed_layer.receipts_job", TALLY_HEARTBEAT_FILE=str(heartbeat)) as process:
        wait_until(lambda: views.execute(text, [store]).one()[0] == 3, ROWS_SECONDS)
        wait_until(heartbeat.exists, ROWS_SECONDS)
        next(
            child
            for child in psutil.Process(process.pid).children(recursive=True)
            if child.name() == "java"
        ).kill()
        assert process.wait(STOP_SECONDS) == 1

    *_, last = told_of(own_site).read_text("utf-8").splitlines()
    assert last.startswith("receipts: the JVM of the driver has ended")
