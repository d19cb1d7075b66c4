"""The consumer's side on the real broker: what a return to the committed positions does to
partitions that were paused, and its end while the group gives it partitions."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from runtime.connect import kafka_admin
from runtime.processor.alignment import AlignmentLimits
from runtime.processor.intake import Intake, IntakeOptions
from runtime.processor.positions import KafkaGroupPositions
from runtime.processor.service import job_consumer
from tally.config.settings import Settings
from tests.integration.ingest.conftest import send_values, wait_until
from tests.integration.ingest.processor.copier import copy_job

VALUES = [f"v{number:03d}" for number in range(200)]


@contextmanager
def small_intake(settings: Settings, topics: tuple[str, str]) -> Iterator[Intake]:
    """An intake that pauses a partition after ten records."""
    job = copy_job(topics[0], *topics)
    consumer = job_consumer(settings, job)
    intake = Intake(
        consumer,
        IntakeOptions(job.topics, job.step.event_time, AlignmentLimits(600, most_records=10)),
        KafkaGroupPositions(settings, consumer),
    )
    intake.subscribe()
    try:
        yield intake
    finally:
        intake.close()


def taken(intake: Intake) -> list[str]:
    """Values that the next poll brings, in the order in which they are ready."""
    intake.poll(0.1)
    values = []
    for alignment in intake.alignments.values():
        while buffer := alignment.find_ready(time.monotonic()):
            values.append((buffer.pop(time.monotonic()).value or b"").decode())
    return values


def test_paused_partitions_are_read_again_after_a_rewind(
    settings: Settings, topics: tuple[str, str]
) -> None:
    send_values(settings, topics[0], VALUES)
    with small_intake(settings, topics) as intake:
        # Nothing is taken out, so each partition fills up and is paused.
        wait_until(lambda: sum(intake.poll(0.1) for _ in range(10)))
        wait_until(lambda: intake.poll(0.5) == 0)

        intake.rewind()

        seen: list[str] = []

        def all_seen() -> bool:
            seen.extend(taken(intake))
            return len(seen) >= len(VALUES)

        wait_until(all_seen, 600)
    assert sorted(seen) == VALUES


def test_intake_that_is_closed_while_the_group_gives_it_partitions_ends_at_once(
    settings: Settings, topics: tuple[str, str]
) -> None:
    admin = kafka_admin(settings)

    def given() -> bool:
        group = admin.describe_consumer_groups([topics[0]])[topics[0]].result(30)
        return any(member.assignment.topic_partitions for member in group.members)

    with small_intake(settings, topics) as intake:
        # The answer lies in the client library: nobody polls.
        wait_until(given)
        begun = time.monotonic()
    # One that waits to be given them waits for the poll interval, a minute.
    assert (time.monotonic() - begun < 60, intake.is_assigned) == (True, False)
