"""Cuts an interval of any length and begin into shares, each within one quarter hour."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from msgspec.structs import replace

from ingest.sources.traffic.record import CanonicalInterval
from tally.algebra.keyed_sum import KeyedSum
from tally.events.identity import VERSION, share_id
from tally.time.instants import format_utc, parse_instant
from tally.time.windows import WINDOW, window_start

_MILLISECOND = timedelta(milliseconds=1)
_COUNTS = (
    *("entries", "exits", "passers_by", "entries_with_passers", "groups_in"),
    *("closed_entries", "inner_entries", "shared_entries", "staff_entries"),
)
# An interval of one hour that begins within a quarter hour ends in the fourth one after it.
MAX_SHARES = 5
# A whole second and half of one, in milliseconds; seconds are rounded half up.
_SECOND, _HALF_SECOND = 1000, 500


def shares(whole: CanonicalInterval) -> Sequence[CanonicalInterval]:
    """One record for each quarter hour that the interval touches, in order.

    An interval within one quarter hour is returned as it is. A later version has a record for each
    quarter hour that any version may touch. Persons are whole numbers: their number up to each
    border is the nearest to an even flow, and the shares add up to the interval. For example, 12
    persons from 10:14:53 on for a quarter of an hour:

        share | from     | seconds | up to its end | persons
        0     | 10:14:53 | 7       | 0.09          | 0
        1     | 10:15:00 | 893     | 12            | 12
    """
    start = parse_instant(whole.happened_at, "/happened_at")
    found = _cut(whole, start)
    if whole.event_id.startswith(VERSION):
        found = [*found, *_empty_shares(whole, start, len(found))]
    return found


def _cut(whole: CanonicalInterval, start: datetime) -> Sequence[CanonicalInterval]:
    length = whole.interval_seconds * _SECOND
    ends = _borders(start, length)
    if len(ends) == 1:
        return (whole,)
    counts: dict[str, int] = {name: getattr(whole, name) for name in _COUNTS}
    has_persons = any(counts.values())
    key = whole.observed_seconds >> KeyedSum.AMOUNT_BITS
    cut_shares = []
    for number, (first, end) in enumerate(pairwise((0, *ends))):
        seconds = (end + _HALF_SECOND) // _SECOND - (first + _HALF_SECOND) // _SECOND
        persons = {
            name: _up_to(end, count, length) - _up_to(first, count, length)
            for name, count in counts.items()
        }
        share = replace(
            whole,
            # The first share has the interval's own id: another record with it is a copy, or a
            # conflict.
            event_id=share_id(whole.event_id, number),
            happened_at=format_utc(start + first * _MILLISECOND),
            interval_seconds=seconds,
            observed_seconds=KeyedSum.encode(key, seconds),
            continued=int(has_persons and first > 0),
            continues=int(has_persons and end < length),
            **persons,
        )
        cut_shares.append(share)
    return cut_shares


def _empty_shares(
    whole: CanonicalInterval, start: datetime, first: int
) -> Iterator[CanonicalInterval]:
    """The empty shares after the end of a version: the version before may have been longer."""
    key = whole.observed_seconds >> KeyedSum.AMOUNT_BITS
    for number in range(first, MAX_SHARES):
        yield replace(
            whole,
            event_id=share_id(whole.event_id, number),
            happened_at=format_utc(window_start(start) + number * WINDOW),
            interval_seconds=0,
            observed_seconds=KeyedSum.encode(key, 0),
            **dict.fromkeys(_COUNTS, 0),
        )


def _borders(start: datetime, length: int) -> list[int]:
    """Milliseconds from the start to the end of each share.

    A share ends with its quarter hour, the last one with the interval.
    """
    to_next = (window_start(start) + WINDOW - start) // _MILLISECOND
    return [*range(to_next, length, WINDOW // _MILLISECOND), length]


def _up_to(end: int, count: int, length: int) -> int:
    """The whole number of persons nearest to an even flow up to a border; a half rounds up."""
    return (2 * count * end + length) // (2 * length)
