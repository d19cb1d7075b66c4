"""A commit whose answer is lost: whether it was applied or not, every record is copied once."""

from collections import Counter
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from runtime.processor.alignment import AlignmentLimits
from runtime.processor.delivery import ExactlyOnce, Failpoints
from runtime.processor.intake import Intake, IntakeOptions
from runtime.processor.loop import BatchLimits, Processor
from runtime.processor.positions import KafkaGroupPositions
from runtime.processor.service import job_consumer, transactional_producer
from tally.config.settings import Settings
from tests.integration.ingest.conftest import (
    committed_values,
    send_values,
    wait_until,
    wait_until_read,
)
from tests.integration.ingest.processor.copier import copy_job

VALUES = [f"v{number:03d}" for number in range(40)]


class LostAnswer:
    """A real producer whose commit is applied, or not, but never answered."""

    def __init__(self, producer: Any, applied: bool) -> None:
        self._producer = producer
        self._applied = applied

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def commit_transaction(self, seconds: float) -> None:
        if self._applied:
            self._producer.commit_transaction(seconds)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer", False, True))


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not applied"])
def test_commit_without_answer_is_redone_from_what_the_brokers_have(
    settings: Settings, topics: tuple[str, str], applied: bool
) -> None:
    send_values(settings, topics[0], VALUES)
    job = copy_job(topics[0], *topics)
    made: list[Any] = []

    def make() -> Any:
        producer = transactional_producer(settings, job)
        made.append(producer if made else LostAnswer(producer, applied))
        return made[-1]

    delivery = ExactlyOnce(make, job.identity, Failpoints(), deadline_seconds=0.0)
    consumer = job_consumer(settings, job)
    intake = Intake(
        consumer,
        IntakeOptions(job.topics, job.step.event_time, AlignmentLimits(600)),
        KafkaGroupPositions(settings, consumer),
    )
    processor = Processor(intake, job.step, delivery, BatchLimits(2000))
    stopped = Event()
    worker = Thread(target=processor.run, args=(stopped, Event(), Failpoints()))
    worker.start()
    wait_until(lambda: len(made) == 2)
    wait_until_read(settings, job.group, topics[:1])
    stopped.set()
    worker.join(600)
    processor.close()

    assert Counter(committed_values(settings, topics[1])) == Counter(VALUES)
