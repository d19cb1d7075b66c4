"""Two processes that both believe they own the work: the old one must not store anything, and
exits."""

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from runtime.connect import kafka_consumer
from runtime.processor.alignment import AlignmentLimits
from runtime.processor.delivery import ExactlyOnce, Failpoints
from runtime.processor.intake import Intake, IntakeOptions
from runtime.processor.loop import Batch
from runtime.processor.positions import KafkaGroupPositions
from runtime.processor.service import classify_fencing, job_consumer, transactional_producer
from runtime.processor.step import Output
from tally.config.settings import Settings
from tally.errors import ProducerFenced, TallyError, TransactionAborted
from tests.controls.layers.no_member import no_member
from tests.integration.ingest.conftest import (
    Start,
    committed_values,
    send_values,
    stop,
    wait_until,
    wait_until_read,
    wait_until_ready,
)
from tests.integration.ingest.processor.copier import copy_job

COPIER = "tests.integration.ingest.processor.copier"
VALUES = [f"v{number:03d}" for number in range(40)]


def test_frozen_instance_that_wakes_up_after_its_successor_exits(
    start: Start, settings: Settings, topics: tuple[str, str]
) -> None:
    zombie = start(COPIER, topics[0], *topics)
    wait_until_ready(zombie)
    zombie.send_signal(signal.SIGSTOP)
    send_values(settings, topics[0], VALUES)
    successor = start(COPIER, topics[0], *topics)
    wait_until_read(settings, topics[0], topics[:1])
    zombie.send_signal(signal.SIGCONT)
    # It joins the group again and is fenced with the first records that it is given.
    more = send_until(lambda: zombie.poll() is not None, settings, topics[0])

    _, errors = zombie.communicate()
    assert (zombie.returncode, "copier: ProducerFenced" in errors) == (1, True), errors
    wait_until_read(settings, topics[0], topics[:1])
    assert (stop(successor), Counter(committed_values(settings, topics[1]))) == (
        0,
        Counter([*VALUES, *more]),
    )


