"""Creation of topics and tables from the files of schemas/; a second run changes nothing.

`tally up` does it for the local stack; on a server `python -m ops.provision` does it before the
first service starts.
"""

import sys
from collections.abc import Collection, Mapping

from cassandra import DriverException, InvalidRequest
from cassandra.cluster import Session
from cassandra.protocol import ErrorMessage
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from ops.migrations import find_pending, list_migrations, lock_schema, note_applied
from runtime.connect import cassandra_session, kafka_admin
from schemas import loader
from schemas.source import BadSource
from tally.config.settings import Settings
from tally.errors import RestartNeeded, StackError, TallyError

VERSION_TABLES = frozenset(("schema_migration", "schema_lock"))
HOUR_MILLISECONDS = 3_600_000
CHRONICLE = "chronicle"
# A subscriber of alerts may be offline this long; after that it is informed of a gap.
ALERTS_HOURS = 30 * 24
# Dead letters stay longer than any absence of the person who could fix their cause; their size is
# limited to what a disk can spare, for any number of letters.
LETTERS_HOURS = 90 * 24
LETTERS_BYTES = 2**30
# Restatements are announced once: who has not read them for so long reads the numbers again.
DURABLE_HOURS = 400 * 24
_MIN_SEGMENT = 60_000
# Above the largest body that the gateway takes: a record that is too large for Tally becomes a
# dead letter, not an error of the sender.
MAX_MESSAGE_BYTES = 6_291_456
# Above MAX_MESSAGE_BYTES, else a file would have no room for a batch.
_MIN_SEGMENT_BYTES = 8 * 2**20


def partition_count(kind: str, settings: Settings) -> int:
    """How many partitions a topic of this kind has."""
    # The first record of all applies, and records of two partitions have no order.
    return 1 if kind == CHRONICLE else settings.partitions


def topic_configuration(kind: str, settings: Settings) -> dict[str, str]:
    """The broker options of a topic of this kind, by name.

    A compacted topic keeps the last record of each key, a chronicle every record. Canonical topics
    keep some hours, the clock's topic one hour, durable topics and letters the time (and the size)
    of the constants above.
    """
    # Raw topics have no time limit: their reader deletes the records, never the clock alone.
    hours = {
        "canonical": settings.canonical_retention_hours,
        "alerts": ALERTS_HOURS,
        "letters": LETTERS_HOURS,
        "durable": DURABLE_HOURS,
        "clock": 1,
    }.get(kind)
    configuration = {
        "retention.ms": str(-1 if hours is None else hours * HOUR_MILLISECONDS),
        "retention.bytes": "-1",
        "max.message.bytes": str(MAX_MESSAGE_BYTES),
        # One replica may be down: else each restart of a broker would stop all producers.
        "min.insync.replicas": str(max(1, settings.replication - 1)),
    }
    # The broker sets the arrival time: a till's clock must not decide what is in the future.
    if kind not in ("durable", "letters"):
        configuration["message.timestamp.type"] = "LogAppendTime"
    if kind == "letters":
        configuration |= _letters_retention(settings)
    if kind == "raw":
        # Kafka deletes only whole segments, and they hold personal data.
        segment = min(HOUR_MILLISECONDS, settings.raw_retention_seconds * 1000)
        configuration["segment.ms"] = str(max(_MIN_SEGMENT, segment))
    if kind == "compacted":
        # Kafka never compacts the active segment.
        configuration |= {"cleanup.policy": "compact", "segment.ms": str(HOUR_MILLISECONDS)}
    return configuration


