"""A broker that stood still leads its partitions under a new epoch: what asks it now and then
must notice."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException, TopicPartition

from ingest.normaliser.janitor import Janitor
from ops.local.processes import supervisor
from ops.local.services import catalogue
from ops.local.stack import control
from runtime.connect import kafka_consumer
from tests.conftest import make_site
from tests.integration.ingest.conftest import send_values, spans, wait_until
from tests.support.stack.faults import strike

if TYPE_CHECKING:
    from ops.local.processes.service import Site

RAW, GROUP = "posTransactionTopic", "frozen"


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Site"]:
    made = make_site(tmp_path_factory.mktemp("frozen"), TALLY_RAW_RETENTION_SECONDS="60")
    control.up(made, catalogue.select_services(["kafka"]), print)
    yield made
    control.down(made, catalogue.select_services(()), print)


def has_read_all(site: "Site") -> bool:
    """Whether the group's positions are the ends now; its coordinator may still be loading them."""
    consumer = kafka_consumer(site.settings, GROUP)
    ends = [
        TopicPartition(RAW, number, end)
        for number, (_, end) in enumerate(spans(site.settings, RAW))
    ]
    try:
        consumer.commit(offsets=ends, asynchronous=False)
    except KafkaException:
        return False
    finally:
        consumer.close()
    return True


def test_read_messages_are_deleted_before_and_after(site: "Site") -> None:
    janitor = Janitor(site.settings, GROUP, [RAW], lambda: time.time() + 3600)
    send_values(site.settings, RAW, [f"v{number:03d}" for number in range(40)])
    wait_until(lambda: has_read_all(site))
    janitor.sweep()
    swept = [end - first for first, end in spans(site.settings, RAW)]
    broker = supervisor.working_process(site, catalogue.SERVICES["kafka"])
    assert broker is not None

    strike(broker.pid, "SIGSTOP")

    wait_until(lambda: sum(end for _, end in spans(site.settings, RAW)) == 40)
    send_values(site.settings, RAW, [f"w{number:03d}" for number in range(40)])
    wait_until(lambda: has_read_all(site))
    janitor.sweep()
    assert (
        [end - first for first, end in spans(site.settings, RAW)]
        == swept
        == [1] * site.settings.partitions
    )
