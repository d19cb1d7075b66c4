"""The headers that days need of other days, in Cassandra: the ingest writes them, rebuilds read
them."""

from collections.abc import Iterable, Iterator
from datetime import date, timedelta

import msgspec
from cassandra.cluster import Session

from batch_layer.links.header import RecordHeader
from batch_layer.links.linker import Links
from runtime.cassandra.writes import read_many, write_rows
from runtime.kafka.offsets import Offsets
from tally.time.windows import EPOCH

_INSERT = (
    "INSERT INTO linked_record (family, day, partition, offset, header) VALUES (?, ?, ?, ?, ?)"
)
_SELECT = "SELECT header FROM linked_record WHERE family = ? AND day = ?"
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(RecordHeader).decode


def write_headers(session: Session, family: str, links: Links) -> None:
    """Write the headers; writing them again changes nothing."""
    rows = (
        (family, to_date(day), *header.place, _encode(header))
        for day, headers in links.headers.items()
        for header in headers
    )
    write_rows(session, _INSERT, rows)


def read_links(
    session: Session, family: str, days: Iterable[date], until: Offsets
) -> list[RecordHeader]:
    """The headers that these days need of days that are none of them.

    until: the first offset not considered, by partition: that of a pinned version.
    """
    wanted = {*days}
    found = {header.place: header for header in _read_days(session, family, wanted)}
    return [
        header
        for header in found.values()
        if to_date(header.day) not in wanted and header.offset < until.get(header.partition, 0)
    ]


def _read_days(session: Session, family: str, days: Iterable[date]) -> Iterator[RecordHeader]:
    query = session.prepare(_SELECT)
    for rows in read_many(session, query, [(family, day) for day in days]):
        yield from (_decode(row.header) for row in rows)


def to_date(day: int) -> date:
    """The UTC day of so many days since 1970."""
    return EPOCH.date() + timedelta(days=day)
