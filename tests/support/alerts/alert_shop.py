"""Some stores with their receipts, as the layers have them: quarter hours are counted, told by
ticks, and rebuilt, on the real tables and topics; and who evaluates them is waited for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import msgspec
from confluent_kafka import KafkaException

from alerting.evaluate.__main__ import GROUP
from alerting.evaluate.step import INPUTS, RESTATEMENTS
from runtime.connect import kafka_consumer
from runtime.kafka.topics import read_committed_positions, read_partition_bounds
from tally.events.identity import partition_number
from tally.time.instants import format_utc, from_millis
from tests.integration.alerting.evaluate.quarters import Quarters
from tests.support.alerts.alert_oracle import AlertMessages, messages
from tests.support.alerts.alert_receipts import STORES, STRETCH, SentReceipt, counted, sent_receipts
from tests.support.stack.loop import wait_until

MAX_SECONDS = 900.0
_ANSWER_SECONDS = 12.0


@dataclass
class AlertShop:
    """Receipts of STORES, stretch after stretch."""

    quarters: Quarters
    chance: Random
    has_hints: bool = True
    receipts: list[SentReceipt] = field(default_factory=list)
    sold: int = 0

    def play(self, until: Callable[[], bool] = lambda: False) -> None:
        """A stretch is counted quarter hour by quarter hour, then rebuilt; each evaluated fully."""
        self.sell(self.next_stretch())
        self.wait_until_evaluated(until)
        self.rebuild()
        self.wait_until_evaluated(until)

    def next_stretch(self) -> Sequence[int]:
        """The numbers of the next quarter hours; what the stores send in them is known now."""
        first = self.quarters.count
        for store in STORES:
            sent = [*sent_receipts(self.chance, first, store)]
            self.receipts += sent
            early, final = (counted(sent, in_the_end=one) for one in (False, True))
            numbers = range(first, first + STRETCH)
            counts = self.quarters
            counts.speed[store] = [
                *counts.speed[store],
                *(early.get((store, n), 0) for n in numbers),
            ]
            counts.batch[store] = [
                *counts.batch[store],
                *(final.get((store, n), 0) for n in numbers),
            ]
        return range(first, first + STRETCH)

    def sell(self, numbers: Sequence[int]) -> None:
        """The speed layer has counted what came in time, and each quarter hour is closed."""
        for number in numbers:
            self.quarters.sell(number, with_hints=self.has_hints)
            self.quarters.tick(number + 1)

    def rebuild(self) -> None:
        """A generation serves all that was sold until now."""
        self.quarters.rebuild()
        if self.has_hints:
            self._restate(range(self.sold, self.quarters.count))
        self.sold = self.quarters.count
        self.quarters.tick(self.sold)

    def wait_until_evaluated(self, is_over: Callable[[], bool] = lambda: False) -> None:
        """Return when all that has come is evaluated and stored, by whoever it was."""
        wait_until(
            lambda: is_over() or self._is_evaluated(), MAX_SECONDS, "all that came is judged"
        )

    def expected(self) -> AlertMessages:
        """What subscribers have to be told of all receipts that were evaluated as they came."""
        return self.oracle(self.receipts, told_in_time=True)

    def oracle(self, receipts: Sequence[SentReceipt], *, told_in_time: bool) -> AlertMessages:
        """What they have to be told of some receipts, as the oracle has it."""
        first = from_millis(self.quarters.first)
        return messages(receipts, first, told_in_time=told_in_time)

    def _is_evaluated(self) -> bool:
        settings = self.quarters.settings
        lanes = [(topic, number) for topic in INPUTS for number in range(settings.partitions)]
        with kafka_consumer(settings, GROUP) as consumer:
            try:
                positions = read_committed_positions(consumer, lanes, _ANSWER_SECONDS)
                ends = [
                    read_partition_bounds(consumer, lane, _ANSWER_SECONDS).end for lane in lanes
                ]
            # Of positions in a transaction that is still open nobody is told.
            except KafkaException:
                return False
        return all(max(0, at.offset) >= end for at, end in zip(positions, ends, strict=True))

    def _restate(self, numbers: Sequence[int]) -> None:
        producer = self.quarters.producer
        for store in STORES:
            place = partition_number(store, self.quarters.settings.partitions)
            for number in numbers:
                start = format_utc(from_millis(self.quarters.window(number)))
                told = {"family": "sales", "store_id": store, "window_start": start}
                producer.produce(RESTATEMENTS, msgspec.json.encode(told), store, place)
        assert producer.flush(30) == 0
