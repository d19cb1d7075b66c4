"""Ticks of the real pipeline: normaliser and speed layer as processes, on a broker of their own."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Event, Thread

import msgspec
import pytest

from alerting.watermark.ticker import TOPIC, Ticker, read_ticks
from ops.local.processes.service import Site
from runtime.kafka.broker_clock import read_broker_time
from runtime.kafka.reader import read_to_end
from runtime.registry.sources import FAMILIES
from tally.alerts.tick import Tick
from tally.config.settings import Settings
from tally.events.identity import partition_number
from tally.time.instants import to_millis
from tests.integration.speed.test_job import job, wait_until
from tests.support.clients.producers import connected_producer
from tests.support.sources.canonical import receipt
from tests.unit.ingest.messages import TRAFFIC, encoded, pos

STORE = 367
LONG_SECONDS = 600
STANDS_STILL = 4  # ticks; two would do where nothing waits


@dataclass
class Running:
    """The pipeline's processes by name, and a ticker that ticks when it is told to."""

    site: Site
    ticker: Ticker
    held: dict[str, ExitStack] = field(default_factory=dict)
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        """Those of the site."""
        return self.site.settings

    def start(self, module: str) -> None:
        """The process works."""
        self.held[module] = ExitStack()
        self.processes[module] = self.held[module].enter_context(job(self.site, module))

    def stop(self, module: str) -> None:
        """The process has ended as it does when it is told to."""
        self.processes[module].send_signal(signal.SIGTERM)
        self.processes[module].wait(LONG_SECONDS)
        self.held.pop(module).close()

    def sell(self) -> int:
        """A receipt and a count of persons of the store, now; an instant after they came."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        number = time.time_ns() % 10**9
        producer = connected_producer(self.settings)
        message = pos(happened_at=at, operation_id=STORE, transaction_id=number)
        producer.produce("posTransactionTopic", encoded(message))
        interval = {**TRAFFIC, "store_id": str(STORE), "happened_at": at[:17] + "00+00:00"}
        producer.produce("raw-traffic", encoded(interval))
        assert producer.flush(30) == 0
        return to_millis(read_broker_time(self.settings))

    def through(self, family: str) -> dict[int, int]:
        """What the next tick says, by partition; 0 where nothing."""
        return {at: tick.through.get(family, 0) for at, tick in self.ticker.tick().items()}

    def is_through(self, family: str, instant: int) -> bool:
        """Whether the next tick says that of all partitions."""
        return min(self.through(family).values()) >= instant

    def stands_still(self, family: str, instant: int, partition: int) -> bool:
        """Whether none of the next ticks says that the partition is through the instant."""
        said = [self.through(family)[partition] for _ in range(STANDS_STILL)]
        return max(said) <= instant


NORMALISER, SPEED = "ingest.normaliser", "speed_layer.job"


@pytest.fixture(scope="module")
def pipeline(own_site: Site) -> Iterator[Running]:
    """Everything runs, and has come through once."""
    running = Running(own_site, Ticker(own_site.settings))
    try:
        running.start(NORMALISER)
        running.start(SPEED)
        sold = running.sell()
        wait_until(lambda: running.is_through("sales", sold), LONG_SECONDS)
        yield running
    finally:
        running.ticker.close()
        for held in running.held.values():
            held.close()


@contextmanager
def open_transaction(settings: Settings, partition: int) -> Iterator[None]:
    """A record on the canonical topic of receipts in a transaction, aborted after the block."""
    producer = connected_producer(settings, {"transactional.id": "open"})
    producer.init_transactions(30)
    producer.begin_transaction()
    record = msgspec.json.encode(receipt(str(STORE), 1, datetime.now(UTC)))
    producer.produce("sales", record, str(STORE), partition)
    assert producer.flush(30) == 0
    yield
    producer.abort_transaction()


def own(running: Running) -> int:
    return partition_number(str(STORE), running.settings.partitions)


def test_ticks_go_on_while_records_flow_and_in_partitions_without_any(pipeline: Running) -> None:
    sold = pipeline.sell()

    wait_until(lambda: pipeline.is_through("sales", sold), LONG_SECONDS)
    wait_until(lambda: pipeline.is_through("traffic", sold), LONG_SECONDS)
    # Nobody has ever sent one of these.
    wait_until(lambda: pipeline.is_through("wifi", sold), LONG_SECONDS)
    ticks = pipeline.ticker.tick()
    assert {tick.epoch["sales"].floor for tick in ticks.values()} == {0}
    assert all(tick.flips.keys() == {*FAMILIES} for tick in ticks.values())
    assert read_ticks(pipeline.settings) == dict(ticks)


def test_open_transaction_holds_back_its_partition_alone(pipeline: Running) -> None:
    partition = own(pipeline)
    with open_transaction(pipeline.settings, partition):
        opened = to_millis(read_broker_time(pipeline.settings))

        assert pipeline.stands_still("sales", opened, partition)
        others = pipeline.through("sales")
        del others[partition]
        assert min(others.values()) > opened

    # Behind it lie markers alone.
    wait_until(lambda: pipeline.is_through("sales", opened + 1), LONG_SECONDS)


def test_without_the_normaliser_the_source_that_waits_stands_still(pipeline: Running) -> None:
    pipeline.stop(NORMALISER)
    before = to_millis(read_broker_time(pipeline.settings))
    sold = pipeline.sell()

    assert pipeline.stands_still("sales", sold, own(pipeline))
    assert pipeline.is_through("wifi", before)

    pipeline.start(NORMALISER)
    wait_until(lambda: pipeline.is_through("sales", sold), LONG_SECONDS)


def test_without_the_speed_layer_the_partition_with_records_stands_still(
    pipeline: Running,
) -> None:
    pipeline.stop(SPEED)
    before = to_millis(read_broker_time(pipeline.settings))
    sold = pipeline.sell()
    partition = own(pipeline)

    assert pipeline.stands_still("sales", sold, partition)
    quiet = (partition + 1) % pipeline.settings.partitions
    wait_until(lambda: pipeline.through("sales")[quiet] > before, LONG_SECONDS)

    pipeline.start(SPEED)
    wait_until(lambda: pipeline.is_through("sales", sold), LONG_SECONDS)


def test_ticker_that_starts_anew_goes_on_from_what_was_said_and_waits_for_who_is_away(
    pipeline: Running,
) -> None:
    settings = pipeline.settings.model_copy(update={"tick_seconds": 0.2})
    before = dict(pipeline.ticker.tick())
    deaf = settings.model_copy(update={"cassandra": "127.0.0.1:1"})
    stopped = Event()
    thread = Thread(target=Ticker(deaf).run, args=(stopped,))

    thread.start()
    wait_until(lambda: all(_has_counted(settings, before)), LONG_SECONDS)
    stopped.set()
    thread.join(LONG_SECONDS)
    known = last_ticks(settings)

    # Without Cassandra ticks say what had been said, and that the clock has gone on.
    assert not thread.is_alive()
    assert {at: one.through for at, one in known.items()} == {
        at: one.through for at, one in before.items()
    }
    assert all(known[at].at > one.at for at, one in before.items())


def last_ticks(settings: Settings) -> dict[int, Tick]:
    """The last of each partition alone: no more is sure to be kept of a compacted topic."""
    return {
        int(message.partition() or 0): Tick.decode(bytes(message.value() or b""))
        for message in read_to_end(settings, [TOPIC])
    }


def _has_counted(settings: Settings, before: dict[int, Tick]) -> list[bool]:
    known = last_ticks(settings)
    return [known[at].n >= one.n + 3 for at, one in before.items()]
