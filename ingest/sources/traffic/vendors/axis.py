"""Reads the push "Axis Retail Data" of Axis people counters (P8815-2, application 10).

One body has the persons in and out of one camera, by interval. Source: Axis developer
documentation, "P8815-2 3D people counter API".
"""

from collections.abc import Iterator
from typing import Any

from ingest.contract.vendor import (
    Skipped,
    Unread,
    VendorBody,
    an_object,
    bounded_name,
    counts,
    json_tree,
    needed,
    not_a,
    placed,
    read_event,
    read_parts,
    unread,
)
from ingest.contract.wire import JsonObject
from ingest.sources.traffic.device import (
    UNFINISHED,
    PushHead,
    bounded_time,
    is_unfinished,
    to_second,
    told,
)
from tally.errors import RejectedEvent

# Fields of the camera's other answers, which count persons since midnight by its own clock.
_CUMULATIVE = frozenset(("total_in", "total_out", "occupancy", "timestamp"))


def messages(body: VendorBody) -> Iterator[bytes | Skipped]:
    """Yield a message for each interval of people counts that was over when it was sent.

    Raises RejectedEvent for a body that is no push of people counts, or names no camera; TooMuch.
    """
    return read_parts(_parts(body), body.budget)


def _parts(body: VendorBody) -> Iterator[bytes | Skipped | Unread]:
    tree = json_tree(body.content, body.budget)
    _refuse_cumulative(tree)
    camera = an_object(tree.get("sensor"), "/sensor")
    serial = bounded_name(needed(camera, "serial", "/sensor"), "/sensor/serial")
    clock = body.rules.sensor(serial).entry.clock
    head = PushHead(serial, clock, bounded_time(tree, "utcSent"))
    measurements = an_object(tree.get("data"), "/data").get("measurements")
    for at, measured in placed(measurements, "/data/measurements"):
        yield from read_event(_messages(measured, at, head), measured, serial)


def _messages(measured: Any, at: str, head: PushHead) -> Iterator[bytes | Skipped | Unread]:
    if not isinstance(measured, dict):
        yield unread(measured, not_a("object", at), head.serial)
    elif measured.get("kind") != "people-counts":
        yield Skipped("measurements of another kind than people-counts")
    elif is_unfinished(measured.get("utcTo"), head.sent, head.clock):
        yield Skipped(UNFINISHED)
    else:
        yield _message(measured, head)


def _message(measured: JsonObject, head: PushHead) -> bytes:
    items = measured.get("items")
    # Adults are sent beside the persons and never instead: each adult was counted as a person too.
    adults = counts(items, "direction", "adults")
    return told(
        head.serial,
        (measured.get("utcFrom"), measured.get("utcTo")),
        counts(items, "direction", "count"),
        head.clock,
        sent=to_second(head.sent, head.clock),
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
