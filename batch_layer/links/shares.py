"""Links of intervals across midnight.

All copies of such an interval lie on the same days, but its shares lie on two, and the first
interval of a device's instant decides for all of them.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date

from batch_layer.links.header import RecordHeader
from batch_layer.links.linker import Links
from batch_layer.links.reading import read_named, read_shares
from tally.events.identity import SHARE
from tally.time.windows import EPOCH

FilesOfDay = Callable[[date], Sequence[str]]
_BEGIN = re.compile(rf"([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})T{SHARE}")
_NUMBER = len(":1")


# By store and interval, the numbers of the days on which its shares lie.
_Crossing = defaultdict[tuple[str, str], set[int]]


def _new_crossing() -> _Crossing:
    return defaultdict(set)


def link_shares(files: Sequence[str], files_of_day: FilesOfDay) -> Links:
    """The links of the shares in these files whose intervals begin on another day.

    files_of_day: all files of a UTC day, these among them.
    """
    crossing: defaultdict[date, _Crossing] = defaultdict(_new_crossing)
    for headers in read_shares(files):
        for header in headers:
            for begin, interval in _find_begin(header):
                crossing[begin][header.store_id, interval].add(header.day)
    links = Links()
    for begin, intervals in crossing.items():
        names = sorted({interval for _, interval in intervals})
        for first in _find_firsts(read_named(files_of_day(begin), names)):
            for day in intervals[first.store_id, first.event_id]:
                links.headers[day].add(first)
    return links


def _find_begin(header: RecordHeader) -> Iterator[tuple[date, str]]:
    """The day on which a share's interval begins and the interval, if it is another day."""
    match = _BEGIN.search(header.event_id)
    if match is None:
        return
    begin = date.fromisoformat(match[1])
    if (begin - EPOCH.date()).days != header.day:
        yield begin, header.event_id[:-_NUMBER]


def _find_firsts(batches: Iterable[Sequence[RecordHeader]]) -> Iterator[RecordHeader]:
    """The first record by offset of each identity."""
    seen = set()
    for headers in batches:
        for header in headers:
            identity = header.store_id, header.event_id
            if identity not in seen:
                seen.add(identity)
                yield header
