"""Reads the pushes of line and zone counts of Xovis sensors, firmware 5.

A body has the records of one sensor by logic: an object, a list of objects, or, as a stream sends
them, objects without separators. Source: Xovis "Sensor V5 API" 5.6.
"""

import re
from collections.abc import Iterator
from typing import Any

from ingest.contract import vendor
from ingest.contract.vendor import BodyItem, SkippedPart, UnreadablePart, VendorBody
from ingest.contract.wire import MAX_DEPTH, JsonObject, field_error, parse_object
from ingest.sources.traffic import device
from ingest.sources.traffic.device import PushHead
from tally.errors import RejectedEvent

# Matches up to the next brace, skipping the texts before it; an unclosed text reaches to the end.
_UP_TO_BRACE = re.compile(rb'(?:[^{}"]++|"(?:[^"\\]++|\\.)*+"?+)*+([{}]|\Z)', re.DOTALL)
_BETWEEN = b", \t\r\n"
_LEVELS = ("balance", "occupancy")
_NOT_COUNTED = "connection tests and states"
_NO_EVENT = ("connection_test", "live_data")


def messages(body: VendorBody) -> Iterator[bytes | SkippedPart]:
    """Yield a message for each record of each logic that was over when it was sent.

    The same range pushed again, with other package ids, gives the same messages. Raises
    RejectedEvent for a body of another shape; BodyTooLarge.
    """
    return vendor.collect_parts(_translate_parts(body), body.budget)


def _translate_parts(body: VendorBody) -> Iterator[BodyItem]:
    vendor.count_values(body.content, body.budget)
    for package in _packages(body.content):
        body.budget.count_steps()
        if isinstance(package, UnreadablePart):
            yield package
            continue
        try:
            yield from _messages(vendor.require_object(package, ""), body)
        except RejectedEvent as error:
            yield vendor.make_placeholder(package, error.with_traceback(None))


def _messages(package: JsonObject, body: VendorBody) -> Iterator[BodyItem]:
    """Yield the messages of a package. Raises RejectedEvent only before the first of them."""
    if "logics_data" in package:
        yield from _logics(vendor.require_object(package["logics_data"], "/logics_data"), body)
    elif "status_data" in package:
        status = vendor.require_object(package["status_data"], "/status_data")
        yield from vendor.guard_event(_heartbeats(status, body), "status_data")
    elif any(name in package for name in _NO_EVENT):
        yield SkippedPart(_NOT_COUNTED)
    else:
        raise field_error("missing_field", "/logics_data", "the field is missing")


def _logics(data: JsonObject, body: VendorBody) -> Iterator[BodyItem]:
    at = "/logics_data/sensor_info"
    sensor = vendor.require_object(data.get("sensor_info"), at)
    serial = vendor.require_value(sensor, "serial_number", at)
    serial = vendor.read_name(serial, f"{at}/serial_number")
    sent = device.read_time(sensor, "time")
    for place, logic in vendor.enumerate_items(data.get("logics"), "/logics_data/logics"):
        try:
            logic_id = vendor.require_object(logic, place).get("id")
            name = "None" if logic_id is None else vendor.read_name(logic_id, f"{place}/id")
        except RejectedEvent as error:
            yield vendor.make_placeholder(logic, error.with_traceback(None), serial)
            continue
        logic_serial = f"{serial}:{name}"
        clock = body.rules.sensor(logic_serial).entry.clock
        yield from _records(logic, place, PushHead(logic_serial, clock, sent))


def _records(logic: JsonObject, at: str, head: PushHead) -> Iterator[BodyItem]:
    # Without records the rest of the logic is all that the error can show.
    records = logic.get("records", logic)
    if not isinstance(records, list):
        error = field_error("wrong_type", f"{at}/records", "a list is wanted")
        yield vendor.make_placeholder(records, error, head.serial)
        return
    for place, record in vendor.enumerate_items(records, f"{at}/records"):
        if isinstance(record, dict):
            yield from vendor.guard_event(_record(record, head), record, head.serial)
        else:
            error = field_error("wrong_type", place, "an object is wanted")
            yield vendor.make_placeholder(record, error, head.serial)


def _record(record: JsonObject, head: PushHead) -> Iterator[bytes | SkippedPart]:
    counts = vendor.read_counts(record.get("counts"), "name", "value")
    # A level may be set by hand, and be negative: it does not count persons in or out.
    if counts and all(name in _LEVELS for name, _ in counts):
        yield SkippedPart("levels, as balance and occupancy")
    elif device.is_unfinished(record.get("to"), head.sent, head.clock):
        yield SkippedPart(device.UNFINISHED)
    else:
        beside = {name: record.get(name) for name in ("samples", "samples_expected")}
        span = record.get("from"), record.get("to")
        yield device.encode_interval(head, span, counts, **beside)


def _heartbeats(data: JsonObject, body: VendorBody) -> Iterator[bytes | SkippedPart]:
    """A heartbeat for each logic: only with include_empty are records without persons sent."""
    sensor = vendor.require_object(data.get("sensor_info", {}), "/status_data/sensor_info")
    time = device.read_time(sensor, "time")
    logics = body.rules.logic_serials(sensor.get("serial_number"))
    if not logics:
        yield SkippedPart(_NOT_COUNTED)
    for logic in logics:
        entry = body.rules.sensor(logic).entry
        yield device.encode_heartbeat(logic, time, entry.clock, entry.status_seconds)


def _packages(content: bytes) -> Iterator[Any]:
    """Yield the packages of a body in order, an UnreadablePart for what is no JSON."""
    if content.lstrip().startswith(b"["):
        wrapped = b'{"all":%s}' % content
        try:
            packages = parse_object(wrapped, len(wrapped))["all"]
        except RejectedEvent:
            # The list is then read item by item, because some may be valid.
            content = content.lstrip()[1:]
        else:
            yield from packages
            return
    for piece in _pieces(content):
        try:
            yield parse_object(piece, len(piece))
        except RejectedEvent as error:
            # The contract will find the same error.
            yield UnreadablePart(error.with_traceback(None), piece)


def _pieces(content: bytes) -> Iterator[bytes]:
    """The outermost objects of a body, without a list's commas, and the rest behind the last."""
    begin, depth = 0, 0
    for token in _UP_TO_BRACE.finditer(content):
        depth += {b"{": 1, b"}": -1}.get(token[1], 0)
        if depth > MAX_DEPTH:
            break
        if token[1] == b"}" and depth <= 0:
            yield content[begin : token.end()].lstrip(_BETWEEN)
            begin, depth = token.end(), 0
    rest = content[begin:].lstrip(_BETWEEN)
    if rest.rstrip() not in (b"", b"]") or not begin:
        yield rest
