"""Linkers that are wrong, each in one way."""

from collections.abc import Callable, Iterable

from batch_layer.links.header import RecordHeader
from batch_layer.links.linker import FirstCopies, Links, link_records

Linker = Callable[[FirstCopies, Iterable[RecordHeader]], Links]


def without_later_copies(copies: FirstCopies, records: Iterable[RecordHeader]) -> Links:
    """The first copies of later ones are not noted."""
    batch = [*records]
    links = link_records(copies, batch)
    for record in batch:
        links.headers[record.day] = {
            header for header in links.headers[record.day] if header.event_id != record.event_id
        }
    return links


def without_references(copies: FirstCopies, records: Iterable[RecordHeader]) -> Links:
    """Names by which voids call receipts are forgotten."""
    return link_records(copies, [_forget_names(record) for record in records])


def _forget_names(record: RecordHeader) -> RecordHeader:
    header = (getattr(record, name) for name in record.__struct_fields__ if name != "names")
    return RecordHeader(*header)


def without_dirty_days(copies: FirstCopies, records: Iterable[RecordHeader]) -> Links:
    """Days whose records' fates have changed are not named."""
    return Links(link_records(copies, records).headers)


def of_the_own_day(copies: FirstCopies, records: Iterable[RecordHeader]) -> Links:
    """The days of earlier records are not told of the new ones."""
    batch = [*records]
    links, days = link_records(copies, batch), {record.day for record in batch}
    for day in [*links.headers]:
        if day not in days:
            del links.headers[day]
    return links


WRONG_LINKERS: dict[str, Linker] = {
    linker.__name__: linker
    for linker in (without_later_copies, without_references, without_dirty_days, of_the_own_day)
}
