"""Reads the push "Axis Retail Data" of Axis people counters (P8815-2, application 10).

One body has the persons in and out of one camera, by interval. Source: Axis developer
documentation, "P8815-2 3D people counter API".
"""

from collections.abc import Iterator
from typing import Any

from ingest.contract.vendor import (
    SkippedPart,
    UnreadablePart,
    VendorBody,
    collect_parts,
    enumerate_items,
    guard_event,
    make_placeholder,
    parse_body,
    read_counts,
    read_name,
    require_object,
    require_value,
    wrong_type_error,
)
from ingest.contract.wire import JsonObject
from ingest.sources.traffic.device import (
    UNFINISHED,
    PushHead,
    encode_interval,
    is_unfinished,
    read_time,
    round_to_second,
)
from tally.errors import RejectedEvent

# Fields of the camera's other answers, which count persons since midnight by its own clock.
_CUMULATIVE = frozenset(("total_in", "total_out", "occupancy", "timestamp"))


def messages(body: VendorBody) -> Iterator[bytes | SkippedPart]:
    """Yield a message for each interval of people counts that was over when it was sent.

    Raises RejectedEvent for a body that is no push of people counts, or names no camera;
    BodyTooLarge.
    """
    return collect_parts(_translate_parts(body), body.budget)


def _translate_parts(body: VendorBody) -> Iterator[bytes | SkippedPart | UnreadablePart]:
    tree = parse_body(body.content, body.budget)
    _refuse_cumulative(tree)
    camera = require_object(tree.get("sensor"), "/sensor")
    serial = read_name(require_value(camera, "serial", "/sensor"), "/sensor/serial")
    clock = body.rules.sensor(serial).entry.clock
    head = PushHead(serial, clock, read_time(tree, "utcSent"))
    measurements = require_object(tree.get("data"), "/data").get("measurements")
    for at, measured in enumerate_items(measurements, "/data/measurements"):
        yield from guard_event(_messages(measured, at, head), measured, serial)


def _messages(
    measured: Any, at: str, head: PushHead
) -> Iterator[bytes | SkippedPart | UnreadablePart]:
    if not isinstance(measured, dict):
        yield make_placeholder(measured, wrong_type_error("object", at), head.serial)
    elif measured.get("kind") != "people-counts":
        yield SkippedPart("measurements of another kind than people-counts")
    elif is_unfinished(measured.get("utcTo"), head.sent, head.clock):
        yield SkippedPart(UNFINISHED)
    else:
        yield _message(measured, head)


def _message(measured: JsonObject, head: PushHead) -> bytes:
    items = measured.get("items")
    # Adults are sent beside the persons and never instead: each adult was counted as a person too.
    adults = read_counts(items, "direction", "adults")
    return encode_interval(
        head.serial,
        (measured.get("utcFrom"), measured.get("utcTo")),
        read_counts(items, "direction", "count"),
        head.clock,
        sent=round_to_second(head.sent, head.clock),
        adults=[pair for pair in adults if None not in pair] or None,
    )


def _refuse_cumulative(tree: JsonObject) -> None:
    if "data" not in tree and not _CUMULATIVE.isdisjoint(tree):
        raise RejectedEvent(
            "wrong_type",
            "",
            "these are counts since midnight: one that is lost, or comes twice, would be counted"
            ' as persons; let the camera push "Axis Retail Data" every 1, 5 or 15 minutes',
        )
