"""Kafka's own console consumer, in Java: a subscriber with no line of ours in it."""

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from ops.local.artifacts import class_path
from ops.local.machine import check_java
from ops.local.services.nodes import CONFIG
from runtime.spark.configuration import FIRST_COMPILER
from tally.alerts.message import Alert, decode_alert
from tally.config.settings import Settings

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
JVM = ("-Xms32m", "-Xmx128m", "-XX:+UseSerialGC", *FIRST_COMPILER.split())
Isolation = Literal["read_committed", "read_uncommitted"]


class AlertConsole:
    """What a console consumer of the topic of alerts has printed so far."""

    def __init__(self, printed: Path) -> None:
        self._printed = printed

    def alerts(self) -> list[Alert]:
        """Each message, those of one partition in their order."""
        # The last line may be half of one.
        lines = self._printed.read_text("utf-8").split("\n")[:-1]
        return [decode_alert(line) for line in lines]

    def states(self) -> Counter[tuple[str, str]]:
        """How often each state of each alert was printed, by the alert's id and state."""
        return Counter((one.alert_id, one.state) for one in self.alerts())


@contextmanager
def subscribed(settings: Settings, printed: Path, isolation: Isolation) -> Iterator[AlertConsole]:
    """A console consumer of all alerts from the first on, which prints into the file until the
    block ends."""
    logging = f"-Dlog4j2.configurationFile={CONFIG / 'tools-log4j2.properties'}"
    jars = class_path(settings.cache, "kafka")
    command = [check_java(os.environ), *JVM, logging, "-cp", jars, CONSOLE]
    command += ["--bootstrap-server", settings.kafka, "--topic", "alerts", "--from-beginning"]
    command += ["--isolation-level", isolation]
    with printed.open("wb") as file, subprocess.Popen(command, stdout=file) as console:
        try:
            yield AlertConsole(printed)
            assert console.poll() is None, "the console consumer has ended"
        finally:
            console.kill()
