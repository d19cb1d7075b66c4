"""Two normalisers share the partitions: each killed and frozen in turn under 500 receipts a
second, and nobody waits long."""

import itertools
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil
import pytest
from confluent_kafka import TopicPartition

from ops.local.processes.processes import send
from runtime.connect import NORMALISER_GROUP, cassandra_session, kafka_admin, kafka_consumer
from runtime.processor.delivery import BEFORE_COMMIT
from schemas import loader
from tests.support.clients.live_load import LiveLoad
from tests.support.oracles.ledger import ledger_totals
from tests.support.stack.fault_suite import of_live_stores
from tests.support.stack.faults import FREEZE_SECONDS, Outcome, pause, suffered, table
from tests.support.stack.loop import Loop, running_loop, wait_until
from tests.support.stack.tables import batch_rows, speed_rows

TOPIC, RAW = "sales", loader.topics()["sales"]["raw"]
RATE = 500
MAX_SECONDS_WITHOUT = 10.0
NORMALISERS = ("normaliser", "normaliser-2")
# Of the second normaliser before it freezes: by then the group has settled.
DELIVERIES = 60
FAULTS = [(service, fault) for fault in ("SIGKILL", "SIGSTOP") for service in NORMALISERS]


@dataclass
class Progress:
    """When committed records of each canonical partition could be read, in monotonic seconds."""

    seen: dict[int, list[float]] = field(default_factory=dict)

    def pauses(self) -> dict[int, float]:
        """The longest time without a record, by partition."""
        return {
            partition: max(late - early for early, late in itertools.pairwise(at))
            for partition, at in self.seen.items()
        }


@contextmanager
def watched(loop: Loop) -> Iterator[Progress]:
    """Reads the canonical topic as a sink of read_committed does, until the block ends."""
    progress, stop = Progress(), threading.Event()
    consumer = kafka_consumer(loop.settings, "progress")
    consumer.assign(
        [TopicPartition(TOPIC, partition, 0) for partition in range(loop.settings.partitions)]
    )

    def read() -> None:
        while not stop.is_set():
            for message in consumer.consume(1000, 0.1):
                assert message.error() is None, message.error()
                progress.seen.setdefault(message.partition() or 0, []).append(time.monotonic())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield progress
    finally:
        stop.set()
        reader.join()
        consumer.close()


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    services = ("gateway", *NORMALISERS, "speed", "master", "api")
    with running_loop(
        tmp_path_factory.mktemp("two"),
        *services,
        overrides={"TALLY_NORMALISERS": "2", "TALLY_KEYSPACE": "test_two_normalisers"},
    ) as running:
        yield running


def partitions_of_members(loop: Loop) -> dict[str, set[int]]:
    """Which partitions of the receipts each member of the group has, by its slot's name."""
    admin = kafka_admin(loop.settings)
    members = (
        admin.describe_consumer_groups([NORMALISER_GROUP])[NORMALISER_GROUP].result(30).members
    )
    return {
        member.client_id: {
            at.partition for at in member.assignment.topic_partitions if at.topic == RAW
        }
        for member in members
    }


def both_share(loop: Loop) -> bool:
    shared = partitions_of_members(loop)
    return sorted(shared) == ["tally-normaliser-0", "tally-normaliser-1"] and all(shared.values())


def test_each_killed_and_frozen_under_load_loses_nothing_and_holds_nobody_up(loop: Loop) -> None:
    load, outcomes = LiveLoad(loop.settings.gateway, RATE), list[Outcome]()
    with watched(loop) as progress, load.selling():
        for service, fault in FAULTS:
            outcomes.append(suffered(loop, load, service, fault))
            print(outcomes[-1], flush=True)
        # A member that was frozen joins again a moment after it has been let go.
        wait_until(lambda: both_share(loop), 120, "both have partitions again")
        shared = partitions_of_members(loop)
        frozen_inside_a_transaction(loop)

    print(table(outcomes))
    pauses = progress.pauses()
    longest = {partition: round(most, 1) for partition, most in pauses.items()}
    print(f"partitions {shared}; longest without a committed record, by partition: {longest}")
    everything_is_counted_once(loop, load)
    assert len(pauses) > 1 and max(pauses.values()) <= MAX_SECONDS_WITHOUT


def frozen_inside_a_transaction(loop: Loop) -> None:
    """The second one, with what it has sent and not committed: until the brokers end that,
    nobody reads beyond it."""
    loop.down("normaliser-2")
    with another_normaliser(loop, f"{BEFORE_COMMIT}:{DELIVERIES}:SIGSTOP") as frozen:
        wait_until(
            lambda: frozen.status() == psutil.STATUS_STOPPED,
            120,
            "it is frozen between its last record and the commit",
        )
        pause(FREEZE_SECONDS)
        send(frozen, signal.SIGCONT)
        pause(FREEZE_SECONDS)
    loop.up("normaliser-2")


@contextmanager
def another_normaliser(loop: Loop, crash: str) -> Iterator[psutil.Process]:
    """The shipped one of the second slot with a crash put in (tests/controls); nobody starts it
    again, and it is told to stop at the end if it has not ended by itself."""
    environment = {**loop.environment, "TALLY_NORMALISER_SLOT": "1"}
    command = [sys.executable, "-m", "tests.controls.processes.crashing", crash]
    with subprocess.Popen(command, env=environment) as started:
        try:
            yield psutil.Process(started.pid)
            started.terminate()
            started.wait(30)
        finally:
            started.kill()


def everything_is_counted_once(loop: Loop, load: LiveLoad) -> None:
    """The views of both layers are what was acknowledged, and the ledger adds up."""
    loop.catch_up()
    loop.json("rebuild", "--dirty")
    with cassandra_session(loop.settings) as session:
        found = (
            of_live_stores(speed_rows(session, "sales")),
            of_live_stores(batch_rows(session, "sales")),
        )
    totals, expected = ledger_totals(loop), load.expected()
    print(f"{load.receipts:,} receipts, {len(expected)} windows of both layers compared")
    assert found == (expected, expected)
    assert (totals["counted"], totals["conflict"], totals["dead_letter"]) == (load.receipts, 0, 0)
