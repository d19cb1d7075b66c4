"""Connections to Kafka and Cassandra with the guarantees that Tally needs (ADR 002)."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from cassandra import (
    ConsistencyLevel,
    DriverException,
    OperationTimedOut,
    RequestExecutionException,
    protocol,
)
from cassandra.cluster import (
    EXEC_PROFILE_DEFAULT,
    Cluster,
    ExecutionProfile,
    NoHostAvailable,
    Session,
)
from cassandra.connection import ConnectionException
from cassandra.policies import DCAwareRoundRobinPolicy, RetryPolicy, TokenAwarePolicy
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tally.errors import StackError
from tally.settings import Settings

REQUEST_TIMEOUT_SECONDS = 30.0
# What the driver raises when nodes do not answer: two of these are no DriverException.
CASSANDRA_AWAY = (DriverException, NoHostAvailable, ConnectionException)
# Of these what says that no node, too few or none in time has done what it was asked, and nothing
# against the question; what an overloaded node answers is told by the protocol's class.
CASSANDRA_SILENT = (
    OperationTimedOut,
    RequestExecutionException,
    protocol.RequestExecutionException,
    NoHostAvailable,
    ConnectionException,
)
# CQL's date on the wire: days, with 1970-01-01 in the middle of 32 bits.
CQL_DATE_ZERO = 1 << 31
# The consumer group of the normaliser: its committed positions say which raw records have become
# canonical ones.
NORMALISER_GROUP = "normaliser"
# Beside the group's position in this topic, which nobody deletes, lie the ids of those it reads.
NORMALISER_ANCHOR = "dead-letters"
_SYSLOG_ERROR = 3
_ASK_SECONDS = 5.0


@contextmanager
def cassandra_session(settings: Settings, keyspace: str | None = None) -> Iterator[Session]:
    """A session on the keyspace ("" for none), closed at the end.

    LOCAL_QUORUM, SERIAL for lightweight transactions. Raises StackError when no node answers, or
    not in time, also later, to what is asked in the session.
    """
    cluster = cassandra_cluster(settings)
    try:
        yield cluster.connect(settings.keyspace if keyspace is None else keyspace or None)
    except CASSANDRA_SILENT as error:
        # Of the nodes that were tried one by one the driver tells on many lines.
        told = error.args[0] if isinstance(error, NoHostAvailable) else error
        raise StackError(
            f"cassandra at {settings.cassandra}: {' '.join(str(told).split())};"
            " `tally doctor` looks for the cause"
        ) from error
    finally:
        cluster.shutdown()


def cassandra_cluster(settings: Settings) -> Cluster:
    """A cluster object that the caller shuts down; never shared across a fork."""
    addresses = [address.rsplit(":", 1) for address in settings.cassandra.split(",")]
    profile = ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(
            DCAwareRoundRobinPolicy(settings.cassandra_datacenter)
        ),
        retry_policy=RetryPolicy(),
        # Written and read by a quorum: by ONE of three a served count falls when another replica
        # answers.
        consistency_level=ConsistencyLevel.LOCAL_QUORUM,
        serial_consistency_level=ConsistencyLevel.SERIAL,
        request_timeout=REQUEST_TIMEOUT_SECONDS,
    )
    return Cluster(
        [(host, int(port)) for host, port in addresses],
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        protocol_version=5,
        # The driver itself waits 2 s for the schema, and beside busy neighbours no session begins.
        control_connection_timeout=REQUEST_TIMEOUT_SECONDS,
    )


def for_workers(settings: Settings) -> Settings:
    """The settings without the driver's folders.

    So a worker that outlives one job serves the next with one session.
    """
    return settings.model_copy(update={"home": Path(), "checkpoints": None})


def worker_session(settings: Settings) -> Session:
    """The session of this Python worker, made on first use: a session does not survive a fork."""
    return _worker_session(for_workers(settings))


@cache
def _worker_session(settings: Settings) -> Session:
    return cassandra_cluster(settings).connect(settings.keyspace)


def kafka_producer(settings: Settings, overrides: Mapping[str, Any] | None = None) -> Producer:
    """An idempotent producer: acks from all in-sync replicas, retries to the limit, order kept."""
    return Producer(
        {
            "bootstrap.servers": settings.kafka,
            "enable.idempotence": True,
            "acks": "all",
            "max.in.flight.requests.per.connection": 5,  # the most that keep their order
            "linger.ms": 5,
            "compression.type": "lz4",
            **(overrides or {}),
        }
    )


# Overrides of kafka_consumer(): ends include the records of a transaction that is under way. Its
# commit moves the positions that it carries before the last partition knows of it.
UNCOMMITTED = {"isolation.level": "read_uncommitted"}


def kafka_consumer(
    settings: Settings, group: str, overrides: Mapping[str, Any] | None = None
) -> Consumer:
    """A consumer of committed records only, from the earliest, that never commits by itself."""
    return Consumer(
        {
            "bootstrap.servers": settings.kafka,
            "group.id": group,
            # This library's default, not the Java client's: written down, since all hangs on it.
            "isolation.level": "read_committed",
            # A position is kept when what was read is stored, never by the clock.
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **(overrides or {}),
        }
    )


def brokers_answer(settings: Settings) -> bool:
    """Whether the brokers answer somebody who has just come, within seconds.

    A client that has been told of no broker at all, as while a lone one is fenced after a pause,
    never asks again, and so tells nothing (seen; librdkafka's issue 5301).
    """
    try:
        return bool(kafka_admin(settings).list_topics(timeout=_ASK_SECONDS).brokers)
    except KafkaException:
        return False


def kafka_admin(settings: Settings) -> AdminClient:
    """An admin client that says only what is an error."""
    return AdminClient({"bootstrap.servers": settings.kafka, "log_level": _SYSLOG_ERROR})
