"""Reads the CSV export of Axis people counters, `start,end,in,out` by minute.

Its times are the store's own, without a zone: in the night in which clocks are set back an hour
occurs twice, and only the order of the lines distinguishes the two. Source: Axis developer
documentation, "P8815-2 3D people counter API".
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from io import BytesIO, TextIOWrapper
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from ingest.contract.vendor import BodyItem, SkippedPart, VendorBody, collect_parts, guard_event
from ingest.sources.traffic.device import PushHead, encode_interval
from tally.errors import BadInstant, RejectedEvent
from tally.time.instants import format_utc, instants_at_local_time, parse_instant

_CsvLine: TypeAlias = Mapping[str, str]
_LineSpan: TypeAlias = tuple[datetime | None, datetime | None]
_COLUMNS = ("start", "end", "in", "out")
_COMMON_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,9}(\.[0-9]{1,9})?")
_MIDNIGHT, _END_OF_DAY = " 00:00:00", " 24:00:00"
_DAY, _SECOND = timedelta(days=1), timedelta(seconds=1)
# An export up to "now" ends in an unfinished bin, which has other counts if it is sent again later.
_EXPORT_MARGIN = timedelta(seconds=60)


def messages(body: VendorBody) -> Iterator[bytes | SkippedPart]:
    """Yield a message for each line that was over a minute before the file was exported.

    The parameter `sensor` names the camera, `exported_at` the instant, by default that of arrival.
    Raises RejectedEvent for another file, camera or instant; BodyTooLarge.
    """
    return collect_parts(_translate_parts(body), body.budget)


def _translate_parts(body: VendorBody) -> Iterator[BodyItem]:
    serial = body.parameters.get("sensor", "")
    zone = body.rules.sensor(serial).zone
    if zone is None:
        what = "the file's times are a store's: name its camera, one of the stores file"
        raise RejectedEvent("unknown_sensor", "/sensor", f"{what}, as in ?sensor=accc00000001")
    settled = _read_export_time(body) - _EXPORT_MARGIN
    # Empty lines yield nothing, but reading them is work as well.
    body.budget.count_steps(body.content.count(b"\n"))
    reached: datetime | None = None
    for line in _lines(body.content):
        span = begins, ends = _span(line, zone, reached)
        if begins and ends and ends > begins:
            reached = ends
        if not any(line.values()):
            yield SkippedPart("lines without anything in them")
        elif ends is not None and ends > settled:
            yield SkippedPart("intervals that were not over a minute before they were exported")
        else:
            yield from guard_event(_messages(line, serial, span), line, serial)


def _read_export_time(body: VendorBody) -> datetime:
    exported_text = body.parameters.get("exported_at")
    if exported_text is None:
        return body.arrived_at
    try:
        # By a fast clock the export time would be too late, and unfinished intervals seem over.
        return min(parse_instant(exported_text, "/exported_at"), body.arrived_at)
    except BadInstant as error:
        raise RejectedEvent(f"timestamp_{error.kind}", "/exported_at", str(error)) from error


def _messages(line: _CsvLine, serial: str, span: _LineSpan) -> Iterator[bytes]:
    # A time that stays ambiguous is sent unchanged: without a zone the contract refuses it.
    begins, ends = span
    start = format_utc(begins) if begins else line["start"]
    end = format_utc(ends) if ends else line["end"]
    counts = [(name, _number(line[name])) for name in ("in", "out")]
    why = _refusal_reason(span)
    columns = line if why else None
    head = PushHead(serial, "rfc3339", None)
    yield encode_interval(head, (start, end), counts, why=why, columns=columns)


def _refusal_reason(span: _LineSpan) -> str | None:
    """What to correct in a line without a valid time; None for any other line."""
    begins, ends = span
    if begins and ends:
        why = "column end: a time after the one of column start is wanted"
        return None if ends > begins else why
    column = "end" if begins else "start"
    return f"column {column}: one time of the store's clock is wanted, as 2026-03-02 10:00:00"


def _lines(content: bytes) -> Iterator[_CsvLine]:
    try:
        BytesIO(content).readline().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RejectedEvent("not_utf8", "", f"the file is not UTF-8: {error.reason}") from error
    # After the first line, one that is not UTF-8 is only a bad line.
    lines = TextIOWrapper(BytesIO(content), "utf-8-sig", "backslashreplace")
    names = _cells(next(lines, ""))
    if missing := [name for name in _COLUMNS if name not in names]:
        what = f"the first line lacks {', '.join(missing)} as a column"
        raise RejectedEvent("missing_field", "", what)
    for line in lines:
        if line.strip():
            cells_by_name = dict(zip(names, _cells(line), strict=False))
            yield {name: cells_by_name.get(name, "") for name in _COLUMNS}


def _cells(line: str) -> list[str]:
    """The cells of one line alone, so that an unclosed quote does not affect other lines."""
    try:
        cells = next(csv.reader([line], skipinitialspace=True), [])
    except csv.Error:
        cells = [line]
    return [cell.strip() for cell in cells]


def _span(line: _CsvLine, zone: ZoneInfo, reached: datetime | None) -> _LineSpan:
    """Begin and end (UTC) of a line; None for one that stays ambiguous.

    `reached` is the end of the line before, which resolves times that occur twice.

    Clocks are set back from 03:00 to 02:00, by quarter hours:

    start  end     reached    begins, ends (UTC)
    01:45  02:00   23:45      23:45, 00:00
    02:45  02:00   00:45      00:45, 01:00
    02:00  02:15   01:00      01:00, 01:15
    02:00  02:15   nothing    either: None

    Forward from 02:00 to 03:00, by a clock that goes on to 02:00:

    01:45  02:00   00:45      00:45, 01:00
    """
    starts, ends = (_instants(line[name], zone) for name in ("start", "end"))
    # Of two instants the one at which the line before has ended.
    open_starts = starts if len(starts) == 1 else [start for start in starts if start == reached]
    begins = next(iter(open_starts), None)
    if begins is None:
        return None, None
    behind = [end for end in ends if end > begins]
    # An end that is not after the begin is passed on: the contract refuses its length.
    return begins, next(iter(behind or ends[-1:]), None)


# Cached, because the end of a line is the begin of the next one.
@lru_cache(maxsize=64)
def _instants(local: str, zone: ZoneInfo) -> Sequence[datetime]:
    try:
        # The end of a day is the midnight of the next one.
        days = _DAY * local.endswith(_END_OF_DAY)
        shown = _local_time(local.replace(_END_OF_DAY, _MIDNIGHT)) + days
        if instants := instants_at_local_time(shown, zone):
            return instants
        # The first local time that clocks skip is the instant at which they are set forward.
        return [before + _SECOND for before in instants_at_local_time(shown - _SECOND, zone)]
    except (ValueError, OverflowError):
        return []


def _local_time(text: str) -> datetime:
    """The time, without a zone. Raises ValueError."""
    # This reads the usual spelling in a tenth of the time.
    if _COMMON_TIME.fullmatch(text):
        return datetime.fromisoformat(text)
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S")


def _number(text: str) -> Any:
    return Decimal(text) if _NUMBER.fullmatch(text) else text
