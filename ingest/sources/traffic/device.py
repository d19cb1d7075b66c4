"""Messages of devices that know their serial but no store, which the stores file gives them.

So those of a device that is not listed yet lie in dead letters, and count once they are replayed.
"""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from ingest.contract.vendor import MAX_NAME, DevicePair, encode_message
from ingest.contract.wire import JsonObject, field_error
from ingest.installation.arrival import Rules, Sensor
from tally.errors import BadInstant
from tally.events.identity import normalise_serial
from tally.time.instants import format_utc, parse_instant
from tally.time.windows import EPOCH

UNFINISHED = "intervals that were not over when they were sent"
_FIELDS = ("sensor", "happened_at", "until", "sent", "counts")
_UNITS = {"unix_s": timedelta(seconds=1), "unix_ms": timedelta(milliseconds=1)}
_MAX_DIGITS = 20
_HALF_SECOND = timedelta(milliseconds=500)


class PushHead(NamedTuple):
    """The head of a push: serial, clock, and when it was sent, as the device wrote it."""

    serial: str
    clock: str
    sent: Any


def read_time(fields: JsonObject, name: str) -> Any:
    """The unchanged value of a field that should be an instant; None if it cannot be one."""
    value = fields.get(name)
    is_large = isinstance(value, dict | list | str) and len(value) > MAX_NAME
    return None if is_large or isinstance(value, dict | list) else value


def encode_interval(
    head: PushHead, span: DevicePair, counts: Sequence[DevicePair], **beside: Any
) -> bytes:
    """The message of one interval as the device sent it, with fields `beside` worth keeping."""
    # Texts of any known clock, because the normaliser orders waiting messages by them.
    instants = (*span, head.sent)
    begins, ends, sent = (_round_to_second(instant, head.clock) for instant in instants)
    times = {"happened_at": begins, "until": ends}
    serial = normalise_serial(head.serial)
    return encode_message(sensor=serial, **times, counts=counts, sent=sent, **beside)


def encode_heartbeat(serial: str, instant: Any, clock: str, every_seconds: int) -> bytes:
    """The message of a device that was there for `every_seconds` seconds up to an instant."""
    ends = _read_instant(instant, clock)
    if ends is None:
        return encode_message(sensor=serial, happened_at=instant, until=instant, heartbeat=True)
    # Records have whole seconds.
    ends = ends.replace(microsecond=0)
    try:
        begins = format_utc(ends - timedelta(seconds=every_seconds))
    except OverflowError:
        # The clock shows the beginning of the calendar, so the contract refuses the instant.
        begins = format_utc(ends)
    return encode_message(sensor=serial, happened_at=begins, until=format_utc(ends), heartbeat=True)


def resolve_store(tree: JsonObject, rules: Rules) -> JsonObject:
    """A device's message as one with a store, any other unchanged. Raises RejectedEvent."""
    if "store_id" in tree or "sensor" not in tree:
        return tree
    sensor = rules.sensor(tree["sensor"])
    if sensor.store_id is None:
        what = "no store of the stores file has this serial"
        fix = "list it under `sensors` of its store, then replay this letter"
        raise field_error("unknown_sensor", "/sensor", f"{what}; {fix}")
    entry = sensor.entry
    if is_unfinished(tree.get("until"), tree.get("sent"), entry.clock):
        raise field_error("out_of_range", "/until", "lies after the instant of sending")
    times = tree.get("happened_at"), tree.get("until")
    begins, ends = (_nearest_second(time, entry.clock) for time in times)
    if begins is not None:
        _refuse_absent_device(sensor, rules.clocks.day(sensor.store_id, begins))
    return {
        **{name: value for name, value in tree.items() if name not in _FIELDS},
        "store_id": sensor.store_id,
        "device_id": sensor.device_id,
        "happened_at": format_utc(begins) if begins else times[0],
        "interval_seconds": _seconds(ends - begins) if begins and ends else times[1],
        **_persons("in", entry.entries, tree),
        **_persons("out", entry.exits, tree),
    }


def _refuse_absent_device(sensor: Sensor, day: date) -> None:
    """Refuse a day on which the device's name is another's: these would seem its duplicates."""
    entry = sensor.entry
    # On the day of a change both devices may send.
    if not (entry.since or day) <= day <= (entry.until or day):
        since, until = (bound or "…" for bound in (entry.since, entry.until))
        listed = f"(since {since}, until {until} in the stores file)"
        fix = "correct these days, then replay this letter"
        what = f"on {day} this device is not in the store {listed}; {fix}"
        raise field_error("out_of_range", "/happened_at", what)


def is_unfinished(ends: Any, sent: Any, clock: str) -> bool:
    """Whether an interval ends after it was sent: sent again later it would be a conflict."""
    over, sent_at = _read_instant(ends, clock), _read_instant(sent, clock)
    return over is not None and sent_at is not None and over > sent_at


def _read_instant(value: Any, clock: str) -> datetime | None:
    """The instant (UTC) that a device wrote, in RFC 3339 or by this clock; None if it is none."""
    try:
        if clock == "rfc3339" or (isinstance(value, str) and "T" in value):
            return parse_instant(value, "") if isinstance(value, str) else None
        return EPOCH + _to_integer(value) * _UNITS[clock]
    except (BadInstant, ValueError, ArithmeticError):
        return None


def _round_to_second(value: Any, clock: str) -> Any:
    """The nearest second as text: timers are milliseconds late. Any other value unchanged."""
    instant = _nearest_second(value, clock)
    return value if instant is None else format_utc(instant)


def _nearest_second(value: Any, clock: str) -> datetime | None:
    instant = _read_instant(value, clock)
    if instant is None or not instant.microsecond:
        return instant
    try:
        return (instant + _HALF_SECOND).replace(microsecond=0)
    except OverflowError:
        # This happens in the last half second of the calendar.
        return instant


def _persons(field: str, names: Sequence[str], tree: JsonObject) -> JsonObject:
    """The count of one of the names as the field, if any; several stay a list, to be refused."""
    counts = tree.get("counts")
    # Other items are dropped: any program may write to the raw topic.
    items = counts if isinstance(counts, list) else []
    pairs = [item for item in items if isinstance(item, list) and len(item) == 2]
    matches = [count for name, count in pairs if name in names]
    return {field: matches if len(matches) > 1 else matches[0]} if matches else {}


def _to_integer(value: Any) -> int:
    """The value as an int. Raises ValueError for anything but a whole number of a few digits."""
    # Checked before the conversion: 1e999999999 would be a number of a billion digits.
    if type(value) is Decimal and value.adjusted() < _MAX_DIGITS and value == int(value):
        return int(value)
    if type(value) is int or (isinstance(value, str) and len(value) < _MAX_DIGITS):
        return int(value)
    raise ValueError(value)


def _seconds(length: timedelta) -> int | Decimal:
    seconds = Decimal(length // timedelta(milliseconds=1)) / 1000
    return int(seconds) if seconds == int(seconds) else seconds
