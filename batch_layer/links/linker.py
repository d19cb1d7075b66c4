"""Links between records of different days, found as the records come.

The fate of a record depends on others of its store: on the first copy of its identity, and on the
versions and voids of its receipt. Where these lie on other days, their headers are noted for its
day. A rebuild of a day then reads that day's files and these headers, and no other day.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from batch_layer.links.header import RecordHeader, strip_zeros
from tally.events.identity import REFERENCE

# A void that has only its receipt's number or reference finds receipts of so many days before it,
# and of the day after it.
DAYS_BEFORE, DAYS_AFTER = 31, 1
_MANY = 2


class FirstCopies(Protocol):
    """The first copies of all events of one family, by the name of their receipt."""

    def members(self, store_id: str, receipt: str) -> Mapping[str, RecordHeader]:
        """The first copies of the events of a receipt, by event_id."""

    def called(self, store_id: str, name: str, days: range) -> Iterator[RecordHeader]:
        """The receipts of these days that a void may call so, ascending by day."""

    def put(self, receipt: str, header: RecordHeader) -> None:
        """Add the first copy of an event, or replace one that came later."""


@dataclass
class Links:
    """What a number of records has brought.

    headers: by day, those that the day needs of other days; until: by day and partition, the offset
    behind the last record that has changed the fate of a record of another day.
    """

    headers: defaultdict[int, set[RecordHeader]] = field(default_factory=lambda: defaultdict(set))
    until: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, links: "Links") -> None:
        """Add those that further records have brought."""
        for day, headers in links.headers.items():
            self.headers[day] |= headers
        for place, end in links.until.items():
            self.until[place] = max(end, self.until.get(place, 0))

    def add_headers(self, day: int, headers: Iterable[RecordHeader]) -> None:
        """Note for a day those that lie on other days."""
        self.headers[day].update(header for header in headers if header.day != day)

    def add_component(self, members: Iterable[RecordHeader], newest: RecordHeader) -> None:
        """Link records whose fates depend on each other, since `newest` has come."""
        listed = [*members]
        days = {member.day for member in listed}
        if len(days) == 1:
            return
        end = newest.offset + 1
        for day in days:
            self.add_headers(day, listed)
            place = day, newest.partition
            self.until[place] = max(end, self.until.get(place, 0))


def link_records(copies: FirstCopies, records: Iterable[RecordHeader]) -> Links:
    """Add records to the first copies; return the links that they bring.

    The records of a store come in the order of their offsets. Adding them again changes nothing and
    returns the same links.
    """
    links = Links()
    for record in records:
        receipt = strip_zeros(record.position.chain)
        first = copies.members(record.store_id, receipt).get(record.event_id)
        if first is None or record.offset <= first.offset:
            copies.put(receipt, record)
            # At once: of the receipts of one name two are linked, so each is seen as it comes.
            links.add_component(find_component(copies, record, receipt), record)
        elif first.day != record.day:
            # A later copy needs the first one, with all that its fate depends on; the fates of
            # these do not depend on the copy.
            links.add_headers(record.day, find_component(copies, record, receipt))
    return links


@dataclass(frozen=True)
class _EarlierCopies:
    """The first copies of a store up to one offset: what was known when that record came."""

    copies: FirstCopies
    newest: RecordHeader

    def members(self, receipt: str) -> list[RecordHeader]:
        """Those of the events of a receipt."""
        members = self.copies.members(self.newest.store_id, receipt).values()
        return [header for header in members if header.offset <= self.newest.offset]

    def called(self, name: str, days: range) -> Iterator[RecordHeader]:
        """The receipts of these days that a void may call so, ascending by day."""
        for header in self.copies.called(self.newest.store_id, name, days):
            if header.offset <= self.newest.offset:
                yield header


def find_component(copies: FirstCopies, newest: RecordHeader, receipt: str) -> set[RecordHeader]:
    """The first copies whose fates depended on each other as the newest record came.

    receipt: that of the newest record, whose events they are, or are related to.
    """
    found: set[RecordHeader] = set()
    earlier = _EarlierCopies(copies, newest)
    waiting, seen = [receipt], {receipt}
    while waiting:
        members = earlier.members(waiting.pop())
        found.update(members)
        for name in _related_names(earlier, members):
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return found


def _related_names(copies: _EarlierCopies, members: Iterable[RecordHeader]) -> Iterator[str]:
    """The other receipts that these events belong to, or whose voids may mean these."""
    for member in members:
        chain = member.position.chain
        if chain.startswith(f"{REFERENCE}:"):
            yield from _called_receipts(copies, chain)
        for name in member.called:
            if copies.members(strip_zeros(name)):
                yield strip_zeros(name)


def _called_receipts(copies: _EarlierCopies, name: str) -> Iterator[str]:
    """The receipts of that name near its voids; of many, two: such a name identifies none."""
    voids = copies.members(strip_zeros(name))
    days = [void.day for void in voids if void.position.chain == name]
    span = range(min(days) - DAYS_BEFORE, max(days) + DAYS_AFTER + 1)
    receipts: set[str] = set()
    for header in copies.called(name, span):
        if len(receipts) == _MANY:
            break
        if header.position.chain not in receipts:
            receipts.add(header.position.chain)
            yield strip_zeros(header.position.chain)