@pytest.mark.parametrize(("slot", "expected"), [(0, ProducerFenced), (1, TallyError)])
def test_only_a_process_of_the_same_slot_is_a_rival(
    slot: int,
    expected: type[TallyError],
    settings: Settings,
    topics: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("runtime.processor.service.GRACE_SECONDS", 0.0)
    other = job_consumer(settings, copy_job(topics[0], *topics, slot))
    other.subscribe([topics[0]])
    wait_until(lambda: other.poll(0.1) is None and other.assignment())

    found = classify_fencing(settings, copy_job(topics[0], *topics, 0), ProducerFenced("fenced"))

    other.close()
    assert type(found) is expected


def send_until(condition: Callable[[], bool], settings: Settings, topic: str) -> list[str]:
    """Values sent one by one until the condition holds."""
    sent: list[str] = []

    def one_more() -> bool:
        sent.append(f"w{len(sent):03d}")
        send_values(settings, topic, sent[-1:])
        return condition()

    wait_until(one_more)
    return sent


def test_fenced_producer_stores_nothing_and_says_exit(
    settings: Settings, topics: tuple[str, str]
) -> None:
    job = copy_job(topics[0], *topics)
    old, new = (
        ExactlyOnce(lambda: transactional_producer(settings, job), job.identity, Failpoints())
        for _ in range(2)
    )
    consumer = job_consumer(settings, job)
    consumer.subscribe([topics[0]])
    wait_until(lambda: consumer.poll(0.1) is not None or consumer.assignment())
    old.renew()
    new.renew()

    with pytest.raises(ProducerFenced):
        old.deliver(
            [Output(topics[1], b"k", b"zombie")],
            [TopicPartition(topics[0], 0, 1)],
            consumer.consumer_group_metadata,
        )
    consumer.close()
    assert committed_values(settings, topics[1]) == []


class Member:
    """A group member with short patience of the broker's, its intake and what it took."""

    def __init__(self, settings: Settings, topics: tuple[str, str], slot: int) -> None:
        job = copy_job(topics[0], *topics, slot)
        patience = {
            "session.timeout.ms": 6000,
            "max.poll.interval.ms": 6000,
            "enable.partition.eof": True,
            "log_level": 0,
        }
        self.consumer: Consumer = kafka_consumer(settings, job.group, patience)
        self.producer = ExactlyOnce(
            lambda: transactional_producer(settings, job), job.identity, Failpoints()
        )
        self.producer.renew()
        self.output = topics[1]
        self.batch = Batch()
        self.intake = Intake(
            self.consumer,
            IntakeOptions(job.topics, job.step.event_time, AlignmentLimits(600)),
            KafkaGroupPositions(settings, self.consumer),
        )
        self.intake.forget = self.forget
        self.intake.subscribe()

    def forget(self) -> None:
        self.batch = Batch()

    def take(self) -> int:
        """Poll once and take everything into the batch; how many inputs it holds."""
        self.intake.poll(0.1)
        for alignment in self.intake.alignments.values():
            while buffer := alignment.find_ready(time.monotonic()):
                record = buffer.pop(time.monotonic())
                self.batch.add(record, [Output(self.output, record.key, record.value)], 0.0)
        return self.batch.inputs

    def deliver(self, metadata_now: Any = None) -> None:
        batch = self.batch
        self.producer.deliver(
            batch.outputs, self.positions(batch), metadata_now or self.intake.check_metadata
        )

    def positions(self, batch: Batch) -> list[TopicPartition]:
        return self.intake.positions.positions_after(batch.last)


@pytest.fixture
def rivals(settings: Settings, topics: tuple[str, str]) -> Iterator[tuple[Member, Member]]:
    """A member that took all records but did not poll for so long that another one has copied
    them, and that other one."""
    send_values(settings, topics[0], VALUES)
    old = Member(settings, topics, 0)
    wait_until(lambda: old.take() == len(VALUES))
    new = Member(settings, topics, 1)
    wait_until(lambda: new.take() == len(VALUES))
    new.deliver()
    yield old, new
    for member in (old, new):
        member.intake.close()


def test_member_that_was_kicked_out_stores_nothing(
    rivals: tuple[Member, Member], settings: Settings, topics: tuple[str, str]
) -> None:
    old, _ = rivals
    with pytest.raises(TransactionAborted):
        old.deliver()
    stale = old.intake._metadata
    with pytest.raises(TransactionAborted):
        old.deliver(lambda: stale)

    assert committed_values(settings, topics[1]) == VALUES


def test_negative_control_positions_of_no_member_are_taken_from_who_was_kicked_out(
    rivals: tuple[Member, Member], settings: Settings, topics: tuple[str, str]
) -> None:
    old, _ = rivals
    of_a_test = settings.model_copy(update={"keyspace": "test_rivals"})

    with no_member(of_a_test, topics[0]) as metadata:
        old.deliver(metadata)

    assert Counter(committed_values(settings, topics[1])) == Counter(2 * VALUES)


def test_member_that_joins_again_has_forgotten_what_it_took(
    rivals: tuple[Member, Member], settings: Settings, topics: tuple[str, str]
) -> None:
    old, new = rivals
    taken = old.batch
    wait_until(lambda: old.take() == 0 and new.take() is not None and old.consumer.assignment())

    assert old.batch.inputs == 0
    # Negative control: with metadata read anew the broker takes the old outputs, and every record
    # is there twice.
    old.producer.deliver(taken.outputs, old.positions(taken), old.consumer.consumer_group_metadata)
    assert Counter(committed_values(settings, topics[1])) == Counter(2 * VALUES)


def test_delivery_of_an_unchanged_group_is_stored(
    settings: Settings, topics: tuple[str, str]
) -> None:
    send_values(settings, topics[0], VALUES)
    member = Member(settings, topics, 0)
    wait_until(lambda: member.take() == len(VALUES))

    positions = member.positions(member.batch)
    member.producer.deliver(member.batch.outputs, positions, member.intake.check_metadata)
    member.intake.close()
    assert committed_values(settings, topics[1]) == VALUES
