"""Intervals that begin alike and have other lengths, as the audit reads them: of the later one no
share counts."""

from datetime import timedelta
from pathlib import Path

from msgspec.structs import replace

from ingest.sources.traffic.contract import CanonicalInterval, shares
from ops.audit.master import Fates, OffsetSpan
from runtime.registry.sources import TRAFFIC
from tally.events.identity import fingerprint, version_id
from tests.support.sources.canonical import interval
from tests.unit.audit.test_master import MONDAY, opened, row


def told(seconds: int, persons: int, revision: int = 0) -> CanonicalInterval:
    plain = interval("1", "door", MONDAY, persons)
    event_id = version_id(plain.event_id, revision)
    digest = fingerprint([event_id, seconds, persons])
    return replace(plain, event_id=event_id, fingerprint=digest, interval_seconds=seconds)


def entries(home: Path, *intervals: CanonicalInterval) -> tuple[Fates, list[int]]:
    """What became of the shares, and the persons of each quarter hour."""
    records = [share for one in intervals for share in shares(one)]
    master = opened(home, [row(at, one, source="traffic") for at, one in enumerate(records)])
    fates = master.fates("traffic", {0: OffsetSpan(0, 99, 99)})[0]
    by_start = {
        start: values[()]["entries"] for (_, start), values in master.window_values(TRAFFIC).items()
    }
    starts = [MONDAY + number * timedelta(minutes=15) for number in range(4)]
    return fates, [by_start.get(start, 0) for start in starts]


def test_a_longer_one_is_a_conflict_where_it_alone_lies_too(tmp_path: Path) -> None:
    quarter, hour = told(900, 12), told(3600, 40)

    found = entries(tmp_path, quarter, hour, quarter)

    assert found == (Fates(counted=1, duplicate=1, conflict=4), [12, 0, 0, 0])


def test_a_shorter_one_is_a_conflict_of_the_hour(tmp_path: Path) -> None:
    found = entries(tmp_path, told(3600, 40), told(900, 12))

    assert found == (Fates(counted=4, conflict=1), [10, 10, 10, 10])


def test_a_correction_of_another_length_takes_the_place_of_all_of_it(tmp_path: Path) -> None:
    for number, order in enumerate([(0, 1), (1, 0)]):
        both = told(3600, 40), told(900, 12, revision=1)

        fates, found = entries(tmp_path / str(number), *(both[one] for one in order))

        assert (fates.conflict, found) == (0, [12, 0, 0, 0])
