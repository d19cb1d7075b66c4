"""Probes of services by their own protocols, with time-outs of seconds."""

import http.client
import json
import socket

from confluent_kafka import KafkaException

from runtime.connect import CASSANDRA_ERRORS, cassandra_session, kafka_admin
from tally.config.settings import Settings
from tally.errors import StackError

TIMEOUT_SECONDS = 3.0
ANSWER_SECONDS = 1.0
# ApiVersions, version 0, without a client id; and CQL's OPTIONS: requests that each server answers
# before authentication.
KAFKA_HELLO = bytes.fromhex("0000000a 0012 0000 00000000 ffff")
CASSANDRA_HELLO = bytes.fromhex("04 00 0000 05 00000000")


def accepts_connections(address: str) -> bool:
    """Whether a process accepts connections on host:port."""
    host, port = address.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), TIMEOUT_SECONDS):
            return True
    except OSError:
        return False


def kafka_answers(settings: Settings) -> bool:
    """Whether the broker answers and leads every partition: after a crash it takes seconds."""
    # A plain connection first: the client library prints a line for every refused connection.
    if not accepts_connections(settings.kafka.split(",")[0]):
        return False
    try:
        cluster = kafka_admin(settings).list_topics(timeout=TIMEOUT_SECONDS)
    except KafkaException:
        return False
    partitions = [
        partition for topic in cluster.topics.values() for partition in topic.partitions.values()
    ]
    # Without a leader a partition takes no record, and every producer waits.
    return bool(cluster.brokers) and all(partition.leader >= 0 for partition in partitions)


def cassandra_answers(settings: Settings) -> bool:
    """Whether the node answers CQL."""
    if not accepts_connections(settings.cassandra.split(",")[0]):
        return False
    try:
        with cassandra_session(settings, "") as session:
            return session.execute("SELECT release_version FROM system.local").one() is not None
    except (StackError, *CASSANDRA_ERRORS):
        return False


def http_json(address: str, path: str) -> tuple[int, object]:
    """The status and JSON body of GET path; (0, None) without an answer."""
    connection = http.client.HTTPConnection(address, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")
    except (OSError, http.client.HTTPException, ValueError):
        return 0, None
    finally:
        connection.close()


def responds(address: str, request: bytes) -> bool:
    """Whether a process answers in a second: a frozen one only keeps its port open."""
    host, port = address.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), ANSWER_SECONDS) as connection:
            # A request is sent, because the kernel accepts connections for a frozen process too.
            connection.sendall(request)
            return bool(connection.recv(1))
    except OSError:
        return False


def responds_http(address: str, path: str) -> bool:
    """Whether an HTTP service gives any answer to GET path."""
    return responds(
        address, f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode()
    )


def is_healthy(address: str) -> bool:
    """Whether one of Tally's HTTP services answers /healthz with 200."""
    return http_json(address, "/healthz")[0] == 200


def airflow_answers(settings: Settings) -> bool:
    """Whether Airflow's database, scheduler and DAG processor all report healthy."""
    status, body = http_json(settings.airflow, "/api/v2/monitor/health")
    if status != 200 or not isinstance(body, dict):
        return False
    return all(
        (body.get(part) or {}).get("status") == "healthy"
        for part in ("metadatabase", "scheduler", "dag_processor")
    )
