"""An interval as a device says it, which knows its serial and no store.

The adapters of vendors' forms make such messages; the contract reads them by the stores file. So
what a device sent before somebody had listed it lies as it came in a dead letter, and counts once
it is replayed.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from ingest.contract.arrival import Rules, Sensor
from ingest.contract.vendor import MOST_NAME, DeviceSpan, NamedCounts, message
from ingest.contract.wire import JsonObject
from tally.errors import BadInstant, RejectedEvent
from tally.identity import bare_serial
from tally.instants import instant_text, parse_instant

UNFINISHED = "intervals that were not over when they were sent"
_FIELDS = ("sensor", "happened_at", "until", "sent", "counts")
_UNITS = {"unix_s": timedelta(seconds=1), "unix_ms": timedelta(milliseconds=1)}
_MOST_DIGITS = 20
_HALF_SECOND = timedelta(milliseconds=500)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class PushHead(NamedTuple):
    """What stands once in a push and in the message of each of its intervals: the device's serial,
    its clock, and when the push was sent, as the device wrote it."""

    serial: str
    clock: str
    sent: Any


def bounded_time(fields: JsonObject, name: str) -> Any:
    """A field that should be an instant, as it is; None for what can be none, however large."""
    said = fields.get(name)
    is_large = isinstance(said, dict | list | str) and len(said) > MOST_NAME
    return None if is_large or isinstance(said, dict | list) else said


def told(
    sensor: Any, span: DeviceSpan, counts: NamedCounts, clock: str = "rfc3339", **beside: Any
) -> bytes:
    """The message of one interval: serial, begin and end, counts by name, as the device said them.

    Instants of another clock become texts where it is known: the normaliser takes what waits in
    their order. `beside` is what else is worth keeping, and `sent`, when it was sent.
    """
    begins, ends = (to_second(one, clock) for one in span)
    sensor = bare_serial(sensor) if isinstance(sensor, str) else sensor
    return message(sensor=sensor, happened_at=begins, until=ends, counts=counts, **beside)


def heartbeat(serial: str, said: Any, clock: str, every_seconds: int) -> bytes:
    """The message of a device that was there up to an instant, as it wrote that by its clock."""
    ends = instant_of(said, clock)
    if ends is None:
        return message(sensor=serial, happened_at=said, until=said, heartbeat=True)
    # Records tell of whole seconds.
    ends = ends.replace(microsecond=0)
    try:
        begins = instant_text(ends - timedelta(seconds=every_seconds))
    except OverflowError:
        # A clock at the begin of the calendar: refused for that.
        begins = instant_text(ends)
    return message(sensor=serial, happened_at=begins, until=instant_text(ends), heartbeat=True)


def plain(tree: JsonObject, rules: Rules) -> JsonObject:
    """The same with a store: the fields of a message, as the stores file tells the device's.

    Anything but a device's message stays as it is. What cannot be read stays as it came, for the
    contract to name. Raises RejectedEvent: unknown_sensor, out_of_range.
    """
    if "store_id" in tree or "sensor" not in tree:
        return tree
    sensor = rules.sensor(tree["sensor"])
    if sensor.store_id is None:
        raise RejectedEvent(
            "unknown_sensor",
            "/sensor",
            "/sensor: no store of the stores file has this serial; list it under `sensors` of its"
            " store, then replay this letter",
        )
    entry = sensor.entry
    if is_unfinished(tree.get("until"), tree.get("sent"), entry.clock):
        raise RejectedEvent("out_of_range", "/until", "/until: lies after the instant of sending")
    said = tree.get("happened_at"), tree.get("until")
    begins, ends = (_second_of(one, entry.clock) for one in said)
    if begins is not None:
        _refuse_not_there(sensor, rules.clocks.day(sensor.store_id, begins))
    return {
        **{name: value for name, value in tree.items() if name not in _FIELDS},
        "store_id": sensor.store_id,
        "device_id": sensor.device_id,
        "happened_at": instant_text(begins) if begins else said[0],
        "interval_seconds": _seconds(ends - begins) if begins and ends else said[1],
        **_persons("in", entry.entries, tree),
        **_persons("out", entry.exits, tree),
    }


def _refuse_not_there(sensor: Sensor, day: date) -> None:
    """Raise RejectedEvent for a device that is not in the store then: its name is another's, whose
    intervals would be taken for copies of these."""
    entry = sensor.entry
    # On the day of a change it may be either.
    if not (entry.since or day) <= day <= (entry.until or day):
        since, until = (one or "…" for one in (entry.since, entry.until))
        raise RejectedEvent(
            "out_of_range",
            "/happened_at",
            f"/happened_at: on {day} this device is not in the store (since {since}, until {until}"
            " in the stores file); correct these days, then replay this letter",
        )


def is_unfinished(ends: Any, sent: Any, clock: str) -> bool:
    """Whether the interval ends after it was sent, both as the device wrote them by its clock.

    Sent again later it would have another count: a conflict, of which the first one stays.
    """
    over, told_at = instant_of(ends, clock), instant_of(sent, clock)
    return over is not None and told_at is not None and over > told_at


def instant_of(value: Any, clock: str) -> datetime | None:
    """The instant (UTC) that a device wrote, RFC 3339 or by this clock; None for what is none."""
    try:
        if clock == "rfc3339" or (isinstance(value, str) and "T" in value):
            return parse_instant(value, "") if isinstance(value, str) else None
        return _EPOCH + _whole(value) * _UNITS[clock]
    except (BadInstant, ValueError, ArithmeticError):
        return None


def to_second(said: Any, clock: str) -> Any:
    """The nearest whole second of an instant as a device wrote it, as text; what is none as it
    came.

    Intervals have whole seconds, and a device's timer is some milliseconds late: 10:00:00.013 to
    10:01:00.010 is a minute.
    """
    instant = _second_of(said, clock)
    return said if instant is None else instant_text(instant)


def _second_of(said: Any, clock: str) -> datetime | None:
    instant = instant_of(said, clock)
    if instant is None or not instant.microsecond:
        return instant
    try:
        return (instant + _HALF_SECOND).replace(microsecond=0)
    except OverflowError:
        # The last half second of the calendar.
        return instant


def _persons(field: str, names: Sequence[str], tree: JsonObject) -> JsonObject:
    """The one count that has one of the names; nothing where none has.

    Two stay a list, which no contract takes: nobody says which of them is meant.
    """
    pairs = _pairs(tree.get("counts"))
    found = [count for name, count in pairs if name in names]
    return {field: found if len(found) > 1 else found[0]} if found else {}


def _pairs(counts: Any) -> list[list[Any]]:
    """Of what lies in the raw topic, which somebody else may have written."""
    listed = counts if isinstance(counts, list) else []
    lists = [one for one in listed if isinstance(one, list)]
    return [pair for pair in lists if len(pair) == 2]


def _whole(value: Any) -> int:
    """Raises ValueError for what is no whole number of a few digits."""
    # Looked at before it is made a number: 1e999999999 is one of a billion digits.
    if type(value) is Decimal and value.adjusted() < _MOST_DIGITS and value == int(value):
        return int(value)
    if type(value) is int or (isinstance(value, str) and len(value) < _MOST_DIGITS):
        return int(value)
    raise ValueError(value)


def _seconds(length: timedelta) -> int | Decimal:
    seconds = Decimal(length // timedelta(milliseconds=1)) / 1000
    return int(seconds) if seconds == int(seconds) else seconds
