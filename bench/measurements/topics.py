"""Ten topics in one query: `python -m bench.measurements.topics` times intervals until they are
announced.

It sends 20 a second on each topic. It prints the seconds from the record's acknowledgement to its
`view-updates` record, and the processor time of the idle query.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles

import msgspec
import psutil
from confluent_kafka import OFFSET_BEGINNING, TopicPartition
from confluent_kafka.admin import NewTopic

from bench.lib.compared import say
from bench.lib.harness import own_stack
from bench.lib.processes import process_cpu
from ops import provision
from runtime.connect import kafka_admin, kafka_consumer, kafka_producer
from runtime.kafka.producer import BlockingProducer
from runtime.registry.sources import TRAFFIC
from speed_layer.session import build_streaming_session, read_canonical_stream
from speed_layer.state.sink import UPDATES_TOPIC
from speed_layer.views import start_views
from tally.config.settings import Settings
from tally.events.identity import partition_number
from tests.integration.speed.query import OnTopic
from tests.support.sources.canonical import interval

TOPICS, RATE, WARM_SECONDS, IDLE_SECONDS = 10, 20, 30, 20
ANSWER_SECONDS = 60.0
HAPPENED_AT = datetime(2026, 3, 2, 12, tzinfo=UTC)


class AnnouncedWindows:
    """When each store's window was announced, in monotonic seconds by store and event count.

    The topic is read from its beginning, since this run created it: "latest" asks for the group's
    position first, and would start at the end of the topic at the time of the answer.
    """

    def __init__(self, settings: Settings) -> None:
        self.seen: dict[tuple[str, int], float] = {}
        self._consumer = kafka_consumer(settings, "bench-topics")
        self._consumer.assign(
            [
                TopicPartition(UPDATES_TOPIC, number, OFFSET_BEGINNING)
                for number in range(settings.partitions)
            ]
        )
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            found = self._consumer.poll(0.05)
            if found is not None and found.error() is None:
                update = json.loads(found.value() or b"{}")
                self.seen.setdefault((update["store_id"], update["events"]), time.monotonic())


def send_for(
    settings: Settings,
    seconds: float,
    begin: int,
) -> dict[tuple[str, int], float]:
    """Send RATE records per second and topic for some seconds.

    Returns when each was sent, in monotonic seconds by store and number. Each record is the next
    event of its store's window.
    """
    sender = BlockingProducer(kafka_producer(settings), ANSWER_SECONDS)
    stop, sent = time.monotonic() + seconds, dict[tuple[str, int], float]()
    number = begin
    while time.monotonic() < stop:
        tick, number = time.monotonic(), number + 1
        for topic in range(TOPICS):
            store = f"s{topic}"
            value = msgspec.json.encode(interval(store, f"door-{number}", HAPPENED_AT))
            sender.send(
                f"bench-{topic}", value, store, partition_number(store, settings.partitions)
            )
            sent[store, number] = time.monotonic()
        sender.flush("bench topics", "look into the broker's log")
        time.sleep(max(0.0, tick + 1 / RATE - time.monotonic()))
    return sent


def speed_processes() -> Iterator[psutil.Process]:
    """Yield the JVM of the query, and its Python workers."""
    for process in psutil.Process().children(recursive=True):
        # A process that has just ended has no command line any more.
        with suppress(psutil.NoSuchProcess):
            command = " ".join(process.cmdline())
            if "runtime.spark.workers" in command or "SparkSubmit" in command:
                yield process


def main() -> int:
    """Return 0 when every window was announced with its last event."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=40.0)
    options = parser.parse_args()
    with own_stack() as bench, tempfile.TemporaryDirectory(prefix="bench-checkpoints-") as folder:
        settings = bench.settings.model_copy(
            update={"checkpoints": Path(folder), "spark_master": "local[2]", "spark_memory": "1g"}
        )
        provision.create_tables(settings)
        names = [f"bench-{number}" for number in range(TOPICS)]
        admin = kafka_admin(settings)
        wanted = [NewTopic(name, settings.partitions, 1) for name in names]
        for outcome in admin.create_topics(wanted).values():
            outcome.result(30)
        spark = build_streaming_session(settings)
        starting = {name: dict.fromkeys(range(settings.partitions), 0) for name in names}
        families = [OnTopic.of(TRAFFIC, name) for name in names]
        query = start_views(
            read_canonical_stream(spark, settings, starting, settings.micro_batch_records),
            families,
            {},
            settings,
        )
        announced, warm = AnnouncedWindows(settings), send_for(settings, WARM_SECONDS, 0)
        query.processAllAvailable()
        speed = list(speed_processes())
        before, began = sum(map(process_cpu, speed)), time.monotonic()
        time.sleep(IDLE_SECONDS)
        cores = (sum(map(process_cpu, speed)) - before) / (time.monotonic() - began)
        print(f"idle: {cores:.2f} of a core, JVM and workers")
        last = max(number for _, number in warm)
        # The numbers continue, because the warm-up records are in the windows too.
        sent = send_for(settings, options.seconds, last)
        query.processAllAvailable()
        # The micro-batch has ended, but the watching thread may be one poll behind.
        time.sleep(2)
        waited = sorted(first_at_least(announced, key) - at for key, at in sent.items())
        cut = quantiles(waited, n=100)
        found = f"p50 {median(waited):.2f} s, p90 {cut[89]:.2f} s, p99 {cut[98]:.2f} s"
        print(f"{TOPICS} topics, {RATE} a second each, {len(waited):,} events: {found}")
        say(f"micro-batches: {query.lastProgress['batchId'] if query.lastProgress else 0}")
        query.stop()
        spark.stop()
    os._exit(0)


def first_at_least(announced: AnnouncedWindows, key: tuple[str, int]) -> float:
    """When the store's window was first announced with at least this many events.

    The result is in monotonic seconds. Raises SystemExit when it never was announced.
    """
    store, number = key
    found = [
        # `>=`: a window that got two records in one micro-batch is announced once.
        at
        for (other, events), at in announced.seen.items()
        if other == store and events >= number
    ]
    if not found:
        raise SystemExit(f"event {number} of {store} was never announced; no number")
    return min(found)


if __name__ == "__main__":
    sys.exit(main())
