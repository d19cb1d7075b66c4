"""The stream of alerts on a real broker, over real connections."""

import random
import re
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from alerting.publish import AlertTables, FiledAlert
from alerting.stream.place import parse_position
from runtime.connect import cassandra_session, kafka_admin
from runtime.kafka.reader import read_to_end
from runtime.kafka.topics import partition_numbers
from tally.alerts.message import Alert, decode_alert, encode_alert
from tally.config.settings import Settings
from tests.integration.ingest.conftest import starter, wait_until
from tests.integration.serving.alerts.alert_server import REQUEST_SECONDS
from tests.integration.serving.test_process import answers
from tests.support import http
from tests.support.alerts.alerts import id_of, open_transaction, plain, put, send, told
from tests.support.clients.sse import EventSource

# Of two partitions (tally/events/identity.py).
STORES = ("367", "406")
DROPS, ALERTS = 20, 200


@pytest.fixture
def server(own_settings: Settings, topic: str) -> Iterator[str]:
    """Address of the stream of a topic of the test's own."""
    with serving(own_settings, topic) as (_, url):
        yield url


@contextmanager
def serving(settings: Settings, topic: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    variables = {
        "TALLY_KAFKA": settings.kafka,
        "TALLY_CASSANDRA": settings.cassandra,
        "TALLY_KEYSPACE": settings.keyspace,
        "TALLY_HOME": str(settings.home),
    }
    with starter(variables) as start:
        process = start("tests.integration.serving.alerts.alert_server", topic)
        assert process.stdout is not None
        url = f"http://{process.stdout.readline().strip()}"
        answers(f"{url}/healthz", 200)
        yield process, f"{url}/v1/alerts/stream"


def ids(settings: Settings, topic: str, **more: str) -> list[str]:
    """The alert_id of every record of the topic as a reader has it."""
    overrides = {name.replace("_", "."): of for name, of in more.items()}
    messages = read_to_end(settings, [topic], overrides)
    return [decode_alert(one.value() or b"").alert_id for one in messages]


def until(events: Iterator[tuple[str, Any]], name: str) -> Any:
    """The content of the next event of a name, which comes before any alert."""
    for found, content in events:
        if found == name:
            return content
        assert found == "id", (found, content)
    raise AssertionError("the stream has ended")


def test_twenty_drops_and_each_alert_once(own_settings: Settings, topic: str, server: str) -> None:
    client, have = EventSource(server), list[str]()
    with client.connected() as events:
        assert next(events)[0] == "id"
    sender = Thread(target=send_interleaved, args=(own_settings, topic))
    sender.start()
    for drop in range(DROPS):
        with client.connected() as events:
            while len(have) < (drop + 1) * (ALERTS // (DROPS + 5)):
                name, content = next(events)
                have += [content["alert_id"]] if name == "alert" else []
            # Closed here, while more is under way.
    sender.join()
    with client.connected() as events:
        while len(have) < ALERTS:
            name, content = next(events)
            have += [content["alert_id"]] if name == "alert" else []
        # Nothing comes behind it.
        assert until(events, "id")

    assert Counter(have) == Counter(ids(own_settings, topic))
    # Negative control: what was aborted lies there for who reads all.
    assert len(ids(own_settings, topic, isolation_level="read_uncommitted")) > ALERTS


def send_interleaved(settings: Settings, topic: str) -> None:
    """ALERTS of both partitions in small transactions, aborted ones between them."""
    rng, number = random.Random(13), 0
    while number < ALERTS:
        some = range(number, min(ALERTS, number + rng.randint(1, 4)))
        send(settings, topic, [told(1_000 + number, STORES[0])], abort=True)
        send(settings, topic, [told(one, rng.choice(STORES)) for one in some])
        number = some.stop


def test_nothing_of_an_open_or_aborted_transaction_is_told(
    own_settings: Settings, topic: str, server: str
) -> None:
    with EventSource(server).connected() as events:
        assert next(events)[0] == "id"
        with open_transaction(own_settings) as producer:
            put(producer, own_settings, topic, told(1))
            assert producer.flush(30) == 0
            # Of the other partition: it does not wait.
            send(own_settings, topic, [told(2, "406")])
            assert until(events, "alert")["evidence"]["tick"] == 2
            producer.abort_transaction(30)
        send(own_settings, topic, [told(3)])

        assert until(events, "alert") == plain(told(3))


def test_filter_that_matches_nothing_does_not_age(
    own_settings: Settings, topic: str, server: str
) -> None:
    client = EventSource(server, {"store": "all", "rule": "another-rule"})
    # Two records, and the marker of each partition behind it.
    with client.connected() as events:
        start = parse_position(until(events, "id"))
        send(own_settings, topic, [told(1), told(2, "406")])
        while sum(parse_position(client.last_id).offsets) < sum(start.offsets) + 4:
            until(events, "id")

    client.parameters = {}
    with client.connected() as events:
        until(events, "id")
        send(own_settings, topic, [told(3)])
        assert until(events, "alert")["evidence"]["tick"] == 3


@pytest.mark.parametrize(
    ("asked", "number"),
    [({"store": "406"}, 2), ({"severity": "critical"}, 3), ({"rule": "few-visitors"}, 4)],
)
def test_only_what_is_asked_for(
    own_settings: Settings, topic: str, server: str, asked: dict[str, str], number: int
) -> None:
    some = [told(1), told(2, "406"), told(3, severity="critical"), told(4, rule_id="few-visitors")]
    add_stores(own_settings)
    with EventSource(server, asked).connected() as events:
        until(events, "id")
        send(own_settings, topic, some)

        assert until(events, "alert")["evidence"]["tick"] == number


def test_place_below_the_retention_is_a_gap_and_a_snapshot(
    own_settings: Settings, topic: str, server: str
) -> None:
    add_stores(own_settings)
    file(own_settings, [told(1), told(2, "406")])
    client = EventSource(server, {"store": "367"})
    with client.connected() as events:
        until(events, "id")
    send(own_settings, topic, [told(1), told(2, "406")])
    lost = delete_all(own_settings, topic)
    # Whoever listens has what was there: another process has it no more.
    with serving(own_settings, topic) as (_, url):
        client.url, place = url, client.last_id
        with client.connected() as events:
            gap = until(events, "gap")
            snapshot = until(events, "snapshot")
            send(own_settings, topic, [told(3)])
            assert until(events, "alert")["evidence"]["tick"] == 3

    assert (gap["from"], parse_position(gap["to"]).offsets) == (place, lost)
    assert snapshot == {"open": [plain(told(1))]}
    client.url = server
    with client.connected() as events:
        # Once is enough: the next connection goes on where the last one was.
        assert until(events, "id")


def test_topic_that_was_made_anew_is_a_gap_and_all_of_the_new_one(
    own_settings: Settings, topic: str, server: str
) -> None:
    client = EventSource(server)
    with client.connected() as events:
        until(events, "id")
        send(own_settings, topic, [told(1)])
        assert until(events, "alert")["evidence"]["tick"] == 1
        make_anew(own_settings, topic)
        send(own_settings, topic, [told(2)])

        gap = until(events, "gap")
        assert set(until(events, "snapshot")) == {"open"}
        assert until(events, "alert")["evidence"]["tick"] == 2
    assert parse_position(gap["from"]).topic_id != parse_position(gap["to"]).topic_id


def test_client_that_reads_nothing_is_cut_off(
    own_settings: Settings, topic: str, server: str
) -> None:
    name, port = server.removeprefix("http://").partition("/")[0].split(":")
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.connect((name, int(port)))
        client.sendall(f"GET /v1/alerts/stream HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
        assert client.recv(15) == b"HTTP/1.1 200 OK"
        with EventSource(server).connected() as events:
            until(events, "id")
            # More than all buffers on the way hold; this client takes its alerts as they come.
            for some in range(50):
                send(own_settings, topic, [large(20 * some + number) for number in range(20)])
                have = 0
                while have < 20:
                    have += next(events)[0] == "alert"
        # The other one, which was not held up, and this one, whose client still waits.
        wait_until(lambda: ended_streams(server) == 2, REQUEST_SECONDS + 20)


def ended_streams(url: str) -> int:
    """How many streams the server has had that are over, as it counts them."""
    text = http.get(url.replace("/v1/alerts/stream", "/metrics"), timeout=30).text
    found = re.search(r'requests_total\{route="/v1/alerts/stream",status="200"\} (\d+)', text)
    return int(found[1]) if found else 0


def large(number: int) -> Alert:
    return told(number, subject="x" * 20_000, alert_id=id_of(str(number)))


def test_server_that_stops_ends_its_streams_at_once(own_settings: Settings, topic: str) -> None:
    with serving(own_settings, topic) as (process, url), EventSource(url).connected() as events:
        until(events, "id")
        process.send_signal(signal.SIGTERM)
        assert process.wait(600) == 0


def add_stores(settings: Settings) -> None:
    with cassandra_session(settings) as session:
        for store in STORES:
            session.execute(
                "INSERT INTO store_activity (family, store_id, first_day, last_day)"
                f" VALUES ('sales', '{store}', '2026-11-01', '2026-11-23')"
            )


def file(settings: Settings, alerts: list[Alert]) -> None:
    with cassandra_session(settings) as session:
        AlertTables(session).write_alerts(
            [FiledAlert(one, encode_alert(one).decode()) for one in alerts]
        )


def delete_all(settings: Settings, topic: str) -> tuple[int, ...]:
    """Every record of the topic is gone; the first offsets that are there now."""
    admin = kafka_admin(settings)
    asked = [TopicPartition(topic, one, -1) for one in partition_numbers(admin, topic, 30)]
    found = admin.delete_records(asked)
    return tuple(found[one].result(30).low_watermark for one in asked)


def make_anew(settings: Settings, topic: str) -> None:
    admin = kafka_admin(settings)
    admin.delete_topics([topic])[topic].result(30)
    new = NewTopic(topic, num_partitions=settings.partitions, replication_factor=1)

    # The old one goes when the brokers have time for it.
    @retry(
        retry=retry_if_exception_type(KafkaException),
        stop=stop_after_delay(600),
        wait=wait_fixed(0.2),
    )
    def make() -> None:
        admin.create_topics([new])[topic].result(30)

    make()
