"""The subscribers of alerts, and the times at which they saw each step, in monotonic seconds."""

import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import httpx
from confluent_kafka import TopicPartition

from alerting.alert.ids import window_text
from runtime.connect import kafka_consumer
from runtime.kafka.topics import read_ends
from tally.config.settings import Settings
from tally.time.instants import format_utc, to_millis

TIMEOUT_SECONDS = 60.0

RECORDED, ANNOUNCED, PUBLISHED, STREAMED, CALLED = STEPS = (
    "canonical",
    "view",
    "alert record",
    "SSE",
    "webhook",
)
TOPICS = {"traffic": RECORDED, "view-updates": ANNOUNCED, "alerts": PUBLISHED}
# How often the watcher of a topic checks whether to stop.
_POLL_SECONDS = 0.05


class ThresholdCrossing(NamedTuple):
    """An interval with which a store crossed a threshold, and the rule of the threshold.

    `events`: the number of the store's intervals in the window, including this one.
    """

    store: str
    rule_id: str
    happened_at: str
    events: int


class Sightings:
    """All sightings at all steps; `window` is the start of the measured window."""

    def __init__(self, window: datetime) -> None:
        # The start as text in the format of the views' topics, and in that of alerts.
        self._window, self._alerted = format_utc(window), window_text(to_millis(window))
        self._recorded: dict[tuple[str, str], float] = {}
        self._announced: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self._alerts: dict[str, dict[tuple[str, str], float]] = defaultdict(dict)
        # How often each alert arrived, by step.
        self.times: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)

    def step_times(self, crossed: ThresholdCrossing) -> dict[str, float]:
        """When the interval was seen, in monotonic seconds by step; steps not seen are absent."""
        alert = crossed.store, crossed.rule_id
        # `>=`: a window that got two intervals in one micro-batch is announced once.
        reached = (at for events, at in self._announced[crossed.store] if events >= crossed.events)
        found = {
            RECORDED: self._recorded.get((crossed.store, crossed.happened_at)),
            ANNOUNCED: next(reached, None),
        }
        found |= {step: seen.get(alert) for step, seen in self._alerts.items()}
        return {step: at for step, at in found.items() if at is not None}

    def see_record(self, topic: str, value: dict[str, Any]) -> None:
        """Note a record of one of TOPICS."""
        now, store = time.monotonic(), value["store_id"]
        if TOPICS[topic] == RECORDED:
            self._recorded.setdefault((store, value["happened_at"]), now)
        elif TOPICS[topic] == PUBLISHED:
            self.see_alert(PUBLISHED, value)
        elif value["window_start"] == self._window:
            self._announced[store].append((value["events"], now))

    def see_alert(self, step: str, alert: dict[str, Any]) -> None:
        """Note an alert that a subscriber of this step received."""
        now, key = time.monotonic(), (alert["store_id"], alert["rule_id"])
        # Only raises in the measured window count.
        if alert["edge"] == "raise" and alert["window"]["start"] == self._alerted:
            self._alerts[step].setdefault(key, now)
            self.times[step][key] += 1


@contextmanager
def watching(settings: Settings, seen: Sightings) -> Iterator[None]:
    """Watch the topics and the stream, from their ends, while the block runs.

    Raises SystemExit when the stream does not answer.
    """
    over, is_connected = threading.Event(), threading.Event()
    topics = threading.Thread(target=_watch_topics, args=(_consumer_at_ends(settings), seen, over))
    # A daemon, because a thread that waits for the next event cannot be stopped.
    stream = threading.Thread(
        target=_watch_stream, args=(settings, seen, is_connected), daemon=True
    )
    for thread in (topics, stream):
        thread.start()
    if not is_connected.wait(TIMEOUT_SECONDS):
        raise SystemExit("the stream of alerts does not answer")
    try:
        yield
    finally:
        over.set()
        topics.join()


def _consumer_at_ends(settings: Settings) -> Any:
    consumer = kafka_consumer(settings, "bench-alerts")
    consumer.assign(
        [
            TopicPartition(topic, number, end)
            for topic, partitions in read_ends(consumer, TOPICS, TIMEOUT_SECONDS).items()
            for number, end in partitions.items()
        ]
    )
    return consumer


def _watch_topics(consumer: Any, seen: Sightings, over: threading.Event) -> None:
    while not over.is_set():
        found = consumer.poll(_POLL_SECONDS)
        if found is not None and found.error() is None:
            value = json.loads(found.value() or b"{}")
            seen.see_record(str(found.topic()), value)
    consumer.close()


def _watch_stream(settings: Settings, seen: Sightings, is_connected: threading.Event) -> None:
    # The connection breaks when the stack ends.
    with (
        suppress(httpx.TransportError),
        httpx.Client(timeout=TIMEOUT_SECONDS) as client,
        client.stream("GET", f"http://{settings.api}/v1/alerts/stream") as answer,
    ):
        for line in answer.iter_lines():
            is_connected.set()
            name, _, content = line.partition(": ")
            if name == "data" and "alert_id" in (alert := json.loads(content)):
                seen.see_alert(STREAMED, alert)


@contextmanager
def webhook(seen: Sightings) -> Iterator[int]:
    """Run a webhook receiver that accepts every call; yields its port."""

    class AlertReceiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if body["type"].startswith("alert."):
                for alert in body["data"].get("alerts", [body["data"]]):
                    seen.see_alert(CALLED, alert)
            self.send_response(httpx.codes.NO_CONTENT)
            self.end_headers()

        def log_message(self, *_words: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), AlertReceiver)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
