"""Normalises a people counter's message as an interval, and cuts it at quarter hours."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from msgspec.structs import replace

from ingest.contract import fields as read
from ingest.contract.wire import JsonObject, clean_extra, field_error, parse_object, unknown_fields
from ingest.installation.arrival import Arrival, Rules
from ingest.sources.traffic.device import resolve_store
from tally.algebra.parts import KeyedSum
from tally.events import identity
from tally.events.identity import SCHEMA_VERSION, VERSION, CanonicalEvent
from tally.time.instants import format_utc, parse_instant
from tally.time.windows import WINDOW, WINDOW_SECONDS, window_start

MAX_PERSONS = 1_000_000
MAX_SECONDS = 3600
MAX_REVISION = 999_999_999
_COUNTS = ("in", "out", "passers_by", "groups_in")
_HEAD = ("schema_version", "store_id", "device_id", "happened_at", "interval_seconds")
_FIELDS = frozenset((*_HEAD, "heartbeat", "revision", *_COUNTS))
_OPTIONAL = frozenset(("schema_version", "heartbeat", "revision", "passers_by", "groups_in"))
# By the role of a door that is no entrance, the part to which its persons are added.
_ENTRIES: Mapping[str, str] = {
    "inner_door": "inner_entries",
    "zone": "inner_entries",
    "shared_door": "shared_entries",
    "staff_door": "staff_entries",
}
_COUNTED = ("entries", "exits", "passers_by", "entries_with_passers", "groups_in")
_ZERO_COUNTS = dict.fromkeys(_COUNTED, 0)
_MILLISECOND = timedelta(milliseconds=1)
_ELSEWHERE = ("closed_entries", "inner_entries", "shared_entries", "staff_entries")
_FLOWING_COUNTS = (*_COUNTED, *_ELSEWHERE)
# An interval of one hour that begins within a quarter hour ends in the fourth one after it.
MAX_SHARES = 5
# A whole second and half of one, in milliseconds; seconds are rounded half up.
_SECOND, _HALF_SECOND = 1000, 500


class CanonicalInterval(CanonicalEvent, frozen=True, omit_defaults=True, kw_only=True):
    """One people counter interval, normalised; happened_at is its start."""

    device_id: str
    interval_seconds: int
    entries: int
    exits: int
    # omit_defaults leaves out default values; counts have no default, so that a zero is written.
    passers_by: int
    # The passers-by of a counter that does not look outside are unknown, not zero: entries are
    # compared with passers-by only for the counters that count both.
    entries_with_passers: int
    # If a counter knows no groups, each person is one (the published rule of counters that do).
    groups_in: int
    # Without persons these seconds decide: it was silence if the counter was not there, and zero
    # persons if it was.
    observed_seconds: int
    # Persons who came in during an interval wholly outside the opening hours; not in `entries`.
    closed_entries: int = 0
    # Persons who came in where the counter watches no entrance; then there are no other counts.
    inner_entries: int = 0
    shared_entries: int = 0
    staff_entries: int = 0
    # 1 for a share of an interval with persons that began in an earlier quarter hour (`continued`),
    # or goes on in a later one (`continues`).
    continued: int = 0
    continues: int = 0


class _Persons(NamedTuple):
    """The persons that were counted; None where the device does not count them."""

    entries: int
    exits: int
    passers_by: int | None
    groups_in: int | None


def normalise(message: bytes | None, arrival: Arrival, rules: Rules) -> CanonicalInterval:
    """Normalise a message as an interval. Raises RejectedEvent and nothing else, for any bytes."""
    sent_tree = _without_nulls(parse_object(message, rules.max_bytes))
    tree = resolve_store(sent_tree, rules)
    read.refuse_unknown_version(tree, SCHEMA_VERSION)
    happened_at = read.event_instant(tree, arrival, rules)
    store_id = read.identifier(read.require_field(tree, "store_id"), "/store_id")
    device_id = read.identifier(read.require_field(tree, "device_id"), "/device_id")
    # A device that sends its serial is identified by it; others by their name and the day.
    sensor_entries = () if tree is sent_tree else (rules.sensor(sent_tree["sensor"]).entry,)
    listed = sensor_entries or rules.device_entries(store_id, device_id, happened_at)
    happened_at -= timedelta(seconds=listed[-1].clock_ahead_seconds)
    seconds = _seconds(tree)
    _refuse_unfinished(happened_at + timedelta(seconds=seconds), arrival, rules)
    if is_heartbeat := read.is_heartbeat(tree, (*_COUNTS, "revision")):
        persons = _Persons(0, 0, None, None)
    else:
        _refuse_other_length(seconds, {entry.interval_seconds for entry in listed})
        persons = _persons(tree)
    instant, role = format_utc(happened_at), listed[-1].role
    comes = persons.entries > 0 and role == "entrance"
    is_closed = comes and rules.is_closed(store_id, happened_at, seconds)
    # A device may send a heartbeat and counts for the same minutes: these are two events.
    source = "traffic-heartbeat" if is_heartbeat else "traffic"
    # The highest of several versions counts.
    revision = read.whole_number(tree.get("revision", 0), "/revision", 0, MAX_REVISION)
    interval = identity.interval_id(source, store_id, device_id, instant)
    event_id = identity.version_id(interval, revision)
    key = identity.sensor_key(int(identity.digest_text(device_id), 16))
    return CanonicalInterval(
        schema_version=SCHEMA_VERSION,
        event_id=event_id,
        store_id=store_id,
        happened_at=instant,
        received_at=arrival.timestamp_text,
        fingerprint=identity.fingerprint([event_id, seconds, *persons]),
        raw_partition=arrival.partition,
        raw_offset=arrival.offset,
        device_id=device_id,
        interval_seconds=seconds,
        **_counts(persons, role, is_closed),
        # This holds for an interval within one window; shares() sets it for each share otherwise.
        observed_seconds=KeyedSum.encode(key, min(seconds, WINDOW_SECONDS)),
        extra=clean_extra(unknown_fields(tree, _FIELDS)),
    )


def _without_nulls(tree: JsonObject) -> JsonObject:
    """The fields without optional ones that are null: a counter without such a count sends null."""
    absent = {name for name in _OPTIONAL if name in tree and tree[name] is None}
    return {name: value for name, value in tree.items() if name not in absent}


def _counts(persons: _Persons, role: str, is_closed: bool) -> dict[str, Any]:
    """The counts of a record; persons who enter while the store is closed are no visitors."""
    comes, groups = persons.entries, persons.groups_in
    if role != "entrance":
        return {**_ZERO_COUNTS, _ENTRIES[role]: comes}
    visitors = 0 if is_closed else comes
    return {
        "entries": visitors,
        "exits": persons.exits,
        "passers_by": persons.passers_by or 0,
        "entries_with_passers": 0 if persons.passers_by is None else visitors,
        "groups_in": visitors if groups is None or is_closed else groups,
        "closed_entries": comes - visitors,
    }


def _persons(tree: JsonObject) -> _Persons:
    def count(name: str) -> int:
        return read.whole_number(read.require_field(tree, name), f"/{name}", 0, MAX_PERSONS)

    more = [count(name) if name in tree else None for name in ("passers_by", "groups_in")]
    return _Persons(count("in"), count("out"), *more)


def _seconds(tree: JsonObject) -> int:
    # A message from a CSV file has no such field; the error names the file's columns instead.
    if isinstance(why := tree.get("why"), str) and "columns" in tree:
        raise field_error("out_of_range", "/columns", why)
    value = read.require_field(tree, "interval_seconds")
    return read.whole_number(value, "/interval_seconds", 1, MAX_SECONDS)


def _refuse_unfinished(ends: datetime, arrival: Arrival, rules: Rules) -> None:
    # If it were sent again after its end it would have other counts: a conflict, in which the first
    # message wins.
    if ends - arrival.received_at > rules.future_tolerance:
        arrived = f"after its arrival at {arrival.timestamp_text}; send it when it is over"
        what = f"the interval ends at {format_utc(ends)}, {arrived}"
        raise field_error("future_time", "/interval_seconds", what)


def _refuse_other_length(seconds: int, taken: Collection[int | None]) -> None:
    # A day that is sent in minutes and again in quarter hours would be counted twice.
    if not {None, seconds} & {*taken}:
        lengths = " or ".join(sorted(map(str, taken)))
        what = f"{lengths} is taken of this device (stores file), got {seconds}"
        raise field_error("out_of_range", "/interval_seconds", what)


def shares(whole: CanonicalInterval) -> Sequence[CanonicalInterval]:
    """One record for each quarter hour that the interval touches, in order.

    An interval within one quarter hour is returned as it is. A later version has a record for each
    quarter hour that any version may touch. Persons are whole numbers: their number up to each
    border is the nearest to an even flow, and the shares add up to the interval. For example, 12
    persons from 10:14:53 on for a quarter of an hour:

        share | from     | seconds | up to its end | persons
        0     | 10:14:53 | 7       | 0.09          | 0
        1     | 10:15:00 | 893     | 12            | 12
    """
    start = parse_instant(whole.happened_at, "/happened_at")
    found = _cut(whole, start)
    if whole.event_id.startswith(VERSION):
        found = [*found, *_empty_shares(whole, start, len(found))]
    return found


def _cut(whole: CanonicalInterval, start: datetime) -> Sequence[CanonicalInterval]:
    length = whole.interval_seconds * _SECOND
    ends = _borders(start, length)
    if len(ends) == 1:
        return (whole,)
    counts: dict[str, int] = {name: getattr(whole, name) for name in _FLOWING_COUNTS}
    has_persons = any(counts.values())
    key = whole.observed_seconds >> KeyedSum.AMOUNT_BITS
    cut_shares = []
    for number, (first, end) in enumerate(pairwise((0, *ends))):
        seconds = (end + _HALF_SECOND) // _SECOND - (first + _HALF_SECOND) // _SECOND
        persons = {
            name: _up_to(end, count, length) - _up_to(first, count, length)
            for name, count in counts.items()
        }
        share = replace(
            whole,
            # The first share has the interval's own id: another record with it is a duplicate, or a
            # conflict.
            event_id=identity.share_id(whole.event_id, number),
            happened_at=format_utc(start + first * _MILLISECOND),
            interval_seconds=seconds,
            observed_seconds=KeyedSum.encode(key, seconds),
            continued=int(has_persons and first > 0),
            continues=int(has_persons and end < length),
            **persons,
        )
        cut_shares.append(share)
    return cut_shares


def _empty_shares(
    whole: CanonicalInterval, start: datetime, first: int
) -> Iterator[CanonicalInterval]:
    """The empty shares after the end of a version: the version before may have been longer."""
    key = whole.observed_seconds >> KeyedSum.AMOUNT_BITS
    for number in range(first, MAX_SHARES):
        yield replace(
            whole,
            event_id=identity.share_id(whole.event_id, number),
            happened_at=format_utc(window_start(start) + number * WINDOW),
            interval_seconds=0,
            observed_seconds=KeyedSum.encode(key, 0),
            **dict.fromkeys(_FLOWING_COUNTS, 0),
        )


def _borders(start: datetime, length: int) -> list[int]:
    """Milliseconds from the start to the end of each share: a quarter hour's or the interval's."""
    to_next = (window_start(start) + WINDOW - start) // _MILLISECOND
    return [*range(to_next, length, WINDOW // _MILLISECOND), length]


def _up_to(end: int, count: int, length: int) -> int:
    """The whole number of persons nearest to an even flow up to a border; a half rounds up."""
    return (2 * count * end + length) // (2 * length)
