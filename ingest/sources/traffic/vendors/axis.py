"""Reads the push "Axis Retail Data" of Axis people counters (P8815-2, application 10).

One body has the persons in and out of one camera, by interval. Source: Axis developer
documentation, "P8815-2 3D people counter API".
"""

from collections.abc import Iterator
from typing import Any

from ingest.contract import vendor
from ingest.contract.vendor import BodyItem, SkippedPart, VendorBody
from ingest.contract.wire import JsonObject, field_error
from ingest.sources.traffic import device
from ingest.sources.traffic.device import PushHead
from tally.errors import RejectedEvent

# Fields of the camera's other answers, which count persons since midnight by its own clock.
_CUMULATIVE = frozenset(("total_in", "total_out", "occupancy", "timestamp"))


def messages(body: VendorBody) -> Iterator[bytes | SkippedPart]:
    """A message for each interval that was over when sent. Raises RejectedEvent, BodyTooLarge."""
    return vendor.collect_parts(_translate_parts(body), body.budget)


def _translate_parts(body: VendorBody) -> Iterator[BodyItem]:
    tree = vendor.parse_body(body.content, body.budget)
    _refuse_cumulative(tree)
    camera = vendor.require_object(tree.get("sensor"), "/sensor")
    serial = vendor.read_name(vendor.require_value(camera, "serial", "/sensor"), "/sensor/serial")
    clock = body.rules.sensor(serial).entry.clock
    head = PushHead(serial, clock, device.read_time(tree, "utcSent"))
    measurements = vendor.require_object(tree.get("data"), "/data").get("measurements")
    for at, measured in vendor.enumerate_items(measurements, "/data/measurements"):
        yield from vendor.guard_event(_messages(measured, at, head), measured, serial)


def _messages(measured: Any, at: str, head: PushHead) -> Iterator[BodyItem]:
    if not isinstance(measured, dict):
        error = field_error("wrong_type", at, "an object is wanted")
        yield vendor.make_placeholder(measured, error, head.serial)
    elif measured.get("kind") != "people-counts":
        yield SkippedPart("measurements of another kind than people-counts")
    elif device.is_unfinished(measured.get("utcTo"), head.sent, head.clock):
        yield SkippedPart(device.UNFINISHED)
    else:
        span = measured.get("utcFrom"), measured.get("utcTo")
        items = measured.get("items")
        # Each adult was counted as a person too: adults are sent beside persons, never instead.
        adults = vendor.read_counts(items, "direction", "adults")
        named_adults = [pair for pair in adults if None not in pair] or None
        counts = vendor.read_counts(items, "direction", "count")
        yield device.encode_interval(head, span, counts, adults=named_adults)


def _refuse_cumulative(tree: JsonObject) -> None:
    if "data" not in tree and not _CUMULATIVE.isdisjoint(tree):
        what = "these are counts since midnight: one that is lost, or comes twice, would be counted"
        fix = 'let the camera push "Axis Retail Data" every 1, 5 or 15 minutes'
        raise RejectedEvent("wrong_type", "", f"{what} as persons; {fix}")
