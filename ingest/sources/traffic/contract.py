"""People counter message to canonical interval (contracts: Messages, TRAFFIC)."""

from ingest.contract import fields as read
from ingest.contract.arrival import Arrival, Rules
from ingest.contract.extras import kept_extra, unknown_fields
from ingest.contract.wire import parsed
from ingest.sources.traffic.device import plain
from tally.errors import RejectedEvent
from tally.events import SCHEMA_VERSION, CanonicalEvent
from tally.identity import fingerprint, interval_id
from tally.instants import instant_text
from tally.windows import WINDOW_SECONDS

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


class CanonicalInterval(CanonicalEvent, frozen=True, omit_defaults=True, kw_only=True):
    """One people counter interval, normalised; happened_at is its start."""

    device_id: str
    interval_seconds: int
    entries: int
    exits: int
    # With omit_defaults a default value is left out: counts have none, so a zero is written.
    passers_by: int
    # Of a counter that does not look outside none are known, which is not nobody: who came in is
    # compared with who passed by of those alone that count both.
    entries_with_passers: int


def normalised(message: bytes | None, arrival: Arrival, rules: Rules) -> CanonicalInterval:
    """The interval that the message is.

    Raises RejectedEvent and nothing else, whatever the bytes.
    """
    tree = plain(parsed(message, rules.max_bytes), rules)
    read.refuse_unknown_version(tree, SCHEMA_VERSION)
    happened_at = read.happened(tree, arrival, rules)
    store_id = read.identifier(read.required(tree, "store_id"), "/store_id")
    device_id = read.identifier(read.required(tree, "device_id"), "/device_id")
    seconds = read.whole_number(
        read.required(tree, "interval_seconds"), "/interval_seconds", 1, WINDOW_SECONDS
    )
    _refuse_other_length(seconds, rules.interval_of(store_id, device_id))
    read.refuse_crossing(happened_at, seconds)
    entries = read.whole_number(read.required(tree, "in"), "/in", 0, MAX_PERSONS)
    exits = read.whole_number(read.required(tree, "out"), "/out", 0, MAX_PERSONS)
    passers_by = read.whole_number(tree.get("passers_by", 0), "/passers_by", 0, MAX_PERSONS)
    looks_outside = "passers_by" in tree
    instant = instant_text(happened_at)
    event_id = interval_id("traffic", store_id, device_id, instant)
    return CanonicalInterval(
        schema_version=SCHEMA_VERSION,
        event_id=event_id,
        store_id=store_id,
        happened_at=instant,
        received_at=arrival.received_text,
        fingerprint=fingerprint(
            [event_id, seconds, entries, exits, passers_by if looks_outside else None]
        ),
        raw_partition=arrival.partition,
        raw_offset=arrival.offset,
        device_id=device_id,
        interval_seconds=seconds,
        entries=entries,
        exits=exits,
        passers_by=passers_by,
        entries_with_passers=entries if looks_outside else 0,
        extra=kept_extra(unknown_fields(tree, _FIELDS)),
    )


def _refuse_other_length(seconds: int, wanted: int | None) -> None:
    # A day that is sent in minutes, and again in quarter hours, is two sets of other events.
    if wanted is not None and seconds != wanted:
        raise RejectedEvent(
            "out_of_range",
            "/interval_seconds",
            f"/interval_seconds: {wanted} is taken of this device (stores file), got {seconds}",
        )
