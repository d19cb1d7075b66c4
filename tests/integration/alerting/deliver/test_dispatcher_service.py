"""The dispatcher as the stack starts it: fixed topics, state of its own, and records that are gone
when it comes again."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from alerting.deliver.__main__ import GROUP
from alerting.deliver.state.controls import AlertChannel, write_controls
from alerting.deliver.state.records import WebhookMessage, alert_message_id, decode_record
from alerting.deliver.step import ALERTS, CONTROLS, DELIVERIES, TICKS
from alerting.rules.topic import write_rules
from alerting.rules.versions import StoredRule
from ops.channels import redeliver
from ops.local.processes.service import Site
from runtime.connect import kafka_admin, kafka_consumer
from runtime.kafka.reader import read_to_end
from runtime.kafka.topics import read_partition_bounds
from tally.alerts.message import Alert, encode_alert
from tally.alerts.tick import Tick
from tally.config.settings import Settings
from tally.events.identity import partition_number
from tests.integration.alerting.deliver.killing import secrets_file
from tests.integration.ingest.conftest import starter, stop, wait_until, wait_until_read
from tests.integration.ingest.processor.test_positions import delete_below
from tests.support.clients.producers import connected_producer
from tests.support.stack.topic_settings import configure
from tests.unit.alerting.deliver.deliveries import MINUTE, NOON, alert
from tests.unit.alerting.rules.rules import rule
from tests.unit.alerting.webhooks.receivers import Got, Reaction, receiver, status

DISPATCHER = "alerting.deliver"


class World:
    """What others write on the broker, and what the receiver has got."""

    def __init__(self, settings: Settings, calls: list[Got]) -> None:
        self.settings, self.calls, self.ticks = settings, calls, 0

    def tell(self, one: Alert) -> None:
        """An alert, as an evaluator tells it."""
        place = partition_number(one.store_id, self.settings.partitions)
        self._send([(ALERTS, one.store_id, encode_alert(one), place)])

    def tick(self) -> bool:
        """Whether the newest tick was written; time has passed by a minute."""
        self.ticks += 1
        one = Tick(n=self.ticks, at=NOON + self.ticks * MINUTE, rules_until=1)
        places = range(self.settings.partitions)
        self._send([(TICKS, f"{place}", one.value, place) for place in places])
        return True

    def keys(self) -> list[str]:
        """What was called for, by its key."""
        return [one.headers["webhook-id"] for one in self.calls]

    def delivered(self) -> set[str]:
        """The messages that have come to a good end, by key."""
        kept = [
            decode_record(bytes(value))
            for one in read_to_end(self.settings, [DELIVERIES])
            if (value := one.value())
        ]
        messages = [one for one in kept if isinstance(one, WebhookMessage)]
        return {one.message_id for one in messages if one.outcome == "delivered"}

    def _send(self, records: list[tuple[str, str, bytes, int]]) -> None:
        producer = connected_producer(self.settings)
        for topic, key, value, place in records:
            producer.produce(topic, value, key.encode(), partition=place)
        assert producer.flush(30) == 0


@pytest.fixture
def world(own_broker: Site) -> Iterator[World]:
    """A rule that names the channel of a receiver."""
    with world_of(own_broker.settings, status(204)) as made:
        yield made


@contextmanager
def world_of(settings: Settings, react: Reaction) -> Iterator[World]:
    """A rule that names the channel of a receiver which reacts so."""
    with receiver(react) as (port, calls):
        named = rule(rule_id=alert().rule_id, channels=["floor-tablet"])
        write_rules(settings, [StoredRule(rule=named, version=1)])
        url = f"http://127.0.0.1:{port}/alerts"
        # A minute of it is a tenth of a second here.
        channel = AlertChannel(
            channel_id="floor-tablet", url=url, secrets=("tablet",), max_age=10**9
        )
        write_controls(settings, [channel])
        yield World(settings, calls)


@contextmanager
def running(site: Site, folder: Path) -> Iterator[None]:
    """The service runs within the block, and ends as it is told to."""
    own = {
        **site.environment,
        "TALLY_KAFKA": site.settings.kafka,
        "TALLY_WEBHOOK_NETWORKS": "127.0.0.0/8",
        "TALLY_WEBHOOK_SECRETS": str(secrets_file(folder)),
        "TALLY_READY_FILE": str(folder / "ready"),
    }
    (folder / "ready").unlink(missing_ok=True)
    with starter(own) as start:
        process = start(DISPATCHER)
        wait_until(lambda: (folder / "ready").exists() or process.poll() is not None, 60)
        assert process.poll() is None, process.communicate()
        yield
        assert stop(process) == 0


def test_it_goes_on_where_records_that_it_has_read_are_gone_and_tells_nothing_twice_unasked(
    own_broker: Site, world: World, tmp_path: Path
) -> None:
    first, second = (alert_message_id(alert(number)) for number in (1, 2))
    with running(own_broker, tmp_path):
        world.tick()
        world.tell(alert(1))
        wait_until(lambda: world.tick() and world.delivered() == {first})
        wait_until_read(world.settings, GROUP, [ALERTS, CONTROLS, TICKS])
    # As compaction does it, and the brokers after 30 days. Of what is compacted nobody may delete.
    configure(world.settings, [CONTROLS, TICKS], "cleanup.policy", "delete")
    for topic in (CONTROLS, TICKS, ALERTS):
        ends = _ends(world.settings, topic)
        world.tick()
        delete_below(kafka_admin(world.settings), topic, ends)

    with running(own_broker, tmp_path):
        world.tell(alert(2))
        wait_until(lambda: world.tick() and world.delivered() == {first, second})
        assert world.keys() == [first, second]
        redeliver(world.settings, "floor-tablet", first)
        wait_until(lambda: world.tick() and world.keys() == [first, second, first])

    assert world.calls[0].body == world.calls[2].body


def _ends(settings: Settings, topic: str) -> list[int]:
    with kafka_consumer(settings, "ends") as consumer:
        places = range(settings.partitions)
        return [read_partition_bounds(consumer, (topic, place), 10).end for place in places]
