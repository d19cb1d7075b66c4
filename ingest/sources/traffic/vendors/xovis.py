"""Reads the pushes of line and zone counts of Xovis sensors, firmware 5.

A body has the records of one sensor by logic: an object, a list of objects, or, as a stream sends
them, objects without separators. Source: Xovis "Sensor V5 API" 5.6.
"""

import re
from collections.abc import Iterator
from typing import Any

from ingest.contract.vendor import (
    NamedCounts,
    SkippedPart,
    UnreadablePart,
    VendorBody,
    collect_parts,
    count_values,
    enumerate_items,
    guard_event,
    make_placeholder,
    read_counts,
    read_name,
    require_object,
    require_value,
    wrong_type_error,
)
from ingest.contract.wire import MAX_DEPTH, JsonObject, parse_object
from ingest.sources.traffic.device import (
    UNFINISHED,
    PushHead,
    encode_heartbeat,
    encode_interval,
    is_unfinished,
    read_time,
    round_to_second,
)
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
    return collect_parts(_translate_parts(body), body.budget)


def _translate_parts(body: VendorBody) -> Iterator[bytes | SkippedPart | UnreadablePart]:
    count_values(body.content, body.budget)
    for package in _packages(body.content):
        body.budget.count_steps()
        if isinstance(package, UnreadablePart):
            yield package
            continue
        try:
            yield from _messages(require_object(package, ""), body)
        except RejectedEvent as error:
            yield make_placeholder(package, error.with_traceback(None))


def _messages(
    package: JsonObject, body: VendorBody
) -> Iterator[bytes | SkippedPart | UnreadablePart]:
    """Yield the messages of a package. Raises RejectedEvent only before the first of them."""
    if "logics_data" in package:
        yield from _logics(require_object(package["logics_data"], "/logics_data"), body)
    elif "status_data" in package:
        status = require_object(package["status_data"], "/status_data")
        yield from guard_event(_heartbeats(status, body), "status_data")
    elif any(name in package for name in _NO_EVENT):
        yield SkippedPart(_NOT_COUNTED)
    else:
        raise RejectedEvent("missing_field", "/logics_data", "/logics_data: the field is missing")


def _logics(data: JsonObject, body: VendorBody) -> Iterator[bytes | SkippedPart | UnreadablePart]:
    at = "/logics_data/sensor_info"
    device = require_object(data.get("sensor_info"), at)
    serial = read_name(require_value(device, "serial_number", at), f"{at}/serial_number")
    sent = read_time(device, "time")
    for place, logic in enumerate_items(data.get("logics"), "/logics_data/logics"):
        if not isinstance(logic, dict):
            yield make_placeholder(logic, wrong_type_error("object", place), serial)
            continue
        try:
            logic_serial = f"{serial}:{_logic_name(logic, place)}"
        except RejectedEvent as error:
            yield make_placeholder(logic, error.with_traceback(None), serial)
            continue
        clock = body.rules.sensor(logic_serial).entry.clock
        yield from _records(logic, place, PushHead(logic_serial, clock, sent))


def _logic_name(logic: JsonObject, at: str) -> str:
    logic_id = logic.get("id")
    return "None" if logic_id is None else read_name(logic_id, f"{at}/id")


def _records(
    logic: JsonObject, at: str, head: PushHead
) -> Iterator[bytes | SkippedPart | UnreadablePart]:
    # Without records the rest of the logic is all that the error can show.
    records = logic.get("records", logic)
    if not isinstance(records, list):
        yield make_placeholder(records, wrong_type_error("list", f"{at}/records"), head.serial)
        return
    for place, record in enumerate_items(records, f"{at}/records"):
        if isinstance(record, dict):
            yield from guard_event(_record(record, head), record, head.serial)
        else:
            yield make_placeholder(record, wrong_type_error("object", place), head.serial)


def _record(record: JsonObject, head: PushHead) -> Iterator[bytes | SkippedPart]:
    named_counts = read_counts(record.get("counts"), "name", "value")
    if _is_level(named_counts):
        yield SkippedPart("levels, as balance and occupancy")
    elif is_unfinished(record.get("to"), head.sent, head.clock):
        yield SkippedPart(UNFINISHED)
    else:
        yield _message(record, named_counts, head)


def _heartbeats(data: JsonObject, body: VendorBody) -> Iterator[bytes | SkippedPart]:
    """Yield a heartbeat for each logic of the sensor, even if it has nothing else to send.

    Only a sensor that is set so (include_empty) sends records without persons.
    """
    device = require_object(data.get("sensor_info", {}), "/status_data/sensor_info")
    time = read_time(device, "time")
    logics = body.rules.logic_serials(device.get("serial_number"))
    if not logics:
        yield SkippedPart(_NOT_COUNTED)
    for logic in logics:
        entry = body.rules.sensor(logic).entry
        yield encode_heartbeat(logic, time, entry.clock, entry.status_seconds)


def _is_level(named_counts: NamedCounts) -> bool:
    # A level may be set by hand, and be negative: it does not count persons in or out.
    return bool(named_counts) and all(name in _LEVELS for name, _ in named_counts)


def _message(record: JsonObject, named_counts: NamedCounts, head: PushHead) -> bytes:
    beside = {name: record.get(name) for name in ("samples", "samples_expected")}
    span = record.get("from"), record.get("to")
    sent = round_to_second(head.sent, head.clock)
    return encode_interval(head.serial, span, named_counts, head.clock, sent=sent, **beside)


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
    """Yield the outermost objects of a body, and the rest behind the last one.

    The commas of a list are not part of a piece.
    """
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
