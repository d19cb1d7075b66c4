"""Xovis sensors, firmware 5: pushes of line and zone counts.

A body has the records of one sensor by logic, an object, a list of such, or, as a stream sends
them, objects without anything between them. Source: Xovis "Sensor V5 API" 5.6.
"""

import re
from collections.abc import Iterator
from typing import Any

from ingest.contract.vendor import NamedCounts, Skipped, VendorBody, an_object, counts, objects
from ingest.contract.wire import MAX_DEPTH, JsonObject, parsed
from ingest.sources.traffic.device import UNFINISHED, heartbeat, is_unfinished, told
from tally.errors import RejectedEvent

# A text that does not end is one token too: else each quote in it would be looked at anew.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"?+|[{}]', re.DOTALL)
_LEVELS = ("balance", "occupancy")
_NOT_COUNTED = "connection tests and states"
_NO_EVENT = ("connection_test", "live_data")


def messages(body: VendorBody) -> Iterator[bytes | Skipped]:
    """A message for each record of each logic that was over when it was sent.

    The same range pushed again, with other package ids, gives the same messages. Raises
    RejectedEvent for a body of another shape.
    """
    for tree in _trees(body.content):
        if "logics_data" in tree:
            yield from _messages(an_object(tree["logics_data"], "/logics_data"), body)
        elif "status_data" in tree:
            yield from _heartbeats(an_object(tree["status_data"], "/status_data"), body)
        elif not any(name in tree for name in _NO_EVENT):
            raise RejectedEvent(
                "missing_field", "/logics_data", "/logics_data: the field is missing"
            )
        else:
            yield Skipped(_NOT_COUNTED)


def _messages(data: JsonObject, body: VendorBody) -> Iterator[bytes | Skipped]:
    device = an_object(data.get("sensor_info"), "/logics_data/sensor_info")
    for at, logic in objects(data.get("logics"), "/logics_data/logics"):
        serial = f"{device.get('serial_number')}:{logic.get('id')}"
        sent, clock = device.get("time"), body.rules.sensor(serial).entry.clock
        for place, record in objects(logic.get("records"), f"{at}/records"):
            named = counts(record.get("counts"), f"{place}/counts", "name", "value")
            if _is_level(named):
                yield Skipped("levels, as balance and occupancy")
            elif is_unfinished(record.get("to"), sent, clock):
                yield Skipped(UNFINISHED)
            else:
                yield _message(record, named, serial, clock, sent=sent)


def _heartbeats(data: JsonObject, body: VendorBody) -> Iterator[bytes | Skipped]:
    """That each logic of the sensor was there, also where nothing was left to tell of it: records
    without persons are only sent by a sensor that is set so (include_empty)."""
    device = an_object(data.get("sensor_info", {}), "/status_data/sensor_info")
    logics = body.rules.logics_of(device.get("serial_number"))
    if not logics:
        yield Skipped(_NOT_COUNTED)
    for logic in logics:
        entry = body.rules.sensor(logic).entry
        yield heartbeat(logic, device.get("time"), entry.clock, entry.status_seconds)


def _is_level(named: NamedCounts) -> bool:
    # It may be set by hand, and be negative: no persons in or out.
    return bool(named) and all(name in _LEVELS for name, _ in named)


def _message(
    record: JsonObject,
    named: NamedCounts,
    serial: str,
    clock: str,
    sent: Any,
) -> bytes:
    beside = {name: record.get(name) for name in ("samples", "samples_expected")}
    span = record.get("from"), record.get("to")
    return told(serial, span, named, clock, sent=sent, **beside)


def _trees(content: bytes) -> Iterator[JsonObject]:
    """The objects of a body, one after the other. Raises RejectedEvent."""
    if content.lstrip().startswith(b"["):
        wrapped = b'{"all":%s}' % content
        packages = parsed(wrapped, len(wrapped))["all"]
        yield from (tree for _, tree in objects(packages, ""))
        return
    for piece in _pieces(content):
        yield parsed(piece, len(piece))


def _pieces(content: bytes) -> Iterator[bytes]:
    """What lies between the braces of the outermost level, and what is behind the last of them."""
    begin, depth = 0, 0
    for token in _TOKEN.finditer(content):
        depth += {b"{": 1, b"}": -1}.get(token[0], 0)
        if depth > MAX_DEPTH:
            break
        if token[0] == b"}" and depth <= 0:
            yield content[begin : token.end()]
            begin, depth = token.end(), 0
    if content[begin:].strip() or not begin:
        yield content[begin:]
