"""Every value that an honest reader may see of a window: the sums over each prefix of the window's committed events."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any
from uuid import uuid4

from confluent_kafka import TopicPartition

from tally.connect import kafka_consumer
from tally.settings import Settings
from tally.windows import window_start
from tests.readers import METRICS, Told

Key = tuple[str, datetime]
Seen = tuple[int, int]


def no_prefix(settings: Settings, told: Iterable[Told]) -> list[Told]:
    """What readers were told that no prefix of the committed events gives."""
    allowed = prefix_values(settings)

    def is_prefix(store: str, start: datetime, metric: str, value: int) -> bool:
        return value in {seen[METRICS.index(metric)] for seen in allowed.get((store, start), {(0, 0)})}

    return [cell for cell in told if not is_prefix(*cell)]


def prefix_values(settings: Settings) -> dict[Key, set[Seen]]:
    """(receipts, net cents) after each committed event, by (store, window); each begins with (0, 0).

    First by offset: a second copy of an identity in its window changes nothing. A conflict that lies in another window
    than its first copy may be shown there (speed) or not (after a rebuild took it back): both are prefixes.
    """
    shown: dict[Key, Seen] = defaultdict(lambda: (0, 0))
    kept: dict[Key, Seen] = defaultdict(lambda: (0, 0))
    allowed: dict[Key, set[Seen]] = defaultdict(lambda: {(0, 0)})
    first_window: dict[tuple[str, str], datetime] = {}
    known: set[tuple[str, str, datetime]] = set()
    for event in canonical_sales(settings):
        store, identity = event["store_id"], event["event_id"]
        window = window_start(datetime.fromisoformat(event["happened_at"]))
        if (store, identity, window) in known:
            continue
        known.add((store, identity, window))
        key, adds = (store, window), _adds(event)
        shown[key] = (shown[key][0] + adds[0], shown[key][1] + adds[1])
        if first_window.setdefault((store, identity), window) == window:
            kept[key] = (kept[key][0] + adds[0], kept[key][1] + adds[1])
        allowed[key] |= {shown[key], kept[key]}
    return dict(allowed)


def _adds(event: dict[str, Any]) -> Seen:
    return event["receipts"], event["gross_minor"] - event["returns_minor"] - event["voids_minor"]


def canonical_sales(settings: Settings) -> Iterator[dict[str, Any]]:
    """Every committed canonical receipt, in offset order within its partition."""
    consumer = kafka_consumer(settings, f"prefixes-{uuid4()}", {"enable.partition.eof": True})
    try:
        partitions = list(consumer.list_topics("sales", timeout=10).topics["sales"].partitions)
        consumer.assign([TopicPartition("sales", partition, 0) for partition in partitions])
        ended: set[int | None] = set()
        while len(ended) < len(partitions):
            for message in consumer.consume(10_000, timeout=1.0):
                if (error := message.error()) is not None:
                    assert error.name() == "_PARTITION_EOF", error
                    ended.add(message.partition())
                else:
                    yield json.loads(message.value() or b"")
    finally:
        consumer.close()
