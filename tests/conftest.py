"""Real parts for the integration tests: one Cassandra for each run, one Kafka and one Spark for
each worker of it, names with a uuid for each test.

TALLY_TEST_STACK_HOME=<a TALLY_HOME> takes a stack that runs already and leaves it running.
"""

import gc
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import hypothesis
import pytest

from runtime.spark.configuration import SHORT_RUN_JAVA
from tally.config.settings import Settings

if TYPE_CHECKING:
    from cassandra.cluster import Session
    from pyspark.sql import SparkSession

    from ops.local.processes.service import Site

pytest_plugins = ("tests.supervised", "tests.tiers", "tests.turns", "tests.node")

# How long one example takes says something of the machine's other work, and nothing of the law.
hypothesis.settings.register_profile("tally", deadline=None, max_examples=50)
# `make test-laws`; a law that says itself how many histories it needs has as many in both.
hypothesis.settings.register_profile("deep", deadline=None, max_examples=500)
hypothesis.settings.load_profile("tally")


def pytest_addoption(parser: pytest.Parser) -> None:
    """--twin 5x30: how many twin stores over how many days go through the loop.

    --bodies 10000: how many bodies of each vendor's form laws/test_vendor_forms.py looks at.
    --alert-kills 20: how often evaluators are killed at each moment.
    --alert-stores 40: how many stores' year is told of live and simulated.
    --kills 20: how often dispatchers die at each moment of a delivery.
    --purchases 400: how many purchases chaos/test_stock_kills.py has moved.
    """
    parser.addoption("--twin", default="2x2", help="twin stores x days of e2e/test_twin.py")
    parser.addoption("--bodies", default="60", help="bodies a form of laws/test_vendor_forms.py")
    parser.addoption(
        "--alert-kills", default="1", help="kills at each moment of chaos/test_alert_kills.py"
    )
    parser.addoption("--alert-stores", default="6", help="stores of chaos/test_alerts_of_a_year.py")
    parser.addoption(
        "--kills", default="20", help="kills at each moment of chaos/test_killed_dispatchers.py"
    )
    parser.addoption("--purchases", default="10000", help="purchases of chaos/test_stock_kills.py")


def make_site(home: Path, **variables: str) -> "Site":
    """A stack at this home on free ports; `variables` are environment variables of its settings,
    e.g. TALLY_PARTITIONS."""
    from ops.local.processes.addresses import separate_environment, settings_with_addresses
    from ops.local.processes.service import Site

    environment = {
        "TALLY_SPARK_JAVA_OPTIONS": SHORT_RUN_JAVA,
        **separate_environment(home, os.environ),
        **variables,
    }
    return Site.from_settings(settings_with_addresses(environment), environment)


def node_of(site: "Site") -> dict[str, str]:
    """The variables by which another stack has the Cassandra node of this one."""
    return {
        "TALLY_CASSANDRA": site.settings.cassandra,
        "TALLY_CASSANDRA_STORAGE": site.settings.cassandra_storage,
    }


@pytest.fixture(scope="session")
def stack_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TALLY_HOME of the worker's stack."""
    from tests.node import GIVEN

    given = os.environ.get(GIVEN)
    return Path(given) if given else tmp_path_factory.mktemp("stack")


@pytest.fixture(scope="session")
def node_site(pytestconfig: pytest.Config) -> "Site":
    """The stack of the run's one Cassandra node."""
    from tests.node import home_of

    return make_site(home_of(pytestconfig))


@pytest.fixture(scope="session")
def site(stack_home: Path, node_site: "Site") -> Iterator["Site"]:
    """The worker's stack, with the run's node; nothing of it runs until a test asks for `kafka` or
    `cassandra`, nothing is left at the end."""
    from ops.local.services import catalogue
    from ops.local.stack import control
    from tests.node import GIVEN

    site = make_site(stack_home, **node_of(node_site))
    yield site
    # Producers and consumers of failed transactions lie in reference cycles; they would call for
    # their broker after its end.
    gc.collect()
    if GIVEN not in os.environ:
        control.down(site, catalogue.select_services(["kafka"]), print)


@pytest.fixture(scope="session")
def settings(site: "Site") -> Settings:
    """Settings of the shared stack; ask for `kafka` and `cassandra` too if they must run."""
    return site.settings


@pytest.fixture(scope="session")
def kafka(site: "Site") -> str:
    """Bootstrap address of a running broker with every topic of schemas/topics.yaml."""
    from ops.local.services import catalogue
    from ops.local.stack import control

    control.up(site, catalogue.select_services(["kafka"]), print)
    return site.settings.kafka


@pytest.fixture(scope="session")
def cassandra(node_site: "Site") -> str:
    """Address of the run's node, running, whose keyspace `tally` has every table."""
    from ops.local.services import catalogue
    from ops.local.stack import control

    control.up(node_site, catalogue.select_services(["cassandra"]), print)
    return node_site.settings.cassandra


@pytest.fixture
def topic(kafka: str, settings: Settings) -> Iterator[str]:
    """Name of a new, empty topic with the settings' partition count, gone after the test."""
    with made_topic(settings) as name:
        yield name


@pytest.fixture
def second_topic(kafka: str, settings: Settings) -> Iterator[str]:
    """A topic beside `topic`, as new and as empty."""
    with made_topic(settings) as name:
        yield name


