"""The real broker and the real node under the supervisor."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from threading import Thread
from uuid import uuid4

import psutil
import pytest
from confluent_kafka import TopicPartition

from ops.local.processes import processes, supervisor
from ops.local.processes.service import Site
from ops.local.services import catalogue
from ops.local.stack import control, doctor
from runtime.cassandra.writes import TRANSIENT_ERRORS
from runtime.connect import cassandra_session, kafka_consumer
from runtime.kafka.topics import read_partition_bounds
from schemas import loader
from tally.errors import StackError
from tests.conftest import make_site
from tests.support import http
from tests.support.clients.producers import connected_producer
from tests.unit.ingest.messages import pos

NAMES = ("kafka", "cassandra")
SERVICES = catalogue.select_services(NAMES)
# Acknowledged writes before a node is killed.
KILLED_AFTER = 200


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A stack of this module's own, which its tests stop and kill."""
    site = make_site(tmp_path_factory.mktemp("home"))
    control.up(site, SERVICES, print)
    yield site
    control.down(site, catalogue.select_services(()), print)


def pids(site: Site) -> list[int | None]:
    return [status.pid for status in control.status(site, SERVICES).values()]


def write_both(site: Site) -> str:
    """The same new text as a record of topic sales and as a keyspace's table row."""
    text = uuid4().hex
    producer = connected_producer(site.settings)
    producer.produce("sales", text.encode(), partition=0)
    producer.flush(30)
    with cassandra_session(site.settings) as session:
        session.execute(
            "INSERT INTO store_activity (family, store_id) VALUES ('sales', %s)", [text]
        )
    return text


def read_both(site: Site) -> tuple[str, list[str]]:
    """Last record of topic sales, and the stores of the table."""
    consumer = kafka_consumer(site.settings, "reader")
    end = read_partition_bounds(consumer, ("sales", 0), 30).end
    consumer.assign([TopicPartition("sales", 0, end - 1)])
    [message] = consumer.consume(1, timeout=300)
    consumer.close()
    with cassandra_session(site.settings) as session:
        return (message.value() or b"").decode(), [
            row.store_id for row in session.execute("SELECT store_id FROM store_activity")
        ]


def kill(pid: int | None) -> None:
    process = psutil.Process(pid)
    process.send_signal(signal.SIGKILL)
    processes.wait_until_ended([process], 10)


def test_down_leaves_no_process_and_up_finds_the_data(running: Site) -> None:
    text = write_both(running)

    control.down(running, SERVICES, print)
    left = [
        process
        for service in SERVICES
        for process in processes.find_marked_processes(f"{running.home}:{service.name}")
    ]
    stopped = pids(running)
    control.up(running, SERVICES, print)

    record, stores = read_both(running)
    assert (left, stopped) == ([], [None, None])
    assert record == text and text in stores


def test_killed_broker_is_named_by_the_doctor_and_comes_back_beside_the_same_node(
    running: Site,
) -> None:
    text = write_both(running)
    broker, node = pids(running)
    kill(broker)

    check = dict(doctor.checks(running))["kafka"]
    control.up(running, SERVICES, print)

    new_broker, same_node = pids(running)
    assert (check.ok, check.fix) == (False, "tally up kafka")
    assert new_broker not in (broker, None) and same_node == node
    assert read_both(running)[0] == text


def acknowledged_until_killed(site: Site) -> set[str]:
    """Stores whose rows the node has acknowledged, one after the other, until it was killed while
    more were written."""
    acknowledged: set[str] = set()
    killer = Thread(target=kill, args=[pids(site)[1]])
    with cassandra_session(site.settings) as session:
        add = session.prepare("INSERT INTO store_activity (family, store_id) VALUES ('killed', ?)")
        with suppress(*TRANSIENT_ERRORS):
            for number in count():
                if number == KILLED_AFTER:
                    killer.start()
                session.execute(add, [str(number)])
                acknowledged.add(str(number))
    killer.join()
    return acknowledged


