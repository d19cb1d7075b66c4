"""A broker that has lost the end of a log writes other records at the offsets that a processor
has read."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from confluent_kafka.admin import NewTopic

from ops.local.services import catalogue
from ops.local.stack import control
from runtime.connect import kafka_admin
from tally.config.settings import Settings
from tests.integration.ingest.conftest import (
    committed_values,
    starter,
    stop,
    wait_until,
    wait_until_ready,
)
from tests.support.clients.producers import connected_producer
from tests.support.stack.cut_log import cut

if TYPE_CHECKING:
    from ops.local.processes.service import Site

COPIER = "tests.integration.ingest.processor.copier"


def send_one_by_one(settings: Settings, topic: str, values: Sequence[str]) -> None:
    """A batch for each value, all in partition 0."""
    producer = connected_producer(settings)
    for value in values:
        producer.produce(topic, value.encode(), value.encode(), 0)
        assert producer.flush(30) == 0


def test_log_that_was_cut_and_has_grown_beyond_the_position_is_refused(
    stoppable_broker: "Site",
) -> None:
    settings, topic, output = (
        stoppable_broker.settings,
        f"test-{uuid4().hex}",
        f"test-{uuid4().hex}",
    )
    admin = kafka_admin(settings)
    for outcome in admin.create_topics(
        [NewTopic(name, settings.partitions, 1) for name in (topic, output)]
    ).values():
        outcome.result(30)
    send_one_by_one(settings, topic, [f"before {number}" for number in range(6)])
    with starter({"TALLY_KAFKA": settings.kafka}) as start:
        process = start(COPIER, topic, topic, output)
        wait_until_ready(process)
        wait_until(lambda: len(committed_values(settings, output)) == 6)
        assert stop(process) == 0
        control.down(stoppable_broker, catalogue.select_services(()), print)
        (log,) = settings.home.rglob(f"{topic}-0/00000000000000000000.log")
        cut(log, 3)
        control.up(stoppable_broker, catalogue.select_services(["kafka"]), print)
        send_one_by_one(settings, topic, [f"after {number}" for number in range(6)])

        _, said = start(COPIER, topic, topic, output).communicate(timeout=600)

    assert "DataLoss" in said and "the log was cut, and has grown again" in said
    assert committed_values(settings, output) == [f"before {number}" for number in range(6)]
