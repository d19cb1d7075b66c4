"""Topics and tables as schemas/ has them."""

from collections.abc import Iterator

import pytest
from cassandra.cluster import Session
from confluent_kafka.admin import ConfigResource, ResourceType
from tenacity import retry, retry_if_result, stop_after_delay, wait_fixed

from ops import provision
from ops.provision import partition_count
from runtime.connect import cassandra_session, kafka_admin
from schemas import loader
from tally.config.settings import Settings
from tally.errors import RestartNeeded
from tests.conftest import made_keyspace


@pytest.fixture(scope="module")
def keyspace(cassandra: str, settings: Settings) -> Iterator[str]:
    """One of this module's own: it loses a column."""
    with made_keyspace(settings) as session:
        yield str(session.keyspace)


def configuration(settings: Settings, topic: str) -> dict[str, str]:
    admin, resource = kafka_admin(settings), ConfigResource(ResourceType.TOPIC, topic)
    entries = admin.describe_configs([resource])[resource].result(30)
    return {name: entry.value for name, entry in entries.items()}


def test_every_topic_has_the_settings_partitions(kafka: str, settings: Settings) -> None:
    found = kafka_admin(settings).list_topics(timeout=30).topics

    assert {name: len(found[name].partitions) for name in loader.topics()} == {
        name: partition_count(told["kind"], settings) for name, told in loader.topics().items()
    }


def test_topic_of_rules_has_one_partition_that_is_kept_whole_by_the_brokers_time(
    kafka: str, settings: Settings
) -> None:
    rules = configuration(settings, "alert-rules")

    assert (
        len(kafka_admin(settings).list_topics("alert-rules").topics["alert-rules"].partitions) == 1
    )
    assert (rules["cleanup.policy"], rules["retention.ms"], rules["retention.bytes"]) == (
        "delete",
        "-1",
        "-1",
    )
    assert rules["message.timestamp.type"] == "LogAppendTime"


def test_raw_topic_takes_the_brokers_time_and_is_never_shortened_by_the_brokers(
    kafka: str, settings: Settings
) -> None:
    raw = configuration(settings, "posTransactionTopic")

    assert (raw["message.timestamp.type"], raw["retention.ms"], raw["retention.bytes"]) == (
        "LogAppendTime",
        "-1",
        "-1",
    )
    assert raw["segment.ms"] == "3600000"


def test_canonical_topic_keeps_a_week_letters_a_quarter_and_a_durable_one_400_days(
    kafka: str, settings: Settings
) -> None:
    topics = ("sales", "dead-letters", "restatements")
    kept = [configuration(settings, topic)["retention.ms"] for topic in topics]

    assert kept == ["604800000", "7776000000", "34560000000"]


def test_changed_retention_reaches_topics_that_exist(kafka: str, settings: Settings) -> None:
    # A broker tells of a change a moment after it has taken it.
    @retry(
        retry=retry_if_result(lambda same: not same),
        stop=stop_after_delay(600),
        wait=wait_fixed(0.1),
    )
    def has(retention: str, segment: str) -> bool:
        found = (
            configuration(settings, "sales")["retention.ms"],
            configuration(settings, "raw-traffic")["segment.ms"],
        )
        return found == (retention, segment)

    provision.create_topics(
        settings.model_copy(update={"canonical_retention_hours": 48, "raw_retention_seconds": 600})
    )
    changed = has("172800000", "600000")
    provision.create_topics(settings)

    assert (changed, has("604800000", "3600000")) == (True, True)


def test_keyspace_has_every_table_of_the_schemas(settings: Settings, keyspace: str) -> None:
    with cassandra_session(settings, keyspace) as session:
        rows = session.execute(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s", [keyspace]
        )
        found = {row.table_name for row in rows}

    statements = loader.table_statements()
    assert (
        len(found) == len(statements)
        and {"sales_15min", "batch_sales_15min", "batch_pointer"} <= found
    )


def test_second_creation_changes_nothing(settings: Settings, keyspace: str) -> None:
    own = settings.model_copy(update={"keyspace": keyspace})
    with cassandra_session(settings, keyspace) as session:
        session.execute("INSERT INTO store_activity (family, store_id) VALUES ('sales', '1')")

    provision.create_tables(own)

    with cassandra_session(settings, keyspace) as session:
        assert session.execute("SELECT store_id FROM store_activity").one().store_id == "1"


def test_column_that_a_table_of_an_earlier_version_lacks_is_added(
    settings: Settings, keyspace: str
) -> None:
    with cassandra_session(settings, keyspace) as session:
        session.execute("ALTER TABLE batch_pointer DROP covered_from")
        session.execute(
            "INSERT INTO batch_pointer (family, day, generation) VALUES ('sales', '2017-03-06', 7)"
        )

    provision.create_tables(settings.model_copy(update={"keyspace": keyspace}))

    with cassandra_session(settings, keyspace) as session:
        row = session.execute(
            "SELECT generation, covered_from FROM batch_pointer WHERE family = 'sales' AND day ="
            " '2017-03-06'"
        ).one()
        assert (row.generation, row.covered_from) == (7, None)


@pytest.mark.parametrize(
    ("table", "column"), [("till_finding", "family"), ("store_activity", "never_made")]
)
def test_node_that_lists_what_it_does_not_know_is_to_be_restarted(
    settings: Settings,
    keyspace: str,
    table: str,
    column: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What it lists after a kill, its schema of before and the change that its log alone had kept.
    own, listed = settings.model_copy(update={"keyspace": keyspace}), provision._read_columns
    if table == "till_finding":
        with cassandra_session(own) as session:
            session.execute(f"DROP TABLE {table}")

    def with_one_more(session: Session, keyspace: str) -> dict[str, set[str]]:
        found = listed(session, keyspace)
        found.setdefault(table, set()).add(column)
        return found

    with monkeypatch.context() as lists:
        lists.setattr(provision, "_read_columns", with_one_more)
        with pytest.raises(RestartNeeded, match=f"lists table {table} and does not know it"):
            provision.create_tables(own)
    provision.create_tables(own)


def test_table_of_somebody_else_is_nobodys_concern(settings: Settings, keyspace: str) -> None:
    own = settings.model_copy(update={"keyspace": keyspace})
    with cassandra_session(own) as session:
        # Without quotes its name is that of no table.
        session.execute('CREATE TABLE "Others" (a int PRIMARY KEY)')

    provision.create_tables(own)

    with cassandra_session(own) as session:
        session.execute('DROP TABLE "Others"')
