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

from tally.config.settings import Settings
from tally.errors import StackError

REQUEST_TIMEOUT_SECONDS = 30.0
# Errors that the driver raises when nodes do not answer: two of them are no DriverException.
CASSANDRA_ERRORS = (DriverException, NoHostAvailable, ConnectionException)
# The subset that means that no node, too few nodes, or none in time has executed the request,
# without fault of the request itself; an overloaded node's answer has the protocol's class.
CASSANDRA_UNAVAILABLE = (
    OperationTimedOut,
    RequestExecutionException,
    protocol.RequestExecutionException,
    NoHostAvailable,
    ConnectionException,
)
# A CQL date on the wire is a number of days, with 1970-01-01 in the middle of 32 bits.
CQL_DATE_ZERO = 1 << 31
# The consumer group of the normaliser: its committed positions show which raw records have become
# canonical ones.
NORMALISER_GROUP = "normaliser"
# The ids of the topics that the group reads lie beside its position in this topic, which is never
# deleted.
NORMALISER_ANCHOR = "dead-letters"
_SYSLOG_ERROR = 3
_PROBE_SECONDS = 5.0


@contextmanager
def cassandra_session(settings: Settings, keyspace: str | None = None) -> Iterator[Session]:
    """A session on the keyspace ("" for none), closed at the end.

    Consistency is LOCAL_QUORUM, and SERIAL for lightweight transactions. Raises StackError when no
    node answers in time, on connecting or later to a request inside the block.
    """
    cluster = cassandra_cluster(settings)
    try:
        yield cluster.connect(settings.keyspace if keyspace is None else keyspace or None)
    except CASSANDRA_UNAVAILABLE as error:
        # The driver reports the nodes that it tried one by one on many lines.
        reason = error.args[0] if isinstance(error, NoHostAvailable) else error
        raise StackError(
            f"cassandra at {settings.cassandra}: {' '.join(str(reason).split())};"
            " `tally doctor` looks for the cause"
        ) from error
    finally:
        cluster.shutdown()


def cassandra_cluster(settings: Settings) -> Cluster:
    """A cluster object that the caller shuts down; never shared across a fork."""
    addresses = [address.rsplit(":", 1) for address in settings.cassandra.split(",")]
    in_datacenter = DCAwareRoundRobinPolicy(settings.cassandra_datacenter)
    profile = ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(in_datacenter),
        retry_policy=RetryPolicy(),
        # Writes and reads use a quorum: with ONE of three replicas a served count falls when
        # another replica answers.
        consistency_level=ConsistencyLevel.LOCAL_QUORUM,
        serial_consistency_level=ConsistencyLevel.SERIAL,
        request_timeout=REQUEST_TIMEOUT_SECONDS,
    )
    return Cluster(
        [(host, int(port)) for host, port in addresses],
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        protocol_version=5,
        # The driver's default waits 2 s for the schema, too short on a busy machine to connect.
        control_connection_timeout=REQUEST_TIMEOUT_SECONDS,
    )


def worker_settings(settings: Settings) -> Settings:
    """The settings without the driver's folders, equal for each job that a worker serves."""
    return settings.model_copy(update={"home": Path(), "checkpoints": None})


def worker_session(settings: Settings) -> Session:
    """The session of this Python worker, made on first use: a session does not survive a fork."""
    return _worker_session(worker_settings(settings))


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


# Overrides of kafka_consumer(): with these, ends include the records of a transaction that is under
# way. Its commit moves the positions that it carries before the last partition knows of it.
UNCOMMITTED = {"isolation.level": "read_uncommitted"}


def kafka_consumer(
    settings: Settings, group: str, overrides: Mapping[str, Any] | None = None
) -> Consumer:
    """A consumer of committed records only, from the earliest, that never commits by itself."""
    return Consumer(
        {
            "bootstrap.servers": settings.kafka,
            "group.id": group,
            # This library's default, unlike the Java client's: explicit, since all depends on it.
            "isolation.level": "read_committed",
            # A position is committed when the records are stored, never by a timer.
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **(overrides or {}),
        }
    )


def brokers_answer(settings: Settings) -> bool:
    """Whether the brokers answer a new client within seconds.

    An existing client shows nothing: one whose metadata has no broker at all, as while a single
    broker is fenced after a pause, never requests it again (seen; librdkafka's issue 5301).
    """
    try:
        return bool(kafka_admin(settings).list_topics(timeout=_PROBE_SECONDS).brokers)
    except KafkaException:
        return False


def kafka_admin(settings: Settings) -> AdminClient:
    """An admin client that logs errors only."""
    return AdminClient({"bootstrap.servers": settings.kafka, "log_level": _SYSLOG_ERROR})
