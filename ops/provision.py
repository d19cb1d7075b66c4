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

from ops.rekeying import read_primary_keys, rekey
from ops.topic_configuration import CHRONICLE, partition_count, topic_configuration
from runtime.connect import cassandra_session, kafka_admin
from schemas import loader
from schemas.source import BadSource
from tally.config.settings import Settings
from tally.errors import RestartNeeded, StackError, TallyError

TIMEOUT_SECONDS = 30.0


def main() -> int:
    """Return 0 when every topic, the keyspace and every table exist, else 1.

    The exit code 1 comes with one line on stderr.
    """
    try:
        settings = Settings.load()
        create_topics(settings)
        create_tables(settings)
    except (TallyError, BadSource) as error:
        print(f"provision: {error}", file=sys.stderr)
        return 1
    return 0


def create_topics(settings: Settings, prefix: str = "") -> None:
    """Create the topics of schemas/topics.yaml with the settings' partitions, retention and copies.

    `prefix` gives a separate set of topics (for tests). Raises StackError if a topic exists with
    another partition count.
    """
    try:
        _create_or_update_topics(kafka_admin(settings), settings, prefix)
    except KafkaException as error:
        raise StackError(
            f"kafka at {settings.kafka}: {error.args[0].str()}; look into the broker's log"
        ) from error


def _create_or_update_topics(admin: AdminClient, settings: Settings, prefix: str) -> None:
    topics = loader.topics()
    kinds = {prefix + name: topics[name]["kind"] for name in topics}
    present = admin.list_topics(timeout=TIMEOUT_SECONDS).topics
    for name in kinds.keys() & present.keys():
        _check_partitions(name, len(present[name].partitions), kinds[name], settings)
    # Existing topics keep their records; only their configuration is updated.
    missing = {name: kinds[name] for name in kinds.keys() - present.keys()}
    _create(admin, missing, settings)
    _configure(
        admin,
        {
            name: topic_configuration(kind, settings)
            for name, kind in kinds.items()
            if name in present
        },
    )


def create_tables(settings: Settings) -> None:
    """Create the settings' keyspace with every table of schemas/views.

    Raises StackError when Cassandra does not answer, or refuses a table; RestartNeeded when a node
    does not know a table that it lists.
    """
    copies = (
        f"{{'class': 'NetworkTopologyStrategy', '{settings.cassandra_datacenter}':"
        f" {settings.replication}}}"
    )
    try:
        with cassandra_session(settings, "") as session:
            session.execute(
                f"CREATE KEYSPACE IF NOT EXISTS {settings.keyspace} WITH replication = {copies}"
            )
            session.set_keyspace(settings.keyspace)
            _create_missing(session, settings)
    except DriverException as error:
        raise StackError(
            f"cassandra at {settings.cassandra}: {error}; look into its log"
        ) from error


def _create_missing(session: Session, settings: Settings) -> None:
    """Create missing tables, and add keys and columns that an earlier version lacks."""
    # The schema is read first: every schema statement, even one without effect, needs the agreement
    # of all nodes.
    present = _read_columns(session, settings.keyspace)
    keys = read_primary_keys(session, settings.keyspace)
    for statement in loader.table_statements():
        name = loader.table_name(statement)
        try:
            if rekey(session, statement, keys):
                continue
            if name not in present:
                session.execute(statement)
                continue
            _check_known(session, name, present[name])
            for column, kind in loader.table_columns(statement).items():
                if column not in present[name]:
                    session.execute(f'ALTER TABLE {name} ADD "{column}" {kind}')
        except (DriverException, ErrorMessage) as error:
            raise StackError(f"table {name}: {error}; correct its file in schemas/views") from error


def _read_columns(session: Session, keyspace: str) -> dict[str, set[str]]:
    """The columns of each table of the keyspace, by table name."""
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


def _configure(admin: AdminClient, topics: Mapping[str, dict[str, str]]) -> None:
    """Apply a changed retention setting to existing topics."""
    resources = [
        ConfigResource(ResourceType.TOPIC, name, incremental_configs=_entries(config))
        for name, config in topics.items()
    ]
    # Incremental changes keep all other options that were set on a topic.
    for outcome in (admin.incremental_alter_configs(resources) if resources else {}).values():
        outcome.result(TIMEOUT_SECONDS)


def _entries(configuration: Mapping[str, str]) -> list[ConfigEntry]:
    return [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configuration.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
