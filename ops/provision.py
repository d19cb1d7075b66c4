"""Topics and tables, made from the files of schemas/; run again it changes nothing.

`tally up` does it for the local stack; on a server `python -m ops.provision` does, before the first
service starts.
"""

import sys
from collections.abc import Collection, Iterator, Mapping
from functools import cache, partial

from cassandra import DriverException, InvalidRequest
from cassandra.cluster import Session
from cassandra.protocol import ErrorMessage
from cassandra.query import BoundStatement
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from ops.rekeying import keys_of, rekey
from ops.topic_configuration import CHRONICLE, partition_count, topic_configuration
from runtime.connect import cassandra_session, kafka_admin
from runtime.day_spans import DaySpan, axis_table
from runtime.writes import write_groups
from schemas import loader
from schemas.source import BadSource
from tally.errors import RestartNeeded, StackError, TallyError
from tally.families import CURRENCY
from tally.settings import Settings

TIMEOUT_SECONDS = 30.0
# Of the version before `store_axis`; it is read here alone, and may be dropped.
_CURRENCIES = "store_currency"


def main() -> int:
    """Exit code: 0 when every topic, the keyspace and every table are there, else 1.

    With 1 there is one line on stderr.
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
    """Every topic of schemas/topics.yaml with the settings' partitions, retention and copies.

    `prefix` names a set of topics of its own (tests). Raises StackError if a topic exists with
    another partition count.
    """
    try:
        _bring_topics(kafka_admin(settings), settings, prefix)
    except KafkaException as error:
        raise StackError(
            f"kafka at {settings.kafka}: {error.args[0].str()}; look into the broker's log"
        ) from error


def _bring_topics(admin: AdminClient, settings: Settings, prefix: str) -> None:
    topics = loader.topics()
    wanted = {prefix + name: topics[name]["kind"] for name in topics}
    present = admin.list_topics(timeout=TIMEOUT_SECONDS).topics
    for name in wanted.keys() & present.keys():
        _check_partitions(name, len(present[name].partitions), wanted[name], settings)
    # What is there keeps its records; only its configuration follows.
    missing = {name: wanted[name] for name in wanted.keys() - present.keys()}
    _create(admin, missing, settings)
    _configure(
        admin,
        {
            name: topic_configuration(kind, settings)
            for name, kind in wanted.items()
            if name in present
        },
    )


def create_tables(settings: Settings) -> None:
    """The settings' keyspace with every table of schemas/views.

    Raises StackError when Cassandra does not answer, or refuses a table; RestartNeeded when a node
    does not know a table that it lists; Unacknowledged when it does not take what an earlier
    version's table holds.
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
            if _CURRENCIES in _create_missing(session, settings):
                # Registers: brought over again, they change nothing that is wider.
                write_groups(session, ([write] for write in _currencies(session)))
    except DriverException as error:
        raise StackError(
            f"cassandra at {settings.cassandra}: {error}; look into its log"
        ) from error


def _create_missing(session: Session, settings: Settings) -> Collection[str]:
    """Tables that are not there, and keys and columns that one of an earlier version lacks.

    Returns the names of the tables that were there.
    """
    # Asked first: each change of the schema, also one that changes nothing, is agreed upon by all
    # nodes.
    present = _listed(session, settings.keyspace)
    keys = keys_of(session, settings.keyspace)
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
    return present


def _listed(session: Session, keyspace: str) -> dict[str, set[str]]:
    """The columns of each table of the keyspace, by the table's name."""
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

    So is one that was killed while it made them: it reads its schema before its commit log, and
    the change is in the log alone.
    """
    # Not made again here: other nodes may know the table, and hold rows of it.
    names = ", ".join(f'"{column}"' for column in sorted(columns))
    try:
        session.prepare(f"SELECT {names} FROM {table} LIMIT 1")
    except InvalidRequest as error:
        raise RestartNeeded(
            f"cassandra lists table {table} and does not know it as it is listed ({error});"
            " it was killed while it made it: restart the node, then make the tables again"
        ) from error


def _currencies(session: Session) -> Iterator[BoundStatement]:
    """Writes of the days of each store's currencies, out of an earlier version's table.

    Without them each page of a question over euros and dollars would be answered by itself, in its
    own money.
    """
    table = cache(partial(axis_table, session, axis=CURRENCY))
    for row in session.execute(f"SELECT * FROM {_CURRENCIES}"):
        # One of the two writes of a span may never have come.
        if row.first_day and row.last_day:
            days = DaySpan(row.first_day.days_from_epoch, row.last_day.days_from_epoch)
            yield from table(row.family).writes((row.store_id, row.currency), days)


def _check_partitions(topic: str, partitions: int, kind: str, settings: Settings) -> None:
    wanted = partition_count(kind, settings)
    if partitions != wanted and kind == CHRONICLE:
        raise StackError(
            f"topic {topic} has {partitions} partitions, and one is wanted: its records need one"
            " order; begin anew in another TALLY_HOME"
        )
    if partitions != wanted:
        raise StackError(
            f"topic {topic} has {partitions} partitions, TALLY_PARTITIONS is {settings.partitions}:"
            " a store's records would move to another partition; set"
            f" TALLY_PARTITIONS={partitions}, or begin anew in another TALLY_HOME"
        )


def _create(
    admin: AdminClient,
    kinds: Mapping[str, str],
    settings: Settings,
) -> None:
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
            # Somebody else made it meanwhile: what was wanted is there.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def _configure(admin: AdminClient, topics: Mapping[str, dict[str, str]]) -> None:
    """A changed retention setting reaches topics that exist."""
    resources = [
        ConfigResource(ResourceType.TOPIC, name, incremental_configs=_entries(config))
        for name, config in topics.items()
    ]
    # What else somebody has set on a topic stays as it is.
    for outcome in (admin.incremental_alter_configs(resources) if resources else {}).values():
        outcome.result(TIMEOUT_SECONDS)


def _entries(configuration: Mapping[str, str]) -> list[ConfigEntry]:
    return [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configuration.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
