"""Kafka's own command-line tools, for queries that the Python clients do not support."""

import subprocess
from collections.abc import Mapping

from ops.local.machine.artifacts import class_path
from ops.local.machine.machine import check_java
from ops.local.services.kafka import CONFIG
from tally.config.settings import Settings
from tally.errors import StackError

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
TIMEOUT_SECONDS = 60.0
BROKER_ID = "1"  # node.id of config/kafka.properties
Rows = list[dict[str, str]]
Variables = Mapping[str, str]


def hanging_transactions(settings: Settings, environment: Variables) -> Rows:
    """Transactions that no coordinator will end, by column name.

    Each blocks `read_committed` readers for ever.
    """
    return _table(settings, environment, "find-hanging", "--broker-id", BROKER_ID)


def open_transactions(settings: Settings, environment: Variables) -> Rows:
    """Transactions that are neither committed nor aborted yet, by column name.

    The columns are TransactionalId, TransactionState, ….
    """
    rows = _table(settings, environment, "list")
    return [
        row
        for row in rows
        if row["TransactionState"] not in ("Empty", "CompleteCommit", "CompleteAbort", "Dead")
    ]


def _table(settings: Settings, environment: Variables, *arguments: str) -> Rows:
    java, jars = check_java(environment), class_path(settings.cache, "kafka")
    logging = f"-Dlog4j2.configurationFile={CONFIG / 'tools-log4j2.properties'}"
    command = [java, "-Xmx128m", logging, "-cp", jars, TRANSACTIONS]
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
