"""Headers and links of records in files of the master dataset."""

from datetime import date, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from batch_layer.links.reading import read_headers
from batch_layer.links.shares import link_shares
from batch_layer.master.files import SourceDay, write_file
from tests.unit.batch.master.masters import COLUMNS, record

FIRST, SECOND = date(2026, 3, 1), date(2026, 3, 2)
INTERVAL = "traffic:7:door-1:2026-03-01T23:50:00.000Z"


def write(path: Path, source: str, day: date, *rows: dict[str, object]) -> str:
    """One file of these records; its absolute path."""
    batch = pa.RecordBatch.from_pylist([*rows], schema=COLUMNS)
    [part] = write_file(str(path), SourceDay(source, day), [batch])
    return str(path / part.path)


def share(number: int, offset: int, fingerprint: str, at: datetime) -> dict[str, object]:
    """A share of the interval."""
    name = f"{INTERVAL}:{number}" if number else INTERVAL
    return record(offset) | {"event_id": name, "fingerprint": fingerprint, "happened_at": at}


def test_headers_come_in_the_order_of_offsets_with_names(tmp_path: Path) -> None:
    named = {"value": '{"transaction_id": "42", "reference": "r-1"}'}
    unreadable = {"event_id": None, "store_id": None, "happened_at": None, "fingerprint": None}
    files = [
        write(tmp_path, "sales", FIRST, record(1), record(5) | named, record(6) | unreadable),
        write(tmp_path, "sales", SECOND, record(3)),
    ]

    [headers] = read_headers(files)

    assert [header.offset for header in headers] == [1, 3, 5]
    assert [header.names for header in headers] == [(), (), ("r-1", "42")]
    days = [(day - date(1970, 1, 1)).days for day in (FIRST, SECOND, FIRST)]
    assert [header.day for header in headers] == days


def test_share_after_midnight_is_linked_to_the_first_interval(tmp_path: Path) -> None:
    before = datetime.fromisoformat("2026-03-01T23:50:00Z")
    after = before + timedelta(minutes=10)
    earlier = write(tmp_path, "traffic", FIRST, share(0, 3, "f", before))
    own = write(tmp_path, "traffic", FIRST, share(0, 8, "g", before))
    new = write(tmp_path, "traffic", SECOND, share(1, 9, "g", after))

    links = link_shares([own, new], lambda day: [earlier, own] if day == FIRST else [])

    [(day, headers)] = links.headers.items()
    assert day == (SECOND - date(1970, 1, 1)).days
    assert [header.offset for header in headers] == [3]
    assert links.until == {}


def test_shares_of_one_day_need_no_link(tmp_path: Path) -> None:
    before = datetime.fromisoformat("2026-03-01T23:50:00Z")
    own = write(tmp_path, "traffic", FIRST, share(0, 8, "g", before), share(1, 9, "g", before))

    assert link_shares([own], lambda _: [own]).headers == {}
