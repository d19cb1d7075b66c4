"""Processes and topics for the tests of ingest."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from confluent_kafka import Message
from confluent_kafka.admin import NewTopic
from tenacity import retry, retry_if_result, stop_after_delay, wait_fixed

from runtime.connect import kafka_admin, kafka_consumer
from runtime.kafka.reader import read_to_end
from runtime.kafka.topics import read_committed_positions, read_partition_bounds, read_topic_bounds
from tally.config.settings import Settings
from tests.support.clients.producers import connected_producer

if TYPE_CHECKING:
    from ops.local.processes.service import Site

WAIT_SECONDS = 600
KILLED = -9
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def topics(topic: str, settings: Settings) -> Iterator[tuple[str, str]]:
    """Names of two new topics, input and output, gone after the test."""
    output = f"test-{uuid4().hex}"
    admin = kafka_admin(settings)
    admin.create_topics(
        [NewTopic(output, num_partitions=settings.partitions, replication_factor=1)]
    )[output].result(30)
    yield topic, output
    admin.delete_topics([output])[output].result(30)


@pytest.fixture
def start(settings: Settings) -> Iterator[Start]:
    """Starts a module as a process on the shared broker; whatever still runs at the end is
    killed."""
    with starter({"TALLY_KAFKA": settings.kafka}) as begin:
        yield begin


@contextmanager
def starter(variables: dict[str, str]) -> Iterator[Start]:
    """A function that starts `python -m MODULE ARGUMENTS` with these variables and more by name."""
    running: list[subprocess.Popen[str]] = []

    def begin(module: str, *arguments: str, **more: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", module, *arguments]
        environment = {**os.environ, **variables, **more}
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        running.append(process)
        return process

    try:
        yield begin
    finally:
        for process in running:
            process.kill()
            process.communicate()


def send_values(settings: Settings, topic: str, values: Sequence[str]) -> None:
    """Each value as key and value, all acknowledged."""
    producer = connected_producer(settings)
    for value in values:
        producer.produce(topic, value.encode(), value.encode())
    assert producer.flush(30) == 0


def committed_messages(settings: Settings, topic: str) -> list[Message]:
    """Every committed message of the topic as it is now."""
    return list(read_to_end(settings, [topic]))


def committed_values(settings: Settings, topic: str) -> list[str]:
    """Values of the committed messages, ascending."""
    return sorted(
        (message.value() or b"").decode() for message in committed_messages(settings, topic)
    )


def spans(settings: Settings, topic: str) -> list[tuple[int, int]]:
    """First offset kept and end of each partition."""
    with kafka_consumer(settings, "test-spans") as consumer:
        return list(read_topic_bounds(consumer, topic, 10).values())


def wait_until(condition: Callable[[], Any], seconds: float = WAIT_SECONDS) -> Any:
    """The condition's first true answer; fails after the deadline."""
    return retry(
        retry=retry_if_result(lambda value: not value),
        stop=stop_after_delay(seconds),
        wait=wait_fixed(0.1),
    )(condition)()


def wait_until_ready(process: "subprocess.Popen[str]") -> None:
    """Return when the process has said that it has its partitions."""
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate()


def wait_until_read(settings: Settings, group: str, topics: Sequence[str]) -> None:
    """Return when the group has committed the end of each topic."""
    partition_ids = [
        (topic, partition) for topic in topics for partition in range(settings.partitions)
    ]

    def all_read() -> bool:
        ends = [
            read_partition_bounds(consumer, partition_id, 10).end for partition_id in partition_ids
        ]
        return [
            max(0, at.offset) for at in read_committed_positions(consumer, partition_ids, 10)
        ] == ends

    with kafka_consumer(settings, group) as consumer:
        wait_until(all_read)


def stop(process: "subprocess.Popen[str]") -> int:
    """Exit code after SIGTERM."""
    process.terminate()
    process.communicate(timeout=600)
    return process.returncode


def settings_of(site: "Site", home: Path | None = None) -> Settings:
    """The settings of a site's processes."""
    settings: Settings = site.settings
    return settings.model_copy(update={"home": home}) if home else settings
