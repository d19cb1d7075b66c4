"""The disk of each service is full for a while, under load; then there is space again, and nobody
types anything."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from cassandra.cluster import Session

from runtime.connect import cassandra_session
from tests.support.clients.live_load import LiveLoad
from tests.support.stack.fault_suite import FaultSuite, Suffering
from tests.support.stack.faults import BACK_SECONDS, Outcome, pause, seconds_until_served
from tests.support.stack.loop import Loop, running_loop, wait_until
from tests.support.stack.small_disks import full, mounted

FULL_SECONDS = 30.0
SERVICES = ("kafka", "cassandra", "gateway", "normaliser", "speed", "master", "api")
# Folders below TALLY_HOME, and their sizes in MiB.
DISKS = {
    "kafka": ("data/kafka", 1_500),
    "cassandra": ("data/cassandra", 1_500),
    "checkpoints": ("data/checkpoints", 500),
    "master": ("data/master", 500),
    # What is left: logs, records of processes, heartbeats, files that Spark writes.
    "home": ("", 1_000),
}
EVERYWHERE = "everywhere"


class TestFullDisks(FaultSuite):
    # Few: a service that is behind for want of processors would say nothing about disks.
    receipts_a_second = 40
    faults = tuple((disk, "ENOSPC") for disk in (*DISKS, EVERYWHERE))

    @pytest.fixture(scope="class")
    @classmethod
    def loop(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
        home = tmp_path_factory.mktemp("disks")
        with ExitStack() as disks:
            # The home first: the others lie in it.
            for folder, size in reversed(DISKS.values()):
                disks.enter_context(mounted(home / folder, size))
            with running_loop(home, *SERVICES) as running:
                yield running

    @pytest.fixture(scope="class")
    @classmethod
    def session(cls, loop: Loop, suffering: Suffering) -> Iterator[Session]:
        with cassandra_session(loop.settings) as opened:
            yield opened

    @classmethod
    def suffer(cls, loop: Loop, load: LiveLoad, service: str, fault: str) -> Outcome:
        with full([*_disks(loop.home, service)]):
            pause(FULL_SECONDS)
        started = time.monotonic()
        wait_until(lambda: _all_run(loop), BACK_SECONDS, f"all runs after the disk of {service}")
        running_after = time.monotonic() - started
        return Outcome(
            service, fault, running_after, running_after + seconds_until_served(loop, load)
        )


def _disks(home: Path, name: str) -> Iterator[Path]:
    for disk, (folder, _) in DISKS.items():
        if name in (disk, EVERYWHERE):
            yield home / folder


def _all_run(loop: Loop) -> bool:
    states = loop.status()
    return {one["state"] for name, one in states.items() if name in SERVICES} == {"running"}
