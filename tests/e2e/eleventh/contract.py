"""Queue camera message to canonical queue interval."""

from ingest.contract import fields as read
from ingest.contract.wire import clean_extra, parse_object, unknown_fields
from ingest.installation.arrival import Arrival, Rules
from tally.events.identity import (
    SCHEMA_VERSION,
    CanonicalEvent,
    digest_number,
    fingerprint,
    interval_id,
)
from tally.time.instants import format_utc
from tally.time.windows import WINDOW_SECONDS

MOST = 1_000_000
TEXTS = ("store_id", "device_id", "queue")
COUNTS = ("arrived", "waited_seconds", "longest_wait", "queue_length")
KNOWN = frozenset(("schema_version", "happened_at", "interval_seconds", *TEXTS, *COUNTS))


class QueueInterval(CanonicalEvent, frozen=True, omit_defaults=True, kw_only=True):
    """One interval of one camera, normalised."""

    device_id: str
    queue: str
    interval_seconds: int
    arrived: int
    waited_seconds: int
    longest_wait: int
    queue_length: int
    camera: int


def normalise(message: bytes | None, arrival: Arrival, rules: Rules) -> QueueInterval:
    """The interval that the message is. Raises RejectedEvent, whatever the bytes."""
    tree = parse_object(message, rules.max_bytes)
    read.refuse_unknown_version(tree, SCHEMA_VERSION)
    happened_at = read.event_instant(tree, arrival, rules)
    store_id, device_id, queue = (
        read.identifier(read.require_field(tree, name), f"/{name}") for name in TEXTS
    )
    seconds = read.whole_number(
        read.require_field(tree, "interval_seconds"), "/interval_seconds", 1, WINDOW_SECONDS
    )
    read.refuse_crossing(happened_at, seconds)
    arrived, waited_seconds, longest_wait, queue_length = (
        read.whole_number(read.require_field(tree, name), f"/{name}", 0, MOST) for name in COUNTS
    )
    instant = format_utc(happened_at)
    event_id = interval_id("queues", store_id, device_id, instant)
    return QueueInterval(
        schema_version=SCHEMA_VERSION,
        event_id=event_id,
        store_id=store_id,
        happened_at=instant,
        received_at=arrival.timestamp_text,
        fingerprint=fingerprint(
            [event_id, queue, seconds, arrived, waited_seconds, longest_wait, queue_length]
        ),
        raw_partition=arrival.partition,
        raw_offset=arrival.offset,
        device_id=device_id,
        queue=queue,
        interval_seconds=seconds,
        arrived=arrived,
        waited_seconds=waited_seconds,
        longest_wait=longest_wait,
        queue_length=queue_length,
        camera=digest_number(device_id),
        extra=clean_extra(unknown_fields(tree, KNOWN)),
    )
