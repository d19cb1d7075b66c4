"""The Kafka broker (KRaft, one node) as a local process."""

import base64
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from ops import provision
from ops.local.machine.artifacts import class_path
from ops.local.machine.machine import check_java
from ops.local.processes import probes
from ops.local.processes.service import Launch, Service, Site
from runtime.spark.class_archive import archive_options
from runtime.spark.configuration import FIRST_COMPILER
from tally.errors import StackError

CONFIG = Path(__file__).with_name("config")
# The broker takes 350 MB with this heap and collector (measured).
JVM = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", *FIRST_COMPILER.split())


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
    settings = site.settings
    values = {
        "broker": settings.kafka,
        "controller": settings.kafka_controller,
        "partitions": settings.partitions,
    }
    text = (CONFIG / "kafka.properties").read_text("utf-8")
    for name, value in {**values, "data": site.data("kafka")}.items():
        text = text.replace("{" + name + "}", str(value))
    file = site.run("kafka.properties")
    file.write_text(text)
    return file


def _format(java: Sequence[str], jars: str, config: Path) -> None:
    # A cluster id is 16 random bytes in URL-safe base 64, and must not start like an option.
    cluster = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
    logging = f"-Dlog4j2.configurationFile={CONFIG / 'tools-log4j2.properties'}"
    command = [*java, logging, "-cp", jars, "kafka.tools.StorageTool", "format"]
    command += ["--ignore-formatted", "-t", cluster, "-c", str(config)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        lines = (answer.stderr or answer.stdout).strip().splitlines()
        raise StackError(
            f"kafka: cannot format its data folder: {lines[-1] if lines else 'no message'};"
            f" look into {config}"
        )


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
