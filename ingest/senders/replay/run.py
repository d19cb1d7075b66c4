"""One replay: sends its planned messages at their times, and records how far it has come."""

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ingest.senders.gateway_client import Channel
from ingest.senders.replay.complete_journey import Extent, ReplayScope, receipts
from ingest.senders.replay.perturbation import Perturbation, plan_messages
from runtime.connect import kafka_producer
from runtime.kafka.producer import BlockingProducer
from runtime.process.files import write_atomically
from runtime.process.output import show_progress
from tally.config.settings import Settings
from tally.time.instants import format_utc

_FLUSH_EVERY_MESSAGES = 5_000
_FLUSH_EVERY_SECONDS = 5.0
_KAFKA_FLUSH_SECONDS = 120.0
# How early a message may be sent: this saves a system call for each message.
_EARLY_SECONDS = 0.005


@dataclass(frozen=True)
class ProgressRecord:
    """The number of acknowledged messages of one replay, kept in a file named by its options."""

    file: Path

    @classmethod
    def for_options(cls, home: Path, options: str) -> "ProgressRecord":
        """The record of a replay with these options under TALLY_HOME."""
        name = blake2b(options.encode(), digest_size=8).hexdigest()
        return cls(home / "data" / "replay" / f"{name}.json")

    def load(self) -> int:
        """Messages acknowledged so far; 0 without a record."""
        if not self.file.is_file():
            return 0
        return int(json.loads(self.file.read_text("utf-8"))["acknowledged"])

    def save(self, acknowledged: int) -> None:
        """Replace the record in one step, so that a kill leaves the old one or the new one."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.file, json.dumps({"acknowledged": acknowledged}))


class KafkaChannel:
    """Sends to the raw topic, keyed by store so that a store's messages keep their order."""

    def __init__(self, settings: Settings, topic: str) -> None:
        self._topic = topic
        buffer = {"queue.buffering.max.messages": 100_000, "linger.ms": 20, "batch.size": 500_000}
        self._sender = BlockingProducer(kafka_producer(settings, buffer), _KAFKA_FLUSH_SECONDS)
        self._address = settings.kafka

    def send(self, key: str, value: bytes) -> None:
        """Hand one message to the producer; waits while its buffer is full."""
        self._sender.send(self._topic, value, key)

    def flush(self) -> None:
        """Block until the brokers have acknowledged everything; else raise SendFailed."""
        fix = "start it with `tally up kafka`, then replay --resume"
        self._sender.flush(f"replay to Kafka at {self._address}", fix)


@dataclass(frozen=True)
class Replay:
    """One replay: its receipts, disturbances, and speed in multiples of real time (0: no limit)."""

    scope: ReplayScope
    extent: Extent
    plan: Perturbation
    speed: float

    def run(self, channel: Channel, record: ProgressRecord, sent_before: int) -> dict[str, Any]:
        """Send all but the first `sent_before` messages; returns the counts of the whole replay."""
        counts: Counter[str] = Counter()
        wait, flushed_at, shown = _pace(self.speed), time.monotonic(), 0

        def flush(number: int) -> None:
            nonlocal flushed_at, shown
            channel.flush()
            # The record is saved last: after a crash in between some messages are sent twice, but
            # none is lost.
            record.save(number)
            advance(_receipts(counts) - shown)
            flushed_at, shown = time.monotonic(), _receipts(counts)

        messages = plan_messages(receipts(self.scope), self.plan)
        with show_progress("receipts sent", self.extent.receipts) as advance:
            for number, message in enumerate(messages, start=1):
                counts[message.kind] += 1
                if number <= sent_before:
                    continue
                wait(message.send_at)
                channel.send(message.key, message.value)
                seconds = time.monotonic() - flushed_at
                if number % _FLUSH_EVERY_MESSAGES == 0 or seconds > _FLUSH_EVERY_SECONDS:
                    flush(number)
            flush(counts.total())
        return _result(counts, self.extent)


def _receipts(counts: Counter[str]) -> int:
    """The number of messages that are real receipts; disturbances do not count."""
    return counts["original"] + counts["late"]


def _pace(speed: float) -> Callable[[float], None]:
    """A function that returns when the event time is due."""
    if speed == 0:
        return lambda _send_at: None
    # Times count from the beginning and not from the last message, so delays do not add up.
    begun, first = time.monotonic(), None

    def wait(send_at: float) -> None:
        nonlocal first
        first = send_at if first is None else first
        ahead = begun + (send_at - first) / speed - time.monotonic()
        if ahead > _EARLY_SECONDS:
            time.sleep(ahead)

    return wait


def _result(counts: Counter[str], extent: Extent) -> dict[str, Any]:
    return {
        "receipts": _receipts(counts),
        "sent": counts.total(),
        "duplicates": counts["duplicate"],
        "late": counts["late"],
        "from": None if extent.first is None else format_utc(extent.first),
        "to": None if extent.last is None else format_utc(extent.last),
        "conflicts": counts["conflict"],
        "bad": counts["bad"],
    }
