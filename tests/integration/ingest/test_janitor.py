"""Raw messages are deleted when they are read and past their retention; the control deletes by
the clock alone."""

import time

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from ingest.normaliser.janitor import Janitor
from runtime.connect import kafka_admin, kafka_consumer
from tally.config.settings import Settings
from tests.controls.processes.clock_janitor import ClockJanitor
from tests.integration.ingest.conftest import send_values, spans

VALUES = [f"v{number:03d}" for number in range(40)]
LATER = 3600.0


@pytest.fixture
def admin(kafka: str, settings: Settings) -> AdminClient:
    return kafka_admin(settings)


@pytest.fixture
def short(settings: Settings) -> Settings:
    """Settings with a retention of a minute, by their keyspace those of a test."""
    return settings.model_copy(update={"raw_retention_seconds": 60, "keyspace": "test_janitor"})


def read_up_to(settings: Settings, topic: str, share: float) -> list[int]:
    """Commit a position inside each partition, as the group named after the topic; the
    positions."""
    consumer = kafka_consumer(settings, topic)
    positions = [int(end * share) for _, end in spans(settings, topic)]
    consumer.commit(
        offsets=[TopicPartition(topic, number, at) for number, at in enumerate(positions)],
        asynchronous=False,
    )
    consumer.close()
    return positions


def later() -> float:
    return time.time() + LATER


def test_read_and_old_messages_are_deleted_up_to_the_last_one_read(
    short: Settings, topic: str
) -> None:
    send_values(short, topic, VALUES)
    positions = read_up_to(short, topic, 0.5)

    Janitor(short, topic, [topic], later).sweep()

    assert [earliest for earliest, _ in spans(short, topic)] == [max(0, at - 1) for at in positions]


def test_unread_messages_stay_however_old_they_are(short: Settings, topic: str) -> None:
    send_values(short, topic, VALUES)
    before = spans(short, topic)

    Janitor(short, topic, [topic], later).sweep()
    kept = spans(short, topic)
    ClockJanitor(short, topic, [topic], later).sweep()

    assert kept == before
    # Negative control: by the clock alone, what was acknowledged and never read is gone.
    assert sum(end - earliest for earliest, end in spans(short, topic)) == 0


def test_young_messages_stay_though_they_are_read(short: Settings, topic: str) -> None:
    send_values(short, topic, VALUES)
    read_up_to(short, topic, 1.0)
    before = spans(short, topic)

    Janitor(short, topic, [topic]).sweep()

    assert spans(short, topic) == before


def test_other_topics_of_the_group_are_left_alone(short: Settings, topic: str) -> None:
    send_values(short, topic, VALUES)
    read_up_to(short, topic, 1.0)
    before = spans(short, topic)

    Janitor(short, topic, ["another"], later).sweep()

    assert spans(short, topic) == before
