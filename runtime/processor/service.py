"""A processor and its Kafka clients, built from the settings, and its life as a process."""

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from threading import Event, Thread
from typing import NamedTuple

from confluent_kafka import Consumer, Producer

from runtime.connect import kafka_admin, kafka_consumer, kafka_producer
from runtime.process.heartbeat import Heartbeat
from runtime.process.job import NotifyingEvent, signal_ready, start_watchdog
from runtime.processor.alignment import AlignmentLimits
from runtime.processor.delivery import (
    MESSAGE_TIMEOUT_MS,
    TRANSACTION_TIMEOUT_MS,
    Delivery,
    ExactlyOnce,
    Failpoints,
    SequentialDelivery,
)
from runtime.processor.intake import Intake, IntakeOptions
from runtime.processor.loop import BatchLimits, Processor, ReadState, read_state
from runtime.processor.positions import KafkaGroupPositions
from runtime.processor.step import Step
from tally.config.settings import Settings
from tally.errors import ProducerFenced, TallyError

# Above the largest size that a raw message can grow to; the topics allow as much.
_MAX_MESSAGE_BYTES = 6_000_000
_SECONDS = 30.0
# Longer than the session of a dead member: the members left after that are alive.
GRACE_SECONDS = 8.0


class BackgroundLoop(NamedTuple):
    """A loop beside a processor, on a thread with this name, until the event is set."""

    name: str
    run: Callable[[Event], None]


@dataclass(frozen=True)
class ProcessorJob:
    """The definition of a processor; the group is also its name.

    A slot is one process of it, with a stable identity for the brokers. `anchor` names a durable
    topic beside whose position the ids of the topics are stored; `hint_topics` are topics in which
    a record that was deleted before it was read is no loss; `reread_topics`: topics with idempotent
    records, of which all remaining ones are read again; `earliest_topics`: topics in which the very
    first process of the group begins at the first record left; `background`: loops that run beside
    the processor.
    """

    group: str
    topics: tuple[str, ...]
    step: Step
    slot: int = 0
    anchor: str = ""
    hint_topics: tuple[str, ...] = ()
    reread_topics: tuple[str, ...] = ()
    earliest_topics: tuple[str, ...] = ()
    background: tuple[BackgroundLoop, ...] = ()

    @property
    def identity(self) -> str:
        """The transactional.id, the same from run to run."""
        # With a random id nothing would end the open transaction of a killed process: every reader
        # of committed records would wait for its time-out.
        return f"tally-{self.group}-{self.slot}"


def build_processor(settings: Settings, job: ProcessorJob, failpoints: Failpoints) -> Processor:
    """Build the processor, which the caller closes after the last turn."""
    consumer = job_consumer(settings, job)
    alignment = AlignmentLimits(settings.alignment_seconds)
    options = IntakeOptions(job.topics, job.step.event_time, alignment)
    kinds = job.anchor, job.hint_topics, job.reread_topics
    positions = KafkaGroupPositions(settings, consumer, *kinds)
    positions.earliest_topics = job.earliest_topics
    intake = Intake(consumer, options, positions)
    delivery = _build_delivery(settings, job, consumer, failpoints)
    limits = BatchLimits(settings.transaction_records)
    return Processor(intake, job.step, delivery, limits, job_state(settings, job))


def job_consumer(settings: Settings, job: ProcessorJob) -> Consumer:
    """A member of the job's group."""
    # No static one: after a crash of the broker the client fences itself (seen).
    overrides = {
        # The group identifies the processes of a slot by this id.
        "client.id": job.identity,
        # The broker's minimum: the successor of a killed process waits this long for partitions.
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 1_500,
        # Also how long a rebalance waits for a dead member that the broker still lists.
        "max.poll.interval.ms": 60_000,
        # The alignment has to know which partitions have ended.
        "enable.partition.eof": True,
        # A record deleted before it is read is an error, never silently skipped.
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 100,
        "queued.max.messages.kbytes": 16_384,
    }
    return kafka_consumer(settings, job.group, overrides)


def job_state(settings: Settings, job: ProcessorJob) -> ReadState:
    """The source from which the job's step is restored."""
    return partial(read_state, settings, job.step.state_topic, job.topics)


def transactional_producer(settings: Settings, job: ProcessorJob) -> Producer:
    """A producer under the job's transactional.id, not initialised yet."""
    overrides = {
        "transactional.id": job.identity,
        "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        "message.timeout.ms": MESSAGE_TIMEOUT_MS,
        "message.max.bytes": _MAX_MESSAGE_BYTES,
        "linger.ms": 1,
    }
    return kafka_producer(settings, overrides)


def _build_delivery(
    settings: Settings, job: ProcessorJob, consumer: Consumer, failpoints: Failpoints
) -> Delivery:
    if settings.delivery == "exactly_once":
        make = partial(transactional_producer, settings, job)
        return ExactlyOnce(make, job.identity, failpoints)
    producer = kafka_producer(settings, {"message.max.bytes": _MAX_MESSAGE_BYTES})
    positions_first = settings.delivery == "at_most_once"
    return SequentialDelivery(producer, consumer, failpoints, positions_first)


def classify_fencing(settings: Settings, job: ProcessorJob, error: ProducerFenced) -> TallyError:
    """The error itself if another process works in the same slot, else one that a restart heals.

    The caller must have left its group. Raises KafkaException when the brokers do not answer.
    """
    time.sleep(GRACE_SECONDS)
    admin = kafka_admin(settings)
    described = admin.describe_consumer_groups([job.group], request_timeout=_SECONDS)
    members = described[job.group].result(_SECONDS).members
    if any(member.client_id == job.identity for member in members):
        return error
    return TallyError(
        f"{job.identity}: a transaction was open for too long and was ended by the brokers;"
        " start the process again"
    )


def run_processor(
    settings: Settings,
    job: ProcessorJob,
    failpoints: Failpoints,
    stopped: Event,
    build: Callable[[Settings, ProcessorJob, Failpoints], Processor] = build_processor,
) -> None:
    """Process until stopped; says that it is ready once it has partitions.

    Raises ProducerFenced when a successor has taken over, TallyError when it cannot go on.
    """
    processor = build(settings, job, failpoints)
    # Daemon threads: a loop may wait half a minute for the brokers, and must not delay the exit.
    for loop in job.background:
        run = partial(loop.run, stopped)
        Thread(target=run, name=loop.name, daemon=True).start()
    heartbeat = Heartbeat(settings.heartbeat_file)
    start_watchdog(job.group, heartbeat, stopped)
    ready = NotifyingEvent(lambda: signal_ready(settings))
    try:
        with closing(processor):
            processor.run(stopped, ready, failpoints, heartbeat)
    # Brokers end a transaction that took too long with the same error; that allows a restart.
    except ProducerFenced as error:
        raise classify_fencing(settings, job, error) from error