def test_killed_node_has_lost_nothing_that_it_has_acknowledged(running: Site) -> None:
    acknowledged = acknowledged_until_killed(running)
    control.up(running, SERVICES, print)

    with cassandra_session(running.settings) as session:
        rows = session.execute("SELECT store_id FROM store_activity WHERE family = 'killed'")
        held = {row.store_id for row in rows}

    print(f"{len(acknowledged):,} acknowledged writes looked for")
    assert len(acknowledged) >= KILLED_AFTER and acknowledged - held == set()


def test_changed_partition_count_is_refused(running: Site) -> None:
    changed = Site.from_settings(
        running.settings.model_copy(update={"partitions": 8}), running.environment
    )

    with pytest.raises(
        StackError,
        match=r"topic \S+ has 4 partitions, TALLY_PARTITIONS is 8: .*set TALLY_PARTITIONS=4",
    ):
        control.up(changed, catalogue.select_services(["kafka"]), print)


def test_port_fixed_by_a_setting_and_busy_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        site = make_site(tmp_path, TALLY_KAFKA=f"127.0.0.1:{port}")

        with pytest.raises(
            StackError,
            match=rf"kafka: port {port} on 127.0.0.1 is busy \(pid {os.getpid()}\); .*TALLY_KAFKA",
        ):
            control.up(site, catalogue.select_services(["kafka"]), print)


def test_doctor_of_a_healthy_stack_finds_nothing_wrong_but_that_nobody_watches(
    running: Site,
) -> None:
    found = dict(doctor.checks(running))

    # Nobody typed `tally up` here, so nobody watches.
    assert [name for name, check in found.items() if not check.ok] == ["watcher"]
    assert found["topics"].detail == (
        f"{len(loader.topics()) - 1} with 4 partitions, 1 with 1 partitions"
    )
    assert found["transactions"].detail == "none hangs, 0 open"


def test_doctor_sees_an_open_transaction(running: Site) -> None:
    producer = connected_producer(
        running.settings, {"transactional.id": "left-open", "transaction.timeout.ms": 60_000}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("sales", b"pending", partition=1)
    producer.flush(30)

    detail = dict(doctor.checks(running))["transactions"].detail
    producer.abort_transaction(30)

    assert detail == "none hangs, 1 open"


def test_command_line_tells_of_the_same_stack(running: Site) -> None:
    environment = {**os.environ, "TALLY_HOME": str(running.home)}
    command = [sys.executable, "-m", "ops.cli"]

    up = subprocess.run(
        [*command, "up", "kafka", "cassandra"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    status = subprocess.run(
        [*command, "status", "--json"], env=environment, capture_output=True, text=True, check=False
    )

    services = json.loads(status.stdout)["services"]
    assert up.stdout == "" and up.stderr.count("runs already") == 2
    assert [
        (services[name]["state"], services[name]["pid"]) for name in ("kafka", "cassandra")
    ] == [("running", pid) for pid in pids(running)]
    assert status.returncode == 1


def test_record_is_ready_only_after_the_health_check(running: Site) -> None:
    records = [processes.read_record(running.run(f"{service.name}.json")) for service in SERVICES]

    assert [record.ready for record in records if record] == [True, True]
    assert all(supervisor.is_alive(running, service) for service in SERVICES)


def test_doctor_tells_of_readers_that_are_behind_before_records_are_lost(running: Site) -> None:
    control.up(running, catalogue.select_services([*NAMES, "normaliser", "gateway"]), print)
    control.down(running, catalogue.select_services(["normaliser"]), print)
    patient = doctor.check_lag(running.settings)
    unread = pos(operation_id="unread", happened_at=datetime.now(UTC).isoformat())
    http.post(
        f"http://{running.settings.gateway}/v1/events/pos", json=unread, timeout=30
    ).raise_for_status()
    hasty = running.settings.model_copy(update={"raw_backlog_seconds": 0.001})

    with pytest.raises(
        StackError,
        match=r"normaliser: a record has waited for 0\.0 h, at 0\.0 h the gateway refuses messages",
    ):
        doctor.check_lag(hasty)

    assert patient.startswith("no unread record has waited longer than")
    found = dict(doctor.checks(running))
    assert [found[name].ok for name in ("lag", "gaps", "tills")] == [True, True, True]
