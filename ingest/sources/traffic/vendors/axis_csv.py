"""Axis people counters: the export as CSV, `start,end,in,out` by minute.

Its times are the store's own, without a zone: in the night in which clocks are set back an hour
comes twice, and only the order of the lines tells which is which. Source: Axis developer
documentation, "P8815-2 3D people counter API".
"""

import csv
import io
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from ingest.contract.vendor import Skipped, VendorBody
from ingest.sources.traffic.device import told
from tally.errors import BadInstant, RejectedEvent
from tally.instants import instant_text, instants_showing, parse_instant

_LineSpan: TypeAlias = tuple[datetime | None, datetime | None]
_COLUMNS = ("start", "end", "in", "out")
# An export that ends "now" ends in a bin that is not over: sent again later it has other counts.
_SETTLED = timedelta(seconds=60)


def messages(body: VendorBody) -> Iterator[bytes | Skipped]:
    """A message for each line that was over a minute before the file was exported.

    The parameter `sensor` names the camera, `exported_at` the instant, by default that of arrival.
    Raises RejectedEvent for another file, camera or instant.
    """
    serial = body.parameters.get("sensor")
    zone = body.rules.sensor(serial).zone
    if zone is None:
        raise RejectedEvent(
            "unknown_sensor",
            "/sensor",
            "the file's times are a store's: name its camera, one of the stores file, as in"
            " ?sensor=accc00000001",
        )
    settled = _exported_at(body) - _SETTLED
    reached: datetime | None = None
    for line in _lines(body.content):
        begins, ends = _span(line, zone, reached)
        reached = ends or reached
        if ends is not None and ends > settled:
            yield Skipped("intervals that were not over a minute before they were exported")
        else:
            yield _message(line, serial, (begins, ends))


def _exported_at(body: VendorBody) -> datetime:
    said = body.parameters.get("exported_at")
    if said is None:
        return body.arrived_at
    try:
        # By a clock that is fast it would be an export of what is not over.
        return min(parse_instant(said, "/exported_at"), body.arrived_at)
    except BadInstant as error:
        raise RejectedEvent(f"timestamp_{error.kind}", "/exported_at", str(error)) from error


def _message(line: Mapping[str, str], serial: str | None, span: _LineSpan) -> bytes:
    # A time that nothing tells stays as it is: without a zone no contract takes it.
    begins, ends = span
    said = (
        instant_text(begins) if begins else line["start"],
        instant_text(ends) if ends else line["end"],
    )
    counts = [(name, _number(line[name])) for name in ("in", "out")]
    return told(serial, said, counts)


def _lines(content: bytes) -> Iterator[Mapping[str, str]]:
    try:
        reader = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        if missing := [name for name in _COLUMNS if name not in (reader.fieldnames or ())]:
            raise RejectedEvent(
                "missing_field", "", f"the first line lacks {', '.join(missing)} as a column"
            )
        for line in reader:
            yield {name: line[name] or "" for name in _COLUMNS}
    except UnicodeDecodeError as error:
        raise RejectedEvent("not_utf8", "", f"the file is not UTF-8: {error.reason}") from error
    except csv.Error as error:
        raise RejectedEvent("wrong_type", "", f"the file is no CSV: {error}") from error


def _span(line: Mapping[str, str], zone: ZoneInfo, reached: datetime | None) -> _LineSpan:
    """Begin and end (UTC) of a line; None what the line, and the end of the one before, leave open.

    Clocks are set back from 03:00 to 02:00, by quarter hours:

    start  end     reached    begins, ends (UTC)
    01:45  02:00   23:45      23:45, 00:00
    02:45  02:00   00:45      00:45, 01:00
    02:00  02:15   01:00      01:00, 01:15
    02:00  02:15   nothing    either: None
    """
    starts, ends = (_instants(line[name], zone) for name in ("start", "end"))
    # Of two the one at which the line before has ended.
    open_ones = starts if len(starts) == 1 else [one for one in starts if one == reached]
    begins = next(iter(open_ones), None)
    if begins is None:
        return None, None
    return begins, next((end for end in ends if end > begins), None)


def _instants(local: str, zone: ZoneInfo) -> list[datetime]:
    try:
        return instants_showing(datetime.strptime(local, "%Y-%m-%d %H:%M:%S"), zone)
    except ValueError:
        return []


def _number(text: str) -> Any:
    return int(text) if text.isdecimal() and len(text) < 10 else text