@contextmanager
def made_topic(settings: Settings) -> Iterator[str]:
    """Name of a new, empty topic, which is gone after the block."""
    from confluent_kafka.admin import NewTopic

    from runtime.connect import kafka_admin

    name = f"test-{uuid4().hex}"
    admin = kafka_admin(settings)
    admin.create_topics([NewTopic(name, num_partitions=settings.partitions, replication_factor=1)])[
        name
    ].result(30)
    _wait_for_leaders(settings, name)
    yield name
    admin.delete_topics([name])[name].result(30)


def _wait_for_leaders(settings: Settings, topic: str) -> None:
    """A broker says that a topic is made a moment before it leads each of its partitions."""
    from confluent_kafka import KafkaException, TopicPartition
    from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

    from runtime.connect import kafka_consumer

    @retry(
        retry=retry_if_exception_type(KafkaException),
        stop=stop_after_delay(30),
        wait=wait_fixed(0.1),
        reraise=True,
    )
    def led() -> None:
        for number in consumer.list_topics(topic, timeout=10).topics[topic].partitions:
            consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)

    consumer = kafka_consumer(settings, "test-leaders")
    try:
        led()
    finally:
        consumer.close()


@pytest.fixture(scope="session")
def tables(cassandra: str, settings: Settings) -> Iterator["Session"]:
    """A session on the run's keyspace with every table of schemas/views."""
    with made_keyspace(settings) as session:
        yield session


@contextmanager
def made_keyspace(settings: Settings) -> Iterator["Session"]:
    """A session on a new keyspace with every table of schemas/views, which is gone after the
    block."""
    from ops import provision
    from runtime.connect import cassandra_session

    own = settings.model_copy(update={"keyspace": f"test_{uuid4().hex}"})
    provision.create_tables(own)
    with cassandra_session(own) as session:
        yield session
        session.execute(f"DROP KEYSPACE {own.keyspace}", timeout=60)


@pytest.fixture(scope="module")
def keyspace(tables: "Session") -> str:
    """Name of a keyspace with every table of schemas/views, each empty as the module begins: to
    make them anew takes five times as long."""
    empty_tables(tables)
    return str(tables.keyspace)


def empty_tables(session: "Session") -> None:
    """Truncate every table of schemas/views in the session's keyspace."""
    from schemas import loader

    for statement in loader.table_statements():
        session.execute(f"TRUNCATE {loader.table_name(statement)}", timeout=60)


@pytest.fixture
def own_settings(settings: Settings, keyspace: str, tmp_path: Path) -> Settings:
    """Settings of the shared stack with the module's own keyspace and the test's own home
    (master, checkpoints)."""
    return settings.model_copy(update={"keyspace": keyspace, "home": tmp_path})


@pytest.fixture(scope="session")
def spare_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Site"]:
    """The worker's second broker, for one module after the other: see `own_kafka`."""
    from ops.local.services import catalogue
    from ops.local.stack import control

    spare = make_site(tmp_path_factory.mktemp("spare"))
    control.up(spare, catalogue.select_services(["kafka"]), print)
    yield spare
    control.down(spare, catalogue.select_services(()), print)


@pytest.fixture(scope="module")
def own_kafka(spare_broker: "Site") -> str:
    """Address of a broker with every topic of schemas/topics.yaml, each empty from offset 0."""
    empty_topics(spare_broker.settings)
    return spare_broker.settings.kafka


def empty_topics(settings: Settings) -> None:
    """Delete every topic of a broker, and create those of schemas/topics.yaml.

    It costs a tenth of the start of a broker.
    """
    from ops import provision
    from runtime.connect import kafka_admin

    admin, deadline = kafka_admin(settings), time.monotonic() + 300

    def present() -> list[str]:
        names = admin.list_topics(timeout=30).topics
        return [name for name in names if not name.startswith("__")]

    left = present()
    for outcome in (admin.delete_topics(left) if left else {}).values():
        outcome.result(30)
    # A broker lists a topic for a moment after it has answered that it is deleted.
    while present():
        assert time.monotonic() < deadline, f"still listed: {', '.join(present())}"
        time.sleep(0.05)
    provision.create_topics(settings)
    for name in present():
        _wait_for_leaders(settings, name)


@pytest.fixture(scope="module")
def own_site(
    node_site: "Site", keyspace: str, own_kafka: str, tmp_path_factory: pytest.TempPathFactory
) -> "Site":
    """A stack of the module's own: its own home, empty topics, the module's keyspace.

    For tests that run whole processes, which know their topics by fixed names. A test that stops
    the broker needs `stoppable_broker`.
    """
    return make_site(
        tmp_path_factory.mktemp("own"),
        **node_of(node_site),
        TALLY_KEYSPACE=keyspace,
        TALLY_KAFKA=own_kafka,
    )


@pytest.fixture(scope="session")
def spark(settings: Settings) -> Iterator["SparkSession"]:
    """A Spark session on two cores with Delta and the Kafka source, as the jobs have it."""
    from runtime.spark.session import build_session

    quick = {"spark_master": "local[2]", "spark_memory": "1g", "spark_java_options": SHORT_RUN_JAVA}
    session = build_session(settings.model_copy(update=quick), "tests")
    yield session
    session.stop()
