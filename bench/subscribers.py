"""Who waits for alerts: of each step when it was seen, in monotonic seconds."""

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

from bench.freshness import PATIENCE_SECONDS
from runtime.connect import kafka_consumer
from runtime.topics import ends
from serving.alerts.evaluator.calendar import millis_of
from tally.alerts.ids import window_text
from tally.instants import instant_text
from tally.settings import Settings

RECORDED, ANNOUNCED, TOLD, HEARD, CALLED = STEPS = (
    "canonical",
    "view",
    "alert record",
    "SSE",
    "webhook",
)
TOPICS = {"traffic": RECORDED, "view-updates": ANNOUNCED, "alerts": TOLD}
# So often who watches a topic looks whether it is over.
_POLL_SECONDS = 0.05


class CrossedBy(NamedTuple):
    """An interval with which a store came to a threshold, and the rule that says so then.

    `events`: how many intervals of its window the store had had with it.
    """

    store: str
    rule_id: str
    happened_at: str
    events: int


class Sightings:
    """All that was seen by anybody; `window`: start of the one that is measured."""

    def __init__(self, window: datetime) -> None:
        # As the views' topics have it, and as alerts do.
        self._window, self._alerted = instant_text(window), window_text(millis_of(window))
        self._recorded: dict[tuple[str, str], float] = {}
        self._announced: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self._alerts: dict[str, dict[tuple[str, str], float]] = defaultdict(dict)
        # By step how often each alert came.
        self.times: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)

    def of(self, crossed: CrossedBy) -> dict[str, float]:
        """By step when it was seen, monotonic seconds; without those that have not come."""
        alert = crossed.store, crossed.rule_id
        # Or more: a window that two intervals have reached in one micro-batch is announced once.
        reached = (at for events, at in self._announced[crossed.store] if events >= crossed.events)
        found = {
            RECORDED: self._recorded.get((crossed.store, crossed.happened_at)),
            ANNOUNCED: next(reached, None),
        }
        found |= {step: told.get(alert) for step, told in self._alerts.items()}
        return {step: at for step, at in found.items() if at is not None}

    def see_record(self, topic: str, value: dict[str, Any]) -> None:
        """A record of one of TOPICS."""
        now, store = time.monotonic(), value["store_id"]
        if TOPICS[topic] == RECORDED:
            self._recorded.setdefault((store, value["happened_at"]), now)
        elif TOPICS[topic] == TOLD:
            self.see_alert(TOLD, value)
        elif value["window_start"] == self._window:
            self._announced[store].append((value["events"], now))

    def see_alert(self, step: str, alert: dict[str, Any]) -> None:
        """An alert, by one of those who are told of it."""
        now, named = time.monotonic(), (alert["store_id"], alert["rule_id"])
        # Ends and other states are of no interest here.
        if alert["edge"] == "raise" and alert["window"]["start"] == self._alerted:
            self._alerts[step].setdefault(named, now)
            self.times[step][named] += 1


@contextmanager
def watching(settings: Settings, seen: Sightings) -> Iterator[None]:
    """The topics and the stream are watched while the block runs, from their ends on.

    Raises SystemExit when the stream does not answer.
    """
    over, is_connected = threading.Event(), threading.Event()
    topics = threading.Thread(target=_watch_topics, args=(_at_the_ends(settings), seen, over))
    # A daemon: between two events nobody can end it.
    stream = threading.Thread(
        target=_watch_stream, args=(settings, seen, is_connected), daemon=True
    )
    for thread in (topics, stream):
        thread.start()
    if not is_connected.wait(PATIENCE_SECONDS):
        raise SystemExit("the stream of alerts does not answer")
    try:
        yield
    finally:
        over.set()
        topics.join()


def _at_the_ends(settings: Settings) -> Any:
    consumer = kafka_consumer(settings, "bench-alerts")
    consumer.assign(
        [
            TopicPartition(topic, number, end)
            for topic, of in ends(consumer, TOPICS, PATIENCE_SECONDS).items()
            for number, end in of.items()
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
    # It breaks off when the stack ends.
    with (
        suppress(httpx.TransportError),
        httpx.Client(timeout=PATIENCE_SECONDS) as client,
        client.stream("GET", f"http://{settings.api}/v1/alerts/stream") as answer,
    ):
        for line in answer.iter_lines():
            is_connected.set()
            name, _, content = line.partition(": ")
            if name == "data" and "alert_id" in (told := json.loads(content)):
                seen.see_alert(HEARD, told)


@contextmanager
def webhook(seen: Sightings) -> Iterator[int]:
    """The port of a receiver that takes every call, while the block runs."""

    class AlertReceiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if told["type"].startswith("alert."):
                for one in told["data"].get("alerts", [told["data"]]):
                    seen.see_alert(CALLED, one)
            self.send_response(httpx.codes.NO_CONTENT)
            self.end_headers()

        def log_message(self, *_words: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), AlertReceiver)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
