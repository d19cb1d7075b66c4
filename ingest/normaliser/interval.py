"""People counter message to canonical interval (contracts: Messages, TRAFFIC)."""

from datetime import datetime, timedelta

from ingest.normaliser import fields as read
from ingest.normaliser.arrival import Arrival, Rules
from ingest.normaliser.extras import kept_extra, unknown_fields
from ingest.normaliser.receipt import happened
from ingest.normaliser.wire import parsed
from tally.errors import RejectedEvent
from tally.events import SCHEMA_VERSION, CanonicalInterval
from tally.identity import fingerprint, interval_id
from tally.instants import instant_text
from tally.windows import WINDOW, window_start

MAX_PERSONS = 1_000_000
_FIELDS = frozenset(
    (
        "schema_version",
        "store_id",
        "device_id",
        "happened_at",
        "interval_seconds",
        "in",
        "out",
        "passers_by",
    )
)


def normalised_interval(message: bytes | None, arrival: Arrival, rules: Rules) -> CanonicalInterval:
    """The interval that the message is.

    Raises RejectedEvent and nothing else, whatever the bytes.
    """
    tree = parsed(message, rules.max_bytes)
    read.refuse_unknown_version(tree, SCHEMA_VERSION)
    happened_at = happened(tree, arrival, rules)
    store_id = read.identifier(read.required(tree, "store_id"), "/store_id")
    device_id = read.identifier(read.required(tree, "device_id"), "/device_id")
    seconds = read.whole_number(
        read.required(tree, "interval_seconds"), "/interval_seconds", 1, 900
    )
    _refuse_crossing(happened_at, seconds)
    entries = read.whole_number(read.required(tree, "in"), "/in", 0, MAX_PERSONS)
    exits = read.whole_number(read.required(tree, "out"), "/out", 0, MAX_PERSONS)
    passers_by = read.whole_number(tree.get("passers_by", 0), "/passers_by", 0, MAX_PERSONS)
    instant = instant_text(happened_at)
    event_id = interval_id(store_id, device_id, instant)
    return CanonicalInterval(
        schema_version=SCHEMA_VERSION,
        event_id=event_id,
        store_id=store_id,
        happened_at=instant,
        received_at=arrival.received_text,
        fingerprint=fingerprint([event_id, seconds, entries, exits, passers_by]),
        raw_partition=arrival.partition,
        raw_offset=arrival.offset,
        device_id=device_id,
        interval_seconds=seconds,
        entries=entries,
        exits=exits,
        passers_by=passers_by,
        extra=kept_extra(unknown_fields(tree, _FIELDS)),
    )


def _refuse_crossing(start: datetime, seconds: int) -> None:
    # The interval is [start, start + seconds): it may end exactly where its window ends.
    if start + timedelta(seconds=seconds) > window_start(start) + WINDOW:
        raise RejectedEvent(
            "interval_crosses_window",
            "/interval_seconds",
            "/interval_seconds: the interval must lie inside one 15-minute window",
        )