def _letters_retention(settings: Settings) -> dict[str, str]:
    """The size limits of the letters' partitions: together at most LETTERS_BYTES.

    Kafka deletes only whole segments, and never the active one, so up to two segments exist beyond
    the retained bytes. With very many partitions the smallest segments alone exceed the limit.
    """
    share = LETTERS_BYTES // settings.partitions
    segment = max(_MIN_SEGMENT_BYTES, share // 16)
    kept = max(segment, share - 2 * segment)
    return {"segment.bytes": str(segment), "retention.bytes": str(kept)}


TIMEOUT_SECONDS = 30.0


def main() -> int:
    """Return 0 when every topic and table exists, else 1 with one line on stderr."""
    try:
        settings = Settings.load()
        create_topics(settings)
        create_tables(settings)
    except (TallyError, BadSource) as error:
        print(f"provision: {error}", file=sys.stderr)
        return 1
    return 0


def create_topics(settings: Settings, prefix: str = "") -> None:
    """Create the topics of schemas/topics.yaml (with a prefix: for tests). Raises StackError."""
    topics = loader.topics()
    kinds = {prefix + name: topics[name]["kind"] for name in topics}
    try:
        admin = kafka_admin(settings)
        present = admin.list_topics(timeout=TIMEOUT_SECONDS).topics
        kept = {name: kind for name, kind in kinds.items() if name in present}
        for name, kind in kept.items():
            _check_partitions(name, len(present[name].partitions), kind, settings)
        missing = {name: kind for name, kind in kinds.items() if name not in present}
        _create(admin, missing, settings)
        # Existing topics keep their records; only their configuration is updated.
        _configure(admin, kept, settings)
    except KafkaException as error:
        raise StackError(
            f"kafka at {settings.kafka}: {error.args[0].str()}; look into the broker's log"
        ) from error


def create_tables(settings: Settings) -> None:
    """Create the keyspace with all tables. Raises StackError, or RestartNeeded for a node."""
    try:
        with cassandra_session(settings, "") as session:
            prepare_keyspace(session, settings)
            with lock_schema(session):
                _create_missing(session, settings)
    except DriverException as error:
        raise StackError(
            f"cassandra at {settings.cassandra}: {error}; look into its log"
        ) from error


def prepare_keyspace(session: Session, settings: Settings) -> set[str]:
    """Create the keyspace with the tables of its versions; return the names of all other tables."""
    copies = f"'{settings.cassandra_datacenter}': {settings.replication}"
    session.execute(
        f"CREATE KEYSPACE IF NOT EXISTS {settings.keyspace} WITH replication ="
        f" {{'class': 'NetworkTopologyStrategy', {copies}}}"
    )
    session.set_keyspace(settings.keyspace)
    present = {*_read_columns(session, settings.keyspace)}
    for statement in loader.table_statements():
        if loader.table_name(statement) in VERSION_TABLES.difference(present):
            session.execute(statement)
    return present - VERSION_TABLES


def _create_missing(session: Session, settings: Settings) -> None:
    # The schema is read first: every schema statement, even one without effect, needs the agreement
    # of all nodes.
    present = _read_columns(session, settings.keyspace)
    is_new = not present.keys() - VERSION_TABLES
    if not is_new and find_pending(session, present):
        raise StackError(
            "the tables are of an earlier release; stop the services, then `tally upgrade --check`"
        )
    for statement in loader.table_statements():
        name = loader.table_name(statement)
        try:
            if name not in present:
                session.execute(statement)
                continue
            _check_known(session, name, present[name])
            for column, kind in loader.table_columns(statement).items():
                if column not in present[name]:
                    session.execute(f'ALTER TABLE {name} ADD "{column}" {kind}')
        except (DriverException, ErrorMessage) as error:
            raise StackError(f"table {name}: {error}; correct its file in schemas/views") from error
    if is_new:
        for migration in list_migrations():
            note_applied(session, migration)


def _read_columns(session: Session, keyspace: str) -> dict[str, set[str]]:
    rows = session.execute(
        "SELECT table_name, column_name FROM system_schema.columns WHERE keyspace_name = %s",
        [keyspace],
    )
    present: dict[str, set[str]] = {}
    for row in rows:
        present.setdefault(row.table_name, set()).add(row.column_name)
    return present


def _check_known(session: Session, table: str, columns: Collection[str]) -> None:
    """Raise RestartNeeded if the node lists the table, or a column of it, and does not know it.

    A node gets into this state when it was killed while it created them: it reads its schema before
    its commit log, and the change is only in the log.
    """
    # The table is not created again here: other nodes may know it, and hold rows of it.
    names = ", ".join(f'"{column}"' for column in sorted(columns))
    try:
        session.prepare(f"SELECT {names} FROM {table} LIMIT 1")
    except InvalidRequest as error:
        raise RestartNeeded(
            f"cassandra lists table {table} and does not know it as it is listed ({error});"
            " it was killed while it made it: restart the node, then make the tables again"
        ) from error


def _check_partitions(topic: str, partitions: int, kind: str, settings: Settings) -> None:
    expected = partition_count(kind, settings)
    if partitions != expected and kind == CHRONICLE:
        raise StackError(
            f"topic {topic} has {partitions} partitions, and one is wanted: its records need one"
            " order; begin again in another TALLY_HOME"
        )
    if partitions != expected:
        raise StackError(
            f"topic {topic} has {partitions} partitions, TALLY_PARTITIONS is {settings.partitions}:"
            " a store's records would move to another partition; set"
            f" TALLY_PARTITIONS={partitions}, or begin again in another TALLY_HOME"
        )


def _create(admin: AdminClient, kinds: Mapping[str, str], settings: Settings) -> None:
    new = [
        NewTopic(
            name,
            num_partitions=partition_count(kind, settings),
            replication_factor=settings.replication,
            config=topic_configuration(kind, settings),
        )
        for name, kind in kinds.items()
    ]
    for outcome in (admin.create_topics(new) if new else {}).values():
        try:
            outcome.result(TIMEOUT_SECONDS)
        except KafkaException as error:
            # Another process created the topic meanwhile, so the wanted topic exists.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def _configure(admin: AdminClient, kinds: Mapping[str, str], settings: Settings) -> None:
    resources = []
    for topic, kind in kinds.items():
        # Incremental changes keep all other options that were set on a topic.
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in topic_configuration(kind, settings).items()
        ]
        resources.append(ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries))
    for outcome in (admin.incremental_alter_configs(resources) if resources else {}).values():
        outcome.result(TIMEOUT_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
