"""The Kafka broker (KRaft, one node) as a local process, and its tool for transactions.

Kafka's own tool answers queries that the Python clients do not support.
"""

import base64
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from ops import provision
from ops.local.machine.artifacts import class_path
from ops.local.machine.machine import check_java
from ops.local.processes import probes
from ops.local.processes.service import Launch, Service, Site
from runtime.spark.configuration import FIRST_COMPILER
from runtime.spark.jvm_classes import archive_options
from tally.config.settings import Settings
from tally.errors import StackError

CONFIG = Path(__file__).with_name("config")
# The broker takes 350 MB with this heap and collector (measured).
JVM = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", *FIRST_COMPILER.split())
TOOLS_LOGGING = f"-Dlog4j2.configurationFile={CONFIG / 'tools-log4j2.properties'}"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
TIMEOUT_SECONDS = 60.0
BROKER_ID = "1"  # node.id of config/kafka.properties
ToolRows = list[dict[str, str]]
Variables = Mapping[str, str]


def launch(site: Site) -> Launch:
    """The broker's command; the data folder is formatted before the first start."""
    java, jars = check_java(site.environment), class_path(site.settings.cache, "kafka")
    config, archive = _write_config(site), archive_options(site.settings.cache, "kafka")
    if not (site.data("kafka") / "meta.properties").exists():
        _format((java, *JVM, *archive), jars, config)
    logging = f"-Dlog4j2.configurationFile={CONFIG / 'kafka-log4j2.properties'}"
    crash = f"-XX:ErrorFile={site.home / 'logs' / 'kafka-crash.log'}"
    options = (*JVM, *archive, crash, logging)
    return Launch((java, *options, "-cp", jars, "kafka.Kafka", str(config)))


def _write_config(site: Site) -> Path:
    values = {
        "broker": site.settings.kafka,
        "controller": site.settings.kafka_controller,
        "partitions": site.settings.partitions,
        "data": site.data("kafka"),
    }
    return site.write_config(CONFIG / "kafka.properties", values)


def _format(java: Sequence[str], jars: str, config: Path) -> None:
    # A cluster id is 16 random bytes in URL-safe base 64, and must not start like an option.
    cluster = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
    command = [*java, TOOLS_LOGGING, "-cp", jars, "kafka.tools.StorageTool", "format"]
    command += ["--ignore-formatted", "-t", cluster, "-c", str(config)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        lines = (answer.stderr or answer.stdout).strip().splitlines()
        raise StackError(
            f"kafka: cannot format its data folder: {lines[-1] if lines else 'no message'};"
            f" look into {config}"
        )


def hanging_transactions(settings: Settings, environment: Variables) -> ToolRows:
    """Transactions that no coordinator will end, by column name.

    Each blocks `read_committed` readers for ever.
    """
    return _table(settings, environment, "find-hanging", "--broker-id", BROKER_ID)


def open_transactions(settings: Settings, environment: Variables) -> ToolRows:
    """Transactions that are neither committed nor aborted yet, by column name.

    The columns are TransactionalId, TransactionState, ….
    """
    rows = _table(settings, environment, "list")
    return [
        row
        for row in rows
        if row["TransactionState"] not in ("Empty", "CompleteCommit", "CompleteAbort", "Dead")
    ]


def _table(settings: Settings, environment: Variables, *arguments: str) -> ToolRows:
    java, jars = check_java(environment), class_path(settings.cache, "kafka")
    command = [java, "-Xmx128m", TOOLS_LOGGING, "-cp", jars, TRANSACTIONS]
    command += ["--bootstrap-server", settings.kafka, *arguments]
    answer = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    if answer.returncode:
        reason = (answer.stderr or answer.stdout).strip().splitlines() or ["no message"]
        raise StackError(
            f"kafka: {TRANSACTIONS} {arguments[0]}: {reason[-1]}; look into the broker's log"
        )
    lines = answer.stdout.splitlines()
    # The tool has no machine-readable format; its remarks beside the table have no tab.
    header, *rows = [line.split("\t") for line in lines if "\t" in line]
    names = [name.strip() for name in header]
    cells = ([cell.strip() for cell in row] for row in rows)
    return [dict(zip(names, row, strict=False)) for row in cells]


KAFKA = Service(
    name="kafka",
    launch=launch,
    is_ready=lambda site: probes.kafka_answers(site.settings),
    settings_names=("kafka", "kafka_controller"),
    answers=lambda site: probes.responds(site.settings.kafka, probes.KAFKA_HELLO),
    once_ready=lambda site: provision.create_topics(site.settings),
    start_seconds=90,
    stop_seconds=30,
)
