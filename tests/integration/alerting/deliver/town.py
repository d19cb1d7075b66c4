"""Alerts, silences and ticks on topics of a test's own."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from threading import Event, Thread
from typing import NamedTuple
from uuid import uuid4

import msgspec
from confluent_kafka.admin import NewTopic
from msgspec import structs

from alerting.deliver.state.controls import AlertControl, write_controls
from alerting.deliver.state.records import StoredDelivery, decode_record
from alerting.deliver.step import ALERTS, CONTROLS, DELIVERIES, TICKS
from alerting.rules.topic import write_rules
from alerting.rules.versions import StoredRule
from ops.provision import topic_configuration
from runtime.connect import kafka_admin
from runtime.kafka.reader import read_to_end
from runtime.outbound.engine import TickTime
from tally.alerts.message import Alert
from tally.config.settings import Settings
from tally.events.identity import partition_number
from tests.support.clients.producers import connected_producer
from tests.unit.alerting.deliver.deliveries import MINUTE, NOON, alert, end_of
from tests.unit.alerting.rules.rules import rule

TICK_SECONDS = 0.2
# A day: time runs no further ahead of what dispatchers have stored, so that a message has as many
# attempts before it is given up on a slow machine as on a quick one.
MAX_TICKS_AHEAD = 144


class Told(NamedTuple):
    """A state of an alert."""

    alert_id: str
    state: str


def episode(number: int, random: Random) -> Iterator[Alert]:
    """What an evaluator tells of one episode, in its order."""
    raised = alert(2 * number + 1, store_id=f"{number}")
    yield raised
    if random.random() < 0.5:
        raised = structs.replace(raised, state="confirmed")
        yield raised
    ended = end_of(raised, 2 * number + 2, store_id=f"{number}")
    has_ended = random.random() < 0.6
    if has_ended:
        yield ended
    if random.random() < 0.5:
        yield structs.replace(raised, state="retracted", reason="late_data")
        if has_ended:
            yield structs.replace(ended, state="retracted", reason="late_data")


@dataclass
class Town:
    """The topics of one test, whose names begin with `prefix`."""

    settings: Settings
    prefix: str
    alerts: list[Alert] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._producer = connected_producer(self.settings)

    def tell(self, alerts: Sequence[Alert]) -> None:
        """Alerts into the partitions of their stores, all acknowledged."""
        self.alerts += alerts
        self._send(
            (ALERTS, one.store_id, msgspec.json.encode(one), [self._partition(one)])
            for one in alerts
        )

    @property
    def rules(self) -> str:
        """Name of the topic of rules."""
        return f"{self.prefix}alert-rules"

    def apply(self, *channels: str) -> None:
        """The rule of the alerts names these channels."""
        named = rule(rule_id=alert().rule_id, channels=[*channels])
        write_rules(self.settings, [StoredRule(rule=named, version=1)], self.rules)

    def settle(self, control: AlertControl) -> None:
        """A control into every partition that it is for."""
        write_controls(self.settings, [control], self.prefix)

    def tick(self, number: int) -> None:
        """Ten minutes have passed, in each partition."""
        value = msgspec.json.encode({"n": number, "at": NOON + number * 10 * MINUTE})
        self._send([(TICKS, "", value, [*range(self.settings.partitions)])])

    @contextmanager
    def clock(self) -> Iterator[None]:
        """Time passes by itself, much faster than it does, as long as a dispatcher follows it."""
        stopped = Event()

        def run() -> None:
            number, stored = 1, 0
            while not stopped.wait(TICK_SECONDS):
                if number > stored + MAX_TICKS_AHEAD:
                    stored = self._stored_tick()
                if number <= stored + MAX_TICKS_AHEAD:
                    self.tick(number)
                    number += 1
                else:
                    # The whole state is read for its ticks: a dispatcher that is down or slow is
                    # asked once a second.
                    stopped.wait(1.0)

        thread = Thread(target=run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join(600)

    def kept(self) -> list[StoredDelivery]:
        """The newest record of each key of the state."""
        found: dict[tuple[int, bytes], bytes] = {}
        for message in read_to_end(self.settings, [self.prefix + DELIVERIES]):
            place = message.partition() or 0, bytes(message.key() or b"")
            found[place] = bytes(message.value() or b"")
        # What is kept no longer has no value.
        return [decode_record(value) for value in found.values() if value]

    def _stored_tick(self) -> int:
        """The number of the newest tick that a dispatcher has stored, 0 for none."""
        return max((one.n for one in self.kept() if isinstance(one, TickTime)), default=0)

    def _partition(self, one: Alert) -> int:
        return partition_number(one.store_id, self.settings.partitions)

    def _send(self, records: Iterable[tuple[str, str, bytes, list[int]]]) -> None:
        for topic, key, value, places in records:
            for place in places:
                self._producer.produce(self.prefix + topic, value, key.encode(), place)
        assert self._producer.flush(30) == 0


@contextmanager
def new_town(settings: Settings) -> Iterator[Town]:
    """A town with new topics, gone after the block."""
    prefix = f"test-{uuid4().hex}-"
    kinds = {
        ALERTS: "alerts",
        **dict.fromkeys((CONTROLS, TICKS, DELIVERIES), "compacted"),
        "alert-rules": "chronicle",
    }
    admin = kafka_admin(settings)
    asked = [
        NewTopic(
            prefix + name,
            1 if kind == "chronicle" else settings.partitions,
            1,
            config=topic_configuration(kind, settings),
        )
        for name, kind in kinds.items()
    ]
    for made in admin.create_topics(asked).values():
        made.result(30)
    yield Town(settings, prefix)
    for gone in admin.delete_topics([prefix + name for name in kinds]).values():
        gone.result(30)
