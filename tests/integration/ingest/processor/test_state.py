"""A step that counts, with its counts in a topic: whatever ends its process or its transaction,
each count is told once, and its state is the last one."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic

from runtime.connect import kafka_admin
from runtime.kafka.reader import read_to_end, read_to_high_watermark
from runtime.processor.alignment import AlignmentLimits
from runtime.processor.delivery import (
    FAILPOINTS,
    ExactlyOnce,
    Failpoints,
)
from runtime.processor.intake import Intake, IntakeOptions
from runtime.processor.loop import BatchLimits, Processor
from runtime.processor.positions import KafkaGroupPositions
from runtime.processor.service import job_consumer, job_state, transactional_producer
from tally.config.settings import Settings
from tests.integration.ingest.conftest import (
    KILLED,
    Start,
    committed_messages,
    committed_values,
    send_values,
    starter,
    stop,
    wait_until,
    wait_until_read,
    wait_until_ready,
)
from tests.integration.ingest.processor.counter import count_job
from tests.support.clients.producers import connected_producer

COUNTER = "tests.integration.ingest.processor.counter"
KEYS, ROUNDS = ("a", "b", "c", "d", "e"), 12
VALUES = [*KEYS] * ROUNDS
# Several transactions, so that there is a state to begin with.
INPUTS = 10


class Names(NamedTuple):
    """Topics of one counting."""

    source: str
    target: str
    counts: str


@contextmanager
def new_topics(settings: Settings, times: int = 1) -> Iterator[list[Names]]:
    """The topics of so many countings, gone after the block."""
    found = [Names(*(f"test-{uuid4().hex}" for _ in range(3))) for _ in range(times)]
    compacted = {"cleanup.policy": "compact"}
    asked = [
        NewTopic(name, settings.partitions, 1, config=compacted if name == names.counts else {})
        for names in found
        for name in names
    ]
    admin = kafka_admin(settings)
    for made in admin.create_topics(asked).values():
        made.result(30)
    yield found
    for gone in admin.delete_topics([topic.topic for topic in asked]).values():
        gone.result(30)


@pytest.fixture
def names(kafka: str, settings: Settings) -> Iterator[Names]:
    """The topics of one counting."""
    with new_topics(settings) as [found]:
        yield found


def told(settings: Settings, names: Names) -> tuple[Counter[str], dict[str, int]]:
    """How often each count was told, and the last count of each key that the state has."""
    state = {
        (message.key() or b"").decode(): int(message.value() or b"")
        for message in committed_messages(settings, names.counts)
    }
    return Counter(committed_values(settings, names.target)), state


def each_once(rounds: int) -> tuple[Counter[str], dict[str, int]]:
    """What is told when each key has come so often."""
    counts = [f"{key}={count}" for key in KEYS for count in range(1, rounds + 1)]
    return Counter(counts), dict.fromkeys(KEYS, rounds)


@pytest.fixture(scope="module")
def after_kills(kafka: str, settings: Settings) -> Iterator[dict[str, Names]]:
    """By moment what a process that was killed there and its successor have counted; all of them
    side by side."""
    variables = {
        "TALLY_KAFKA": settings.kafka,
        "TALLY_KEYSPACE": "test_state",
        "TALLY_TRANSACTION_RECORDS": str(INPUTS),
    }
    with (
        new_topics(settings, len(FAILPOINTS)) as found,
        starter(variables) as start,
    ):
        cases = dict(zip(FAILPOINTS, found, strict=True))
        for names in found:
            send_values(settings, names.source, VALUES)
        killed = [
            # One poll brings what several transactions take.
            start(COUNTER, names.source, *names, "0", f"{name}:{1 if 'poll' in name else 3}")
            for name, names in cases.items()
        ]
        assert [process.wait(600) for process in killed] == [KILLED] * len(cases)
        successors = [start(COUNTER, names.source, *names) for names in found]
        for process, names in zip(successors, found, strict=True):
            wait_until_ready(process)
            wait_until_read(settings, names.source, [names.source])
        assert [stop(process) for process in successors] == [0] * len(cases)
        yield cases


@pytest.mark.parametrize("moment", FAILPOINTS)
def test_kill_at_any_step_leaves_each_count_told_once(
    after_kills: dict[str, Names], settings: Settings, moment: str
) -> None:
    assert told(settings, after_kills[moment]) == each_once(ROUNDS)


class Failing:
    """A real producer whose third commit is aborted, or not made and not answered (lost), or made
    and not answered (applied)."""

    def __init__(self, producer: Any, how: str) -> None:
        self._producer = producer
        self._how = how
        self.commits = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def commit_transaction(self, seconds: float) -> None:
        self.commits += 1
        if self.commits != 3:
            self._producer.commit_transaction(seconds)
        elif self._how == "aborted":
            raise KafkaException(KafkaError(KafkaError._STATE, "abort", False, False, True))
        else:
            if self._how == "applied":
                self._producer.commit_transaction(seconds)
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer", False, True))


@pytest.mark.parametrize("how", ["aborted", "lost", "applied"])
def test_commit_that_fails_leaves_each_count_told_once(
    settings: Settings, names: Names, how: str
) -> None:
    send_values(settings, names.source, VALUES)
    job = count_job(names.source, *names)
    made: list[Any] = []

    def make() -> Any:
        producer = transactional_producer(settings, job)
        made.append(producer if made else Failing(producer, how))
        return made[-1]

    delivery = ExactlyOnce(make, job.identity, Failpoints(), deadline_seconds=0.0)
    consumer = job_consumer(settings, job)
    reading = IntakeOptions(job.topics, job.step.event_time, AlignmentLimits(600))
    processor = Processor(
        Intake(consumer, reading, KafkaGroupPositions(settings, consumer)),
        job.step,
        delivery,
        BatchLimits(INPUTS),
        job_state(settings, job),
    )
    stopped = Event()
    worker = Thread(target=processor.run, args=(stopped, Event(), Failpoints()))
    worker.start()
    wait_until_read(settings, job.group, job.topics)
    stopped.set()
    worker.join(600)
    processor.close()

    assert (made[0].commits >= 3, len(made)) == (True, 1 if how == "aborted" else 2)
    assert told(settings, names) == each_once(ROUNDS)


def test_partitions_take_their_counts_along_when_they_move(
    start: Start, settings: Settings, names: Names
) -> None:
    def count_once_more() -> None:
        send_values(settings, names.source, KEYS)
        wait_until_read(settings, names.source, [names.source])

    first = start(COUNTER, names.source, *names)
    wait_until_ready(first)
    count_once_more()
    second = start(COUNTER, names.source, *names, "1")
    wait_until_ready(second)
    count_once_more()
    # What it gives back has been counted further than the first one remembers.
    assert stop(second) == 0
    count_once_more()

    assert (stop(first), told(settings, names)) == (0, each_once(3))


@contextmanager
def open_transaction(settings: Settings, topic: str, values: Sequence[str]) -> Iterator[Any]:
    """A producer with these values in a transaction that is still open."""
    producer = connected_producer(settings, {"transactional.id": f"test-{uuid4().hex}"})
    producer.init_transactions(10)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value.encode(), value.encode(), partition=0)
    assert producer.flush(10) == 0
    yield producer


@pytest.mark.parametrize(("end", "late"), [("commit", ["b", "c"]), ("abort", [])])
def test_state_is_read_beyond_a_transaction_whose_end_is_still_to_come(
    settings: Settings, names: Names, end: str, late: list[str]
) -> None:
    send_values(settings, names.counts, ["a"])
    lanes = [(names.counts, number) for number in range(settings.partitions)]
    found: list[str] = []

    def read() -> None:
        for message in read_to_high_watermark(settings, lanes):
            found.append((message.value() or b"").decode())

    with open_transaction(settings, names.counts, ["b", "c"]) as producer:
        reader = Thread(target=read)
        reader.start()
        wait_until(lambda: found == ["a"])
        # Negative control: who reads to the stable end does not know what the positions count as
        # done.
        assert len([*read_to_end(settings, [names.counts])]) == 1
        assert reader.is_alive()
        (producer.commit_transaction if end == "commit" else producer.abort_transaction)(10)
        reader.join(600)

    assert (reader.is_alive(), found) == (False, ["a", *late])
