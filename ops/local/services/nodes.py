"""A Kafka broker (KRaft) and a Cassandra node as local JVMs, and Kafka's transaction tool."""

import base64
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from ops import provision
from ops.local.artifacts import class_path
from ops.local.machine import check_java, java_version
from ops.local.processes import probes
from ops.local.processes.service import Launch, Service, Site
from runtime.spark.configuration import FIRST_COMPILER, archive_options
from tally.config.settings import Settings
from tally.errors import StackError

CONFIG = Path(__file__).with_name("config")
# The broker takes 350 MB with this heap and collector, the node 870 MB (measured).
KAFKA_JVM = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", *FIRST_COMPILER.split())
CASSANDRA_JVM = ("-Xms1g", "-Xmx1g", *FIRST_COMPILER.split())
QUICK_START = (
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",  # the node has no peers
    "-Dcassandra.ring_delay_ms=0",
    "-Dcassandra.superuser_setup_delay_ms=0",
    # The precision of the clock for time-outs, which are seconds: the default of 2 ms costs
    # 1.6 % of a core.
    "-Dcassandra.approximate_time_precision_ms=50",
)
# Since Java 18 a security manager must be allowed explicitly, and Cassandra 5 installs one.
SECURITY_MANAGER_SINCE = 18
TOOLS_LOGGING = f"-Dlog4j2.configurationFile={CONFIG / 'tools-log4j2.properties'}"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
TIMEOUT_SECONDS = 60.0
BROKER_ID = "1"  # node.id of config/kafka.properties
ToolRows = list[dict[str, str]]
Variables = Mapping[str, str]


def launch_kafka(site: Site) -> Launch:
    """The broker's command; the data folder is formatted before the first start."""
    java, jars = check_java(site.environment), class_path(site.settings.cache, "kafka")
    values = {
        "broker": site.settings.kafka,
        "controller": site.settings.kafka_controller,
        "partitions": site.settings.partitions,
        "data": site.data("kafka"),
    }
    config = site.write_config(CONFIG / "kafka.properties", values)
    jvm = (java, *KAFKA_JVM, *archive_options(site.settings.cache, "kafka"))
    if not (site.data("kafka") / "meta.properties").exists():
        _format(jvm, jars, config)
    logging = f"-Dlog4j2.configurationFile={CONFIG / 'kafka-log4j2.properties'}"
    crash = f"-XX:ErrorFile={site.home / 'logs' / 'kafka-crash.log'}"
    return Launch((*jvm, crash, logging, "-cp", jars, "kafka.Kafka", str(config)))


def launch_cassandra(site: Site) -> Launch:
    """The node's command, with its configuration written for this site."""
    java, jars = check_java(site.environment), class_path(site.settings.cache, "cassandra")
    host, native_port = site.settings.cassandra.rsplit(":", 1)
    values = {
        "data": site.data("cassandra"),
        "host": host,
        "native_port": native_port,
        "storage_port": site.settings.cassandra_storage.rsplit(":", 1)[1],
    }
    config = site.write_config(CONFIG / "cassandra.yaml", values)
    lines = (CONFIG / "cassandra-jvm.options").read_text("utf-8").splitlines()
    configured = (part for line in lines if not line.startswith("#") for part in line.split())
    needs_leave = java_version(java) >= SECURITY_MANAGER_SINCE
    allow = ("-Djava.security.manager=allow",) if needs_leave else ()
    properties = (
        f"-Dcassandra.config={config.as_uri()}",
        f"-Dcassandra.storagedir={site.data('cassandra')}",
        f"-Dlogback.configurationFile={CONFIG / 'cassandra-logback.xml'}",
        f"-XX:ErrorFile={site.home / 'logs' / 'cassandra-crash.log'}",
        f"-XX:HeapDumpPath={site.home / 'logs'}",
    )
    flags = [*archive_options(site.settings.cache, "cassandra"), *configured]
    options = (*CASSANDRA_JVM, *flags, *allow, *QUICK_START, *properties)
    main = ("-cp", jars, "org.apache.cassandra.service.CassandraDaemon")
    # Fewer arenas: otherwise each native thread would hold its own part of the memory.
    return Launch((java, *options, *main), {"MALLOC_ARENA_MAX": "2"})


def hanging_transactions(settings: Settings, environment: Variables) -> ToolRows:
    """Transactions without an end, by column name; each blocks `read_committed` readers."""
    return _list_transactions(settings, environment, "find-hanging", "--broker-id", BROKER_ID)


def open_transactions(settings: Settings, environment: Variables) -> ToolRows:
    """Transactions that are neither committed nor aborted yet, by column name."""
    ended = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")
    rows = _list_transactions(settings, environment, "list")
    return [row for row in rows if row["TransactionState"] not in ended]


def _format(jvm: Sequence[str], jars: str, config: Path) -> None:
    # A cluster id is 16 random bytes in URL-safe base 64, and must not start like an option.
    cluster = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
    command = [*jvm, TOOLS_LOGGING, "-cp", jars, "kafka.tools.StorageTool", "format"]
    command += ["--ignore-formatted", "-t", cluster, "-c", str(config)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise StackError(
            f"kafka: cannot format its data folder: {_last_line(answer)}; look into {config}"
        )


def _list_transactions(settings: Settings, environment: Variables, *arguments: str) -> ToolRows:
    java, jars = check_java(environment), class_path(settings.cache, "kafka")
    command = [java, "-Xmx128m", TOOLS_LOGGING, "-cp", jars, TRANSACTIONS]
    command += ["--bootstrap-server", settings.kafka, *arguments]
    answer = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    if answer.returncode:
        what = f"{TRANSACTIONS} {arguments[0]}: {_last_line(answer)}"
        raise StackError(f"kafka: {what}; look into the broker's log")
    # The tool has no machine-readable format; its remarks beside the table have no tab.
    lines = (line.split("\t") for line in answer.stdout.splitlines() if "\t" in line)
    names, *rows = ([cell.strip() for cell in line] for line in lines)
    return [dict(zip(names, row, strict=False)) for row in rows]


def _last_line(answer: "subprocess.CompletedProcess[str]") -> str:
    lines = (answer.stderr or answer.stdout).strip().splitlines()
    return lines[-1] if lines else "no message"


KAFKA = Service(
    name="kafka",
    launch=launch_kafka,
    is_ready=lambda site: probes.kafka_answers(site.settings),
    settings_names=("kafka", "kafka_controller"),
    answers=lambda site: probes.responds(site.settings.kafka, probes.KAFKA_HELLO),
    once_ready=lambda site: provision.create_topics(site.settings),
    start_seconds=90,
    stop_seconds=30,
)
CASSANDRA = Service(
    name="cassandra",
    launch=launch_cassandra,
    is_ready=lambda site: probes.cassandra_answers(site.settings),
    settings_names=("cassandra", "cassandra_storage"),
    answers=lambda site: probes.responds(site.settings.cassandra, probes.CASSANDRA_HELLO),
    once_ready=lambda site: provision.create_tables(site.settings),
    start_seconds=120,
    stop_seconds=30,
)
